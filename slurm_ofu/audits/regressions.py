"""Which jobs have become slower than they were: like-named runs, against their own history.

Runs of one name (see ``job_families``), cluster, user, account, partition, GPU model and GPU count are a
family. In a family, by start, a change is looked for in the logarithms of OFU (see ``figures.changes``): a
drop, and where there is one the recovery from it.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from slurm_ofu.audits.arrays import array_key
from slurm_ofu.audits.eligible import heaviest, judged, no_ofu, run_order, runtime_seconds
from slurm_ofu.audits.job_families import Stem, numbers_count, stem_of
from slurm_ofu.figures import figures, pool
from slurm_ofu.figures.changes import Change, Rule, changes, spread_of
from slurm_ofu.figures.ratios import ofu_ratio, relative_error_ratio
from slurm_ofu.figures.work import work_kind
from slurm_ofu.values import (
    AuditConfig,
    AuditEntry,
    AuditResult,
    AuditValue,
    Figures,
    Goals,
    RunRow,
    UsageRow,
)

HISTORY_DAYS: Final = 90  # of runs that this audit needs before the window
_SPREAD: Final = 0.10  # one sigma of the logarithm of OFU within a family: the least that is believed
_FAMILIES_FOR_SPREAD: Final = 5  # from which on the site's own median may say that it is more
_LARGEST_ERROR_RATIO: Final = 0.05  # one sigma of a run's OFU by its OFU
_LEAST_TENSOR_RATIO: Final = 0.01  # OFU that is tensor work also where SM activity is not known
_FLOOR_RATIO: Final = 0.005  # a logarithm needs one
_SHORT_RATIO: Final = 0.2  # of its family's median runtime: what starting up takes weighs too much
_SHOWN_RUNS: Final = 10  # of each side
_MOSTLY: Final = 2 / 3  # of a drop, for it to be that of one factor


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyKey:
    """What runs of one family have in common."""

    stem: str
    cluster: str
    user: str
    account: str | None
    partition: str | None
    gpu_model: str
    gpu_count: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyRun:
    """A judged run of a family; or the tasks of an array that ran side by side, ``run`` the first of them."""

    row: UsageRow
    run: RunRow
    ofu_ratio: float
    start_epoch_s: float

    @property
    def log_ofu(self) -> float:
        """What is compared: changes are factors, whatever the level."""
        return math.log(max(_FLOOR_RATIO, self.ofu_ratio))

    @property
    def measured_gpu_hours(self) -> float:
        """The GPU-hours that its OFU speaks for."""
        return self.row.sums.ofu_covered_seconds / 3600


Families = Mapping[FamilyKey, Sequence[FamilyRun]]


def regressions(
    runs: Sequence[UsageRow], settings: AuditConfig, goals: Goals, *, since_epoch_s: float | None = None
) -> AuditResult:
    """Drops that go on (kind ``drop``), and those that runs recovered from (``recovery``).

    ``runs`` are those of the window and of ``HISTORY_DAYS`` before it, whole: without history there is
    nothing to compare to. ``since_epoch_s``: only what dropped or recovered then or later is listed. Goals
    play no part: a family is held against itself. The weight of a drop is the GPU-hours lost against the
    level before, up to the recovery or to the next drop.
    """
    sorted_out = judged(runs, settings, no_ofu)
    left_out = Counter(sorted_out.left_out)
    families = _families(sorted_out.runs, left_out)
    enough = {key: own for key, own in families.items() if len(own) > settings.regression_runs}
    left_out["few_runs"] += sum(_run_count(own) for key, own in families.items() if key not in enough)
    rule = Rule(
        factor=settings.regression_factor,
        least_before=settings.regression_runs,
        spread=_usual_spread(enough.values()),
    )
    found = [entry for key, own in enough.items() for entry in _entries(key, own, rule, since_epoch_s)]
    entries, below = heaviest(found, settings)
    return AuditResult(
        audit="regressions",
        entries=entries,
        examined_count=sum(map(_run_count, enough.values())),
        left_out={reason: count for reason, count in sorted(left_out.items()) if count > 0},
        summary={
            "family_count": len(enough),
            "drop_count": sum(entry.kind == "drop" for entry in entries),
            "recovery_count": sum(entry.kind == "recovery" for entry in entries),
            "usual_spread_ratio": rule.spread,
            **below,
        },
    )


def _families(rows: Iterable[UsageRow], left_out: Counter[str]) -> Families:
    """The runs by family, by start; those that belong to none are counted."""
    by_stem: dict[FamilyKey, list[tuple[Stem, FamilyRun]]] = defaultdict(list)
    for row in rows:
        reason, stem = _why_in_none(row)
        run, ofu = row.run, ofu_ratio(row.sums)
        if reason is not None or stem is None or run is None or ofu is None or run.start_epoch_s is None:
            left_out[reason or "unaccounted"] += 1
            continue
        member = FamilyRun(row=row, run=run, ofu_ratio=ofu, start_epoch_s=run.start_epoch_s)
        by_stem[_key(stem.text, row, run)].append((stem, member))
    families: dict[FamilyKey, list[FamilyRun]] = defaultdict(list)
    for key, members in by_stem.items():
        members.sort(key=lambda pair: (pair[1].start_epoch_s, run_order(pair[1].run)))
        together = numbers_count([stem for stem, _ in members])
        for stem, member in members:
            families[key if together else _key(stem.whole, member.row, member.run)].append(member)
    return {key: _in_order(members, left_out) for key, members in families.items()}


def _why_in_none(row: UsageRow) -> tuple[str | None, Stem | None]:
    """Why a run is in no family, or its stem."""
    run, sums = row.run, row.sums
    if run is None or run.user is None or run.start_epoch_s is None:
        return "unaccounted", None
    if run.running:
        return "running", None
    kind, ofu = work_kind(sums), ofu_ratio(sums)
    if kind in ("idle", "non_tensor") or ofu is None:
        return kind, None
    if kind == "unknown" and ofu < _LEAST_TENSOR_RATIO:
        return "unknown_work", None
    if len(sums.gpu_models) != 1:
        return "mixed_gpu_models", None
    error = relative_error_ratio(sums)
    if error is not None and error > _LARGEST_ERROR_RATIO:
        return "imprecise", None
    stem = stem_of(run.job_name)
    return (None, stem) if stem is not None else ("generic_name", None)


def _key(stem: str, row: UsageRow, run: RunRow) -> FamilyKey:
    return FamilyKey(
        stem=stem,
        cluster=run.cluster,
        user=run.user or "",
        account=run.account,
        partition=run.partition,
        gpu_model=row.sums.gpu_models[0],
        gpu_count=row.sums.gpu_count,
    )


def _in_order(members: Sequence[FamilyRun], left_out: Counter[str]) -> list[FamilyRun]:
    """By start, without those much shorter than is usual in the family."""
    runtimes = [runtime_seconds(member.run) for member in members]
    known = [seconds for seconds in runtimes if seconds is not None]
    least = _SHORT_RATIO * median(known) if known else 0.0
    kept = [
        member
        for member, seconds in zip(members, runtimes, strict=True)
        if seconds is None or seconds >= least
    ]
    left_out["short_of_family"] += len(members) - len(kept)
    return sorted(_by_submission(kept), key=lambda member: (member.start_epoch_s, run_order(member.run)))


def _by_submission(members: Sequence[FamilyRun]) -> Iterable[FamilyRun]:
    """Tasks of an array that ran side by side as one: they are different things by design, so that one's OFU
    is no history of another's. Those that ran one after the other, as a chain of checkpoints, stay runs."""
    groups: dict[tuple[object, ...], list[FamilyRun]] = defaultdict(list)
    for member in sorted(members, key=lambda member: (member.start_epoch_s, run_order(member.run))):
        groups[array_key(member.run)].append(member)
    for group in groups.values():
        if _overlap([member.run for member in group]):
            sums = pool(member.row.sums for member in group)
            ofu = ofu_ratio(sums)
            yield replace(
                group[0],
                row=replace(group[0].row, sums=sums),
                ofu_ratio=group[0].ofu_ratio if ofu is None else ofu,
            )
        else:
            yield from group


