"""Entries of the audits that look for patterns, in words: regressions, claims, hardware."""

from collections.abc import Iterator, Mapping
from datetime import tzinfo
from typing import Final

from slurm_ofu.reports.audit_figures import (
    MOST_JOBS,
    Figures,
    counted,
    is_array,
    jobs_of,
    known,
    measured_words,
    number,
    ofu_words,
    run_line,
)
from slurm_ofu.reports.free_text import printable
from slurm_ofu.reports.run_words import display_job_id
from slurm_ofu.reports.wording import UNKNOWN, count, hours, moment_of, name, percent
from slurm_ofu.values import AuditEntry

#: Why what a job states of itself may differ from OFU.
_CAUSES: Final[Mapping[str, str]] = {
    "recompute": "OFU counts recomputed activations, the stated figure may not",
    "moe_or_hybrid_formula": "the formula for FLOPs may count experts or layers that did not run",
    "sparse_peak": "it may be against the sparse peak, twice the dense one",
    "number_format": "the peak may be that of another number format",
    "other_gpus_peak": "it may be against the peak of another GPU",
}


def claim_words(entry: AuditEntry, zone: tzinfo) -> Iterator[str]:
    """A job whose stated figure is far from its OFU."""
    stated = percent(number(entry, "stated_ratio"))
    measured = measured_words(entry.figures, "measured_ofu_ratio", gpu_model=entry.gpu_model)
    factor = number(entry, "stated_over_measured")
    beside = f"measured {measured}" if factor is None else f"{factor:.2f} times the measured {measured}"
    yield f"{run_line(entry)}: states {stated}, {beside}"
    said = entry.figures.get("claim")
    of_all = is_array(entry) and len(entry.runs) > 0
    farthest = f" by {display_job_id(entry.runs[0])}, the farthest off" if of_all else ""
    measured_hours = f"{hours(entry.weight_gpu_hours)} GPU-hours measured{' in all' if of_all else ''}"
    yield f"as stated{farthest}: {name(str(said))}; {measured_hours}"
    causes = str(entry.figures.get("likely_causes") or "")
    for cause in filter(None, causes.split(", ")):
        other = entry.figures.get("other_gpu_models") if cause == "other_gpus_peak" else None
        yield _CAUSES.get(cause, cause.replace("_", " ")) + ("" if other is None else f": {name(str(other))}")


def claims_overall(its: Figures) -> str:
    """How well stated and measured go together."""
    pearson, error = known(its, "pearson_r"), known(its, "mean_absolute_error_pp")
    parts = [
        counted(known(its, "compared_count"), "run") + " compared",
        None if pearson is None else f"correlation {pearson:.2f}",
        None if error is None else f"off by {error:.1f} points in the mean",
        counted(known(its, "outlier_count"), "outlier"),
    ]
    return ", ".join(part for part in parts if part is not None)


def drop_words(entry: AuditEntry, zone: tzinfo) -> Iterator[str]:
    """A family of jobs whose OFU fell, and whether it is up again."""
    factor, since = number(entry, "factor"), moment_of(number(entry, "changed_epoch_s"), zone)
    slower = UNKNOWN if factor is None else f"{factor:.1f}"
    gpus = f"{count(number(entry, 'gpu_count'))} × {name(entry.gpu_model)}"
    recovered, lost = number(entry, "recovered_epoch_s"), f"{hours(entry.weight_gpu_hours)} GPU-hours lost"
    told = (
        f"OFU down by a factor of {slower} (median run) since {since}, {lost}"
        if recovered is None
        else f"OFU up again since {moment_of(recovered, zone)}; down by a factor of {slower} (median run)"
        f" from {since} until then, {lost}"
    )
    yield f"{printable(entry.subject)}, {name(entry.user)}, partition {name(entry.partition)}, {gpus}: {told}"
    yield f"{_side(entry, 'before')}, then {_side(entry, 'after')}{_moved(entry)}"
    if recovered is not None:
        yield f"since it is up again {_side(entry, 'recovered')}"
    yield from _both_sides(entry)


