"""What the audits ask of a reader of usage: its runs, its single GPUs and its nodes, each at most once."""

import gc
import math
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from slurm_ofu.audits.claims import claims
from slurm_ofu.audits.coverage import coverage
from slurm_ofu.audits.hardware import hardware
from slurm_ofu.audits.idle import idle
from slurm_ofu.audits.job_families import stem_of
from slurm_ofu.audits.regressions import HISTORY_DAYS, regressions
from slurm_ofu.audits.unused import unused
from slurm_ofu.audits.waste import waste
from slurm_ofu.gpu_models import catalogue, normal_name
from slurm_ofu.protocols import UsageReader
from slurm_ofu.values import (
    AuditName,
    AuditResult,
    Config,
    GpuModel,
    GpuTotals,
    RunGpu,
    RunRow,
    Selection,
    UsageRow,
)

_WEEK: Final = 7 * 86_400.0
_NEED_GPUS: Final[frozenset[AuditName]] = frozenset(("unused", "hardware"))  # of all runs
#: Those that say something of a run as such, not of its time in the window.
_JUDGE_WHOLE: Final[frozenset[AuditName]] = frozenset(("idle", "regressions", "claims"))
_IDS_AT_ONCE: Final = 500
_Life = tuple[str, int, float | int]
_NEED_RUNNING_GPUS: Final[AuditName] = "idle"
#: What audits need to know of a GPU: of 400,000 of them the rest would take half a gigabyte.
_KEPT: Final = (
    *("position", "reason", "allocated_seconds", "covered_seconds", "uuid", "gpu_model", "mig_profile"),
    *("sm_share_ratio", "reference_clock_mhz", "tensor_active_seconds", "tensor_ref_seconds"),
    *("sm_active_seconds", "sm_active_covered_seconds", "idle_seconds", "idle_covered_seconds"),
    *("idle_tail_seconds", "non_tensor_seconds", "non_tensor_covered_seconds"),
    *("throttled_power_seconds", "throttled_thermal_seconds", "throttle_covered_seconds"),
)
_NAMES: Final = ("reason", "uuid", "gpu_model", "mig_profile")
_kept_of: Final = attrgetter(*_KEPT)
_NO_MINUTES: Final = (
    "what write-back leaves in Slurm's accounting does not say whether GPUs were idle, or busy without tensor"
    " cores"
)
_NO_GPUS: Final = "Slurm's accounting says nothing of single GPUs"
#: Why an audit cannot be had from Slurm's accounting; those that are not here can.
NOT_FROM_SLURM: Final[Mapping[AuditName, str]] = {
    "waste": _NO_MINUTES,
    "idle": _NO_MINUTES,
    "unused": _NO_GPUS,
    "hardware": _NO_GPUS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What a reader answered, and as of when."""

    config: Config
    now_epoch_s: float
    runs: Sequence[UsageRow]
    whole: Mapping[int, UsageRow] = field(default_factory=dict)  # by run_id, those that the window cuts
    gpus: Mapping[int, Sequence[RunGpu]] = field(default_factory=dict)
    nodes: Sequence[UsageRow] = ()
    history: Sequence[UsageRow] = ()  # the runs, and what came before of the families that they may belong to
    since_epoch_s: float | None = None  # where the window begins

    @property
    def whole_runs(self) -> list[UsageRow]:
        """The runs, none of them cut."""
        return [row if row.run is None else self.whole.get(row.run.run_id, row) for row in self.runs]


_AUDITS: Final[Mapping[AuditName, Callable[[_Asked], AuditResult]]] = {
    "waste": lambda its: waste(its.runs, its.config.audits, its.config.goals),
    "idle": lambda its: idle(
        *(its.runs, its.gpus, its.config.audits, its.config.goals),
        now_epoch_s=its.now_epoch_s,
        whole=its.whole,
    ),
    "unused": lambda its: unused(its.runs, its.gpus, its.config.audits, its.config.goals),
    "regressions": lambda its: regressions(
        its.history, its.config.audits, its.config.goals, since_epoch_s=its.since_epoch_s
    ),
    "claims": lambda its: claims(
        its.whole_runs,
        its.config.audits,
        its.config.goals,
        gpu_models=_models(its.config),
    ),
    "hardware": lambda its: hardware(its.runs, its.gpus, its.config.audits, its.config.goals),
    "coverage": lambda its: coverage(
        *(its.runs, its.nodes, its.config.audits, its.config.goals), gpus=its.gpus
    ),
}


def audit_results(
    config: Config,
    reader: UsageReader,
    names: Iterable[AuditName],
    selection: Selection,
    now_epoch_s: float,
    *,
    single_gpus: bool = True,
) -> list[AuditResult]:
    """The results of these audits over the selected runs, in their order, by the thresholds of ``config``.

    ``single_gpus`` False: the reader knows of none, nor of nodes. Raises StoreError and UsageError as the
    reader does.
    """
    wanted = list(names)
    with _garbage_left():
        return _results(config, reader, wanted, selection, now_epoch_s, single_gpus=single_gpus)


@contextmanager
def _garbage_left() -> Iterator[None]:
    """Half a million values without a cycle: looking for some among them, again and again, takes a quarter of
    the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _results(
    config: Config,
    reader: UsageReader,
    wanted: Sequence[AuditName],
    selection: Selection,
    now_epoch_s: float,
    *,
    single_gpus: bool,
) -> list[AuditResult]:
    runs = reader.jobs(selection)
    history = _with_history(reader, runs, selection) if "regressions" in wanted else []
    whole = {} if _JUDGE_WHOLE.isdisjoint(wanted) else _whole(reader, [*runs, *history], selection)
    asked = _Asked(
        config=config,
        now_epoch_s=now_epoch_s,
        runs=runs,
        gpus=_gpus(reader, runs, selection, wanted) if single_gpus else {},
        whole={
            row.run.run_id: whole[_life(row.run)]
            for row in runs
            if row.run is not None and _life(row.run) in whole
        },
        history=[row if row.run is None else whole.get(_life(row.run), row) for row in history],
        since_epoch_s=selection.start_epoch_s,
        nodes=reader.usage(selection, "node") if single_gpus and "coverage" in wanted else (),
    )
    return [_AUDITS[name](asked) for name in wanted]


def _models(config: Config) -> tuple[GpuModel, ...]:
    """Every GPU model that is known, a site's own in the place of the catalogue's."""
    own = {normal_name(model.name) for model in config.gpu_models}
    return (*config.gpu_models, *(model for model in catalogue() if normal_name(model.name) not in own))


def _with_history(reader: UsageReader, runs: Sequence[UsageRow], selection: Selection) -> list[UsageRow]:
    """The runs, and those before the window that had a user and a name in common with one of them.

    Asked for a week at a time, since most of a site's runs are none of these.
    """
    start = selection.start_epoch_s
    families = {_family(row.run) for row in runs if row.run is not None} - {None}
    if start is None or not families:
        return list(runs)
    earlier: dict[_Life, UsageRow] = {}
    for end in _weeks_before(start)[:-1]:
        begin = end - _WEEK
        for row in reader.jobs(replace(selection, start_epoch_s=begin, end_epoch_s=end)):
            if row.run is not None and _family(row.run) in families:
                earlier[_life(row.run)] = row
    return [*earlier.values(), *(row for row in runs if row.run is None or _life(row.run) not in earlier)]


def _weeks_before(start: float) -> list[float]:
    """The edges of the windows that history is asked for in, the latest first."""
    return [start - week * _WEEK for week in range(math.ceil(HISTORY_DAYS / 7) + 1)]


def _whole(reader: UsageReader, rows: Sequence[UsageRow], selection: Selection) -> dict[_Life, UsageRow]:
    """Those of these runs that a window cuts, uncut: five minutes of a start, or an hour at the end, are no
    word on a run. One that goes on is judged by its latest figures."""
    start, end = selection.start_epoch_s, selection.end_epoch_s
    edges = [*([] if start is None else _weeks_before(start)), *([] if end is None else [end])]
    cut = {
        _life(row.run): (row.run.job_id, *times)
        for row in rows
        if row.run is not None and not row.run.running
        if (times := _times(row.run)) is not None and any(times[0] < edge < times[1] for edge in edges)
    }
    job_ids = sorted({job_id for job_id, _, _ in cut.values()})
    found: dict[_Life, UsageRow] = {}
    for at in range(0, len(job_ids), _IDS_AT_ONCE):
        asked = Selection(
            clusters=selection.clusters,
            job_ids=tuple(job_ids[at : at + _IDS_AT_ONCE]),
            start_epoch_s=min(begin for _, begin, _ in cut.values()),
            end_epoch_s=max(over for _, _, over in cut.values()),
        )
        its = ((_life(row.run), row) for row in reader.jobs(asked) if row.run is not None)
        found |= {life: row for life, row in its if life in cut}
    return found


def _life(run: RunRow) -> _Life:
    """What a run is called in every answer: what comes from Slurm's accounting has another run_id, and maybe
    restart count, in each."""
    return run.cluster, run.job_id, run.restart_count if run.start_epoch_s is None else run.start_epoch_s


def _times(run: RunRow) -> tuple[float, float] | None:
    start, end = run.start_epoch_s, run.end_epoch_s
    return None if start is None or end is None else (start, end)


def _family(run: RunRow) -> tuple[str, str, str] | None:
    """What runs have in common at least that are compared with each other."""
    stem = stem_of(run.job_name)
    return None if stem is None or run.user is None else (run.cluster, run.user, stem.text)


def _gpus(
    reader: UsageReader, runs: Sequence[UsageRow], selection: Selection, wanted: Collection[AuditName]
) -> dict[int, tuple[RunGpu, ...]]:
    """By run, as far as an audit wants them; of runs that are over only where there are several, since one
    has no siblings."""
    everybodys = not _NEED_GPUS.isdisjoint(wanted)
    gaps, running = "coverage" in wanted, everybodys or _NEED_RUNNING_GPUS in wanted
    needed = {
        row.run.run_id
        for row in runs
        if row.run is not None
        and (
            (running and row.run.running)
            or (everybodys and row.sums.gpu_count > 1)
            or (gaps and _differ(row))
        )
    }
    if not needed:
        return {}
    if not (everybodys or gaps) and not selection.states:
        selection = replace(selection, states=("RUNNING",))
    return {
        run_id: tuple(_slim(gpu) for gpu in its)
        for run_id, its in groupby(reader.gpus(selection), key=lambda gpu: gpu.run_id)
        if run_id in needed
    }


def _differ(row: UsageRow) -> bool:
    """Whether the GPUs of a run may be without OFU on different nodes, or for different reasons."""
    several = row.sums.gpu_count > 1 and row.run is not None
    return several and (len(row.sums.reasons) > 1 or row.run is None or row.run.node_count != 1)


def _slim(gpu: RunGpu) -> RunGpu:
    """Names come again and again: one of each is enough."""
    kept: dict[str, Any] = dict(zip(_KEPT, _kept_of(gpu.totals), strict=True))
    for name in _NAMES:
        text = kept[name]
        kept[name] = None if text is None else sys.intern(text)
    return RunGpu(run_id=gpu.run_id, node_name=sys.intern(gpu.node_name), totals=GpuTotals(**kept))