def _overlap(runs: Sequence[RunRow]) -> bool:
    """Whether any of them, by start, began before one before it was over."""
    last_end = -math.inf
    for run in runs:
        if run.start_epoch_s is not None and run.start_epoch_s < last_end:
            return True
        last_end = max(last_end, -math.inf if run.end_epoch_s is None else run.end_epoch_s)
    return False


def _run_count(members: Iterable[FamilyRun]) -> int:
    return sum(member.row.sums.run_count for member in members)


def _usual_spread(families: Iterable[Sequence[FamilyRun]]) -> float:
    """The median family's spread, where the site has enough families that tell it."""
    spreads = [spread_of([member.log_ofu for member in family]) for family in families]
    known = [spread for spread in spreads if spread is not None]
    return max(_SPREAD, median(known)) if len(known) >= _FAMILIES_FOR_SPREAD else _SPREAD


def _entries(
    key: FamilyKey, family: Sequence[FamilyRun], rule: Rule, since_epoch_s: float | None
) -> Iterable[AuditEntry]:
    levels = [member.log_ofu for member in family]
    found = changes(levels, rule)
    for number, change in enumerate(found):
        if change.log_ratio >= 0 or not _has_history(levels, found[: number + 1], rule):
            continue
        recovery = _recovery(levels, change, found[number + 1 :], rule)
        last = change if recovery is None else recovery
        if since_epoch_s is None or family[last.after.start].start_epoch_s >= since_epoch_s:
            next_drop = next((later for later in found[number + 1 :] if later.log_ratio < 0), None)
            stops = [later.after.start for later in (recovery, next_drop) if later is not None]
            end = min(stops, default=len(family))
            yield _entry(key, family, change, recovery, lost_until=end)