def regressions_overall(its: Figures) -> str:
    """How many families there were, and how many changed."""
    families = known(its, "family_count")
    drops, recoveries = (count(known(its, f"{kind}_count")) for kind in ("drop", "recovery"))
    spread = percent(known(its, "usual_spread_ratio"), digits=0)
    of = "1 family" if families == 1 else f"{count(families)} families"
    return f"of {of} of runs {drops} fell and {recoveries} recovered; usual spread of a family {spread}"


def lag_words(entry: AuditEntry, zone: tzinfo) -> Iterator[str]:
    """A GPU, or a node, that lags the others in its jobs."""
    lag, wasted = percent(number(entry, "lag_ratio")), hours(entry.weight_gpu_hours)
    how = {
        "clock": f"its clock is {lag} below that of",
        "thermal": f"heat slowed it down for {lag} more of the time than",
        "ofu": f"its OFU is {lag} below that of",
    }.get(entry.kind.partition("_")[2], f"{lag} behind")
    yield (
        f"{printable(entry.subject)} ({name(entry.gpu_model)}): {how} the others"
        f" of its jobs (median); {wasted} GPU-hours lost, if they wait for it"
    )
    jobs, users = counted(number(entry, "job_count"), "job"), counted(number(entry, "user_count"), "user")
    chance = _chance(number(entry, "chance_ratio"))
    yield f"in {count(number(entry, 'lagging_job_count'))} of {jobs} of {users}{chance}{_uuid(entry)}"
    yield f"most in jobs: {jobs_of(entry)}"


def suspect_words(entry: AuditEntry, zone: tzinfo) -> Iterator[str]:
    """A GPU whose counters contradicted each other."""
    yield (
        f"{printable(entry.subject)} ({name(entry.gpu_model)}): its counters contradicted each other for"
        f" {hours(entry.weight_gpu_hours)} GPU-hours"
    )
    jobs, users = counted(number(entry, "job_count"), "job"), counted(number(entry, "user_count"), "user")
    last = moment_of(number(entry, "last_epoch_s"), zone)
    yield f"in {jobs} of {users}, the last until {last}: {jobs_of(entry)}{_uuid(entry)}"


def hardware_overall(its: Figures) -> str:
    """How much there was to compare, besides GPUs."""
    return f"{counted(known(its, 'node_count'), 'node')} compared as well"


def _uuid(entry: AuditEntry) -> str:
    uuid = entry.figures.get("uuid")
    return "" if uuid is None else f"; {name(str(uuid))}"


def _chance(ratio: float | None) -> str:
    """How likely it would be if nothing were the matter."""
    if ratio is None:
        return ""
    once = "less than once in 1,000,000" if ratio < 1e-6 else f"once in {round(1 / ratio):,}"
    return f" (by chance: {once})"


def _side(entry: AuditEntry, side: str) -> str:
    """``OFU 41.0 % ±0.1 (coverage 99 %) in 12 runs``."""
    runs = counted(number(entry, f"{side}_run_count"), "run")
    return f"{ofu_words(entry.figures, prefix=f'{side}_')} in {runs}"


def _moved(entry: AuditEntry) -> str:
    """Which factor of OFU fell."""
    moved, chance = entry.figures.get("moved"), number(entry, "chance_ratio")
    words = {
        "tensor_activity": "; less tensor activity at about the same clock",
        "clock": "; a lower clock",
        "both": "; less tensor activity and a lower clock",
    }
    return words.get(str(moved), "") + _chance(chance)


def _both_sides(entry: AuditEntry) -> Iterator[str]:
    """The jobs nearest to the change: those after it, and those before it. Runs come in this order."""
    since = number(entry, "changed_epoch_s")
    for word, wanted in (("after", True), ("before", False)):
        its = [
            run for run in entry.runs if since is not None and ((run.start_epoch_s or 0.0) >= since) == wanted
        ]
        nearest = its[:MOST_JOBS] if wanted else its[-MOST_JOBS:]
        if nearest:
            yield f"jobs {word}: {', '.join(map(display_job_id, nearest))}"
