"""The fields that ``--format`` chooses from: sacct's own where it has them, and those of OFU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from slurm_ofu.figures import compare_claim
from slurm_ofu.figures.bands import BAND_NAMES
from slurm_ofu.reports.fields import Value, safe
from slurm_ofu.reports.run_words import display_job_id, elapsed, shown_state
from slurm_ofu.reports.wording import (
    NOT_MEASURED,
    UNKNOWN,
    bands,
    count,
    error_points,
    hours,
    ofu,
    percent,
)
from slurm_ofu.values import Figures, GroupBy, RunRow, UsageRow

NO_TIME = "Unknown"  # sacct's word, which scripts know

Kind = Literal["text", "time", "length", "number", "ratio", "points", "hours"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a line is about. ``shown_time`` puts seconds since 1970 into words."""

    row: UsageRow
    its: Figures
    by: GroupBy
    shown_time: Callable[[float], str]

    @property
    def run(self) -> RunRow | None:
        """The run of a line that is about one."""
        return self.row.run


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedField:
    """One field. ``width`` is its column's; a value is for programs: a ratio, empty where not known."""

    name: str
    width: int
    kind: Kind
    of: Callable[[Subject], Value]
    meaning: str
    of_run: bool = False  # only where a line is about one run
    of_group: GroupBy | None = None  # … or about such a group


def machine_value(field: PrintedField, subject: Subject) -> Value:
    """The value for programs; times and lengths of time as sacct has them."""
    value = field.of(subject)
    if field.kind == "time":
        return NO_TIME if not isinstance(value, float) else safe(subject.shown_time(value))
    return safe(value)


def shown_value(field: PrintedField, subject: Subject, digits: int | None = None) -> str:
    """The value for people: ratios in per cent; what is not known is said. ``digits``: of hours."""
    value = machine_value(field, subject)
    if field.kind in ("text", "time", "length"):
        return UNKNOWN if value is None else str(value) if not isinstance(value, list) else _words(value)
    if value is not None and not isinstance(value, int | float):
        return str(value)
    if field.name == "OFU":
        return ofu(subject.its, error=False).strip()
    match field.kind:
        case "ratio":
            return percent(value, absent=UNKNOWN if field.name == "Coverage" else NOT_MEASURED)
        case "points":
            return NOT_MEASURED if value is None else error_points(100 * value)
        case "hours":
            return hours(value, absent=UNKNOWN if field.name == "GPUHours" else NOT_MEASURED, digits=digits)
    return count(value)


def _words(values: list[str] | list[int]) -> str:
    return " ".join(map(str, values))


def _run(
    name: str, width: int, of: Callable[[RunRow], Value], meaning: str, kind: Kind = "text"
) -> PrintedField:
    def value(subject: Subject) -> Value:
        return None if subject.run is None else of(subject.run)

    return PrintedField(name=name, width=width, kind=kind, of=value, meaning=meaning, of_run=True)


def _figure(name: str, width: int, kind: Kind, of: Callable[[Figures], Value], meaning: str) -> PrintedField:
    return PrintedField(
        name=name, width=width, kind=kind, of=lambda subject: of(subject.its), meaning=meaning
    )


def _either(name: str, width: int, of: Callable[[RunRow], Value], meaning: str, by: GroupBy) -> PrintedField:
    """Of a run, or the group where lines are by it."""

    def value(subject: Subject) -> Value:
        if subject.run is not None:
            return of(subject.run)
        return subject.row.group

    return PrintedField(
        name=name, width=width, kind="text", of=value, meaning=meaning, of_run=True, of_group=by
    )


def _group(name: str, width: int, meaning: str, by: GroupBy) -> PrintedField:
    def value(subject: Subject) -> Value:
        return subject.row.group

    return PrintedField(name=name, width=width, kind="text", of=value, meaning=meaning, of_group=by)


def _any_group(subject: Subject) -> Value:
    if subject.run is not None:
        return display_job_id(subject.run)
    return subject.row.group