def _has_history(levels: Sequence[float], so_far: Sequence[Change], rule: Rule) -> bool:
    """Whether the level after the last change is also a drop against that of enough runs before it."""
    most = median(levels[position] for position in so_far[-1].after) + math.log(rule.factor)
    return any(
        len(change.before) >= rule.least_before
        and median(levels[position] for position in change.before) >= most
        for change in so_far
    )


def _recovery(levels: Sequence[float], drop: Change, later: Sequence[Change], rule: Rule) -> Change | None:
    """The first change after which the level is again within the factor of what it was before the drop."""
    enough = median(levels[position] for position in drop.before) - math.log(rule.factor)
    for change in later:
        if change.log_ratio > 0 and median(levels[position] for position in change.after) > enough:
            return change
    return None


def _entry(
    key: FamilyKey, family: Sequence[FamilyRun], drop: Change, recovery: Change | None, *, lost_until: int
) -> AuditEntry:
    before = family[drop.before.start : drop.before.stop]
    after = family[drop.after.start : drop.after.stop]
    former = math.exp(median(member.log_ofu for member in before))
    lost = math.fsum(
        member.measured_gpu_hours * max(0.0, 1 - member.ofu_ratio / former)
        for member in family[drop.after.start : lost_until]
    )
    shown = (*after[:_SHOWN_RUNS], *before[-_SHOWN_RUNS:])
    return AuditEntry(
        audit="regressions",
        kind="drop" if recovery is None else "recovery",
        subject=key.stem,
        weight_gpu_hours=lost,
        figures={
            **_change_figures(before, after, drop),
            **({} if recovery is None else _recovery_figures(family, recovery)),
            "gpu_count": key.gpu_count,
        },
        user=key.user,
        account=key.account,
        partition=key.partition,
        gpu_model=key.gpu_model,
        runs=tuple(member.run for member in shown),
    )


def _change_figures(
    before: Sequence[FamilyRun], after: Sequence[FamilyRun], drop: Change
) -> dict[str, AuditValue]:
    former, later = _pooled(before), _pooled(after)
    return {
        "factor": math.exp(-drop.log_ratio),
        "changed_epoch_s": after[0].start_epoch_s,
        "before_ofu_ratio": former.ofu_ratio,
        "before_ofu_error_pp": former.ofu_error_pp,
        "before_coverage_ratio": former.coverage_ratio,
        "after_ofu_ratio": later.ofu_ratio,
        "after_ofu_error_pp": later.ofu_error_pp,
        "after_coverage_ratio": later.coverage_ratio,
        "before_run_count": _run_count(before),
        "after_run_count": _run_count(after),
        "moved": _moved(former, later),
        "before_tensor_active_ratio": former.tpa_mean_ratio,
        "after_tensor_active_ratio": later.tpa_mean_ratio,
        "before_active_clock_ratio": former.active_clock_ratio,
        "after_active_clock_ratio": later.active_clock_ratio,
        "standard_errors": drop.standard_errors,
        "chance_ratio": drop.chance_ratio,
    }


def _recovery_figures(family: Sequence[FamilyRun], recovery: Change) -> dict[str, AuditValue]:
    recovered = family[recovery.after.start : recovery.after.stop]
    its = _pooled(recovered)
    return {
        "recovered_epoch_s": recovered[0].start_epoch_s,
        "recovered_ofu_ratio": its.ofu_ratio,
        "recovered_ofu_error_pp": its.ofu_error_pp,
        "recovered_coverage_ratio": its.coverage_ratio,
        "recovered_run_count": _run_count(recovered),
        "recovered_standard_errors": recovery.standard_errors,
    }


def _pooled(members: Iterable[FamilyRun]) -> Figures:
    return figures(pool(member.row.sums for member in members))


def _moved(former: Figures, later: Figures) -> str | None:
    """Which of OFU's two factors the drop is due to: tensor_activity, clock, or both; ``None``: not known."""
    activity = _log_drop(former.tpa_mean_ratio, later.tpa_mean_ratio)
    clock = _log_drop(former.active_clock_ratio, later.active_clock_ratio)
    if activity is None or clock is None or activity + clock <= 0:
        return None
    share = activity / (activity + clock)
    if share >= _MOSTLY:
        return "tensor_activity"
    return "clock" if share <= 1 - _MOSTLY else "both"


def _log_drop(former: float | None, later: float | None) -> float | None:
    if former is None or later is None or former <= 0 or later <= 0:
        return None
    return math.log(former / later)