def _elapsed(run: RunRow) -> Value:
    seconds = _elapsed_seconds(run)
    return None if seconds is None else elapsed(seconds)


def _elapsed_seconds(run: RunRow) -> float | None:
    """By Slurm; until its accounting was read, from the beginning to the end, or as far as is known."""
    if run.elapsed_seconds is not None:
        return run.elapsed_seconds
    if run.start_epoch_s is None or run.end_epoch_s is None:
        return None
    return max(0.0, run.end_epoch_s - run.start_epoch_s)


def _whole(seconds: float | None) -> Value:
    return None if seconds is None else int(seconds)


def _error_ratio(its: Figures) -> float | None:
    return None if its.ofu_error_pp is None else its.ofu_error_pp / 100


def _stated(subject: Subject) -> Value:
    claim = None if subject.run is None else subject.run.claim
    return None if claim is None else compare_claim(claim, subject.its).stated_ratio


_OF_SLURM: Final = (
    _either("Account", 10, lambda run: run.account, "account", "account"),
    _run("AllocTRES", 10, lambda run: run.alloc_tres, "what Slurm allocated"),
    _run("Cluster", 10, lambda run: run.cluster, "cluster"),
    _run("Comment", 14, lambda run: run.comment, "the job's comment"),
    _run(
        "Elapsed",
        10,
        _elapsed,
        "[D-]HH:MM:SS; suspended time is left out once Slurm's accounting was read",
        "length",
    ),
    _run("ElapsedRaw", 10, lambda run: _whole(_elapsed_seconds(run)), "the same in seconds", "number"),
    _run("End", 19, lambda run: None if run.running else run.end_epoch_s, "when it ended", "time"),
    _run("ExitCode", 8, lambda run: run.exit_code, "code:signal"),
    _run("JobID", 12, display_job_id, "as Slurm shows it: 123, 123_4, 123+1"),
    _run("JobIDRaw", 12, lambda run: run.job_id, "the raw id", "number"),
    _either("JobName", 10, lambda run: run.job_name, "name", "job-name"),
    _run("NNodes", 8, lambda run: run.node_count, "nodes", "number"),
    _run("NodeList", 15, lambda run: run.node_list, "host list of its nodes"),
    _either("Partition", 10, lambda run: run.partition, "partition", "partition"),
    _either("QOS", 10, lambda run: run.qos, "quality of service", "qos"),
    _run("Restarts", 8, lambda run: run.restart_count, "how often it had been requeued", "number"),
    _run("SLUID", 15, lambda run: run.sluid, "Slurm's unique id of this run"),
    _run("Start", 19, lambda run: run.start_epoch_s, "when it began", "time"),
    _run("State", 10, shown_state, "state at its end, RUNNING or SUSPENDED"),
    _run("Submit", 19, lambda run: run.submit_epoch_s, "when it was submitted", "time"),
    _run("Suspended", 10, lambda run: _whole(run.suspended_seconds), "seconds it was suspended", "number"),
    _either("User", 9, lambda run: run.user, "user", "user"),
)
#: Of the runs of a line; an OFU of 0 is either of the second and third.
KINDS: Final = ("tensor", "idle", "non_tensor", "unknown", "unmeasured", "mixed")
_OF_OFU: Final = (
    _figure("OFU", 8, "ratio", lambda its: its.ofu_ratio, "tensor activity × clock over reference clock"),
    _figure("OFUError", 8, "points", _error_ratio, "± (95 %), in tables in percentage points"),
    _figure("Kind", 10, "text", lambda its: its.work_kind, f"what the runs did: {', '.join(KINDS)}"),
    _figure("Coverage", 8, "ratio", lambda its: its.coverage_ratio, "share of GPU time that was measured"),
    _figure("Tensor", 8, "ratio", lambda its: its.tpa_mean_ratio, "tensor pipe activity (also: TPA)"),
    _figure("Clock", 8, "ratio", lambda its: its.active_clock_ratio, "SM clock over reference clock"),
    _figure("SMActive", 8, "ratio", lambda its: its.sm_active_ratio, "SM activity"),
    _figure("Peak", 8, "ratio", lambda its: its.peak_ofu_ratio, "OFU over the busiest five minutes"),
    _figure("Reason", 13, "text", lambda its: its.reason, "why there is no OFU, or what qualifies it"),
    _figure("Reasons", 20, "text", lambda its: list(its.reasons), "all there are"),
    _figure("Estimator", 9, "text", lambda its: its.estimator, "how OFU was found"),
    _figure("GPUModel", 20, "text", lambda its: its.gpu_model, "GPU model, or mixed"),
    _figure("GPUs", 6, "number", lambda its: its.gpu_count, "GPUs allocated"),
    _figure("GPUHours", 9, "hours", lambda its: its.gpu_hours, "GPU-hours allocated"),
    _figure("Measured", 9, "hours", lambda its: its.gpu_hours_measured, "… that OFU speaks for"),
    _figure("Unmeasured", 10, "hours", lambda its: its.gpu_hours_unmeasured, "… that it does not speak for"),
    _figure("Idle", 9, "hours", lambda its: its.idle_gpu_hours, "… of idle minutes"),
    _figure("IdleTail", 9, "hours", lambda its: its.idle_tail_gpu_hours, "… of these, up to the end"),
    _figure("NonTensor", 9, "hours", lambda its: its.non_tensor_gpu_hours, "… busy without tensor cores"),
    _figure("Lost", 9, "hours", lambda its: its.lost_gpu_hours, "… measured, below the partition's goal"),
    _figure("HeldSuspended", 13, "hours", lambda its: its.held_suspended_gpu_hours, "… held while suspended"),
    _figure("Energy", 12, "number", lambda its: its.energy_joules, "joules"),
    _run("Claim", 14, lambda run: None if run.claim is None else run.claim.text, "what its comment states"),
    PrintedField(
        name="Stated", width=8, kind="ratio", of=_stated, meaning="that as a share of the peak", of_run=True
    ),
    _figure("Runs", 6, "number", lambda its: its.run_count, "runs"),
    _figure("Running", 7, "number", lambda its: its.running_run_count, "of these, those that go on"),
    _figure("Prorated", 8, "number", lambda its: its.prorated_run_count, "of these, those cut by time alone"),
    _figure("Bands", 16, "text", bands, f"runs with an OFU of {' / '.join(BAND_NAMES)} per cent"),
)
_OF_GROUPS: Final = (
    PrintedField(name="Group", width=20, kind="text", of=_any_group, meaning="what the line is about"),
    _group("Node", 15, "node (--by node)", "node"),
    _group("Month", 7, "month (--by month)", "month"),
    _group("Day", 10, "day (--by day)", "day"),
    _group("Hour", 22, "hour (--by hour)", "hour"),
)

FIELDS: Final = (*_OF_SLURM, *_OF_OFU, *_OF_GROUPS)
ALIASES: Final = {"tpa": "Tensor", "allocnodes": "NNodes", "gpuhrs": "GPUHours"}
DEFAULT_OF_RUNS: Final = (
    *("JobID", "JobName", "User", "Account", "Partition", "State", "GPUs", "GPUHours"),
    *("Tensor", "Clock", "Coverage", "OFU", "OFUError"),
)
DEFAULT_OF_GROUPS: Final = (
    *("Group", "Runs", "GPUHours", "Unmeasured", "Idle", "NonTensor", "Lost", "Bands"),
    *("Coverage", "OFU", "OFUError"),
)


def fits(field: PrintedField, by: GroupBy) -> bool:
    """Whether a field has a meaning on lines of this kind."""
    if by == "job":
        return field.of_run or field.of_group is None
    return field.of_group == by or (not field.of_run and field.of_group is None)


def fields_by(by: GroupBy) -> tuple[PrintedField, ...]:
    """The fields that lines of this kind have."""
    return tuple(field for field in FIELDS if fits(field, by))
