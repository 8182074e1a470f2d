"""What the audits ask of a reader, and what they make of a real database."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ofu.records.token import token_of
from slurm_ofu.store.read import Reader
from slurm_ofu.values import (
    AUDIT_NAMES,
    AuditName,
    Claim,
    Config,
    GpuTotals,
    JobPage,
    NodeRecord,
    RunGpu,
    RunRow,
    Selection,
    StoredGroup,
    UsageRow,
)
from slurm_ofu.wiring.auditing import NOT_FROM_SLURM, audit_results
from slurm_ofu.wiring.claiming import with_peak
from slurm_ofu.wiring.from_slurm import SlurmReader
from tests.audits.rows import GOALS, SETTINGS, START, gpu, idle_gpu, run, run_gpus, silent_gpu
from tests.store.accounting_rows import START_S, make_row
from tests.store.databases import make_store
from tests.store.records import as_interim, make_job, make_quarter, make_record
from tests.wiring.test_usage_readers import ListedAccounting

CONFIG = Config(path="/etc/here.toml", audits=SETTINGS, goals=GOALS)
NOW = START + 10 * 3600


class CountingReader:
    """A reader of a few runs that writes down what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.halves = [gpu(0), idle_gpu(1)]
        self.rows = [run(1, *self.halves), run(2, gpu(0)), run(3, gpu(0), running=True)]

    def jobs(self, selection: Selection) -> list[UsageRow]:
        """All, whatever is selected."""
        self.asked.append("jobs")
        return self.rows

    def usage(self, selection: Selection, by: StoredGroup) -> list[UsageRow]:
        """None."""
        self.asked.append(by)
        return []

    def course(self, selection: Selection, edges: Sequence[float]) -> list[UsageRow]:
        """No audit asks for it."""
        raise AssertionError

    def page(self, run_id: int) -> JobPage:
        """No audit asks for it."""
        raise AssertionError

    def gpus(self, selection: Selection) -> Iterator[RunGpu]:
        """In the order of the runs."""
        self.asked.append("gpus")
        for row, its in zip(self.rows, (self.halves, [gpu(0)], [gpu(0)]), strict=True):
            for ones in run_gpus(row, *its).values():
                yield from ones


@pytest.mark.parametrize(
    ("names", "asked"),
    [
        (("waste",), ["jobs"]),
        (("regressions", "claims"), ["jobs"]),
        (("idle",), ["jobs", "gpus"]),
        (("coverage",), ["jobs", "node"]),
        (AUDIT_NAMES, ["jobs", "gpus", "node"]),
    ],
)
def test_a_reader_is_asked_once(names: tuple[AuditName, ...], asked: list[str]) -> None:
    """However many audits there are, runs and GPUs are read once, and nothing that none of them needs."""
    reader = CountingReader()
    results = audit_results(CONFIG, reader, names, Selection(), NOW)
    assert (list(names), asked) == ([result.audit for result in results], reader.asked)


def test_a_reader_without_single_gpus_is_not_asked_for_them() -> None:
    """Slurm's accounting knows neither GPUs nor nodes; every audit has an answer, or a reason for none."""
    reader = CountingReader()
    names = [name for name in AUDIT_NAMES if name not in NOT_FROM_SLURM]
    results = audit_results(CONFIG, reader, names, Selection(), NOW, single_gpus=False)
    assert (names, ["jobs"]) == ([result.audit for result in results], reader.asked)
    assert {"waste", "idle", "unused", "hardware"} == set(NOT_FROM_SLURM)


def stored(folder: Path, *runs: tuple[int, Sequence[GpuTotals], bool]) -> Reader:
    """A database with runs of ten hours: job id, GPUs, and whether it still runs."""
    store = make_store(folder / "ofu.db")
    records = []
    for job_id, gpus, running in runs:
        record = make_record(
            make_job(job_id=job_id), gpus=gpus, start=START, end=NOW, allocated=gpus[0].allocated_seconds
        )
        records.append(as_interim(record) if running else record)
    store.write(records)
    return Reader(store.path)


def test_what_is_found_in_a_database(tmp_path: Path) -> None:
    """Idle runs that ended and that go on, GPUs that were not used and time that nobody measured come out of
    the database as they went in."""
    eight = [idle_gpu(position, idle_hours=1.0) for position in range(8)]
    reader = stored(
        tmp_path,
        (1, [idle_gpu(position) for position in range(2)], False),
        (2, eight, True),
        (3, [gpu(0), gpu(1), idle_gpu(2)], False),
        (4, [silent_gpu(position) for position in range(4)], False),
    )
    names: tuple[AuditName, ...] = ("waste", "idle", "unused", "coverage")
    results = audit_results(CONFIG, reader, names, Selection(), NOW)
    assert {
        "waste": [],
        "idle": [("ended", "1", 20), ("running", "2", 8)],
        "unused": [("run", "3", 10), ("user", "ada", 10)],
        "coverage": [("partition", "gpu: no_source", 40), ("node", "n1: no_source", 40)],
    } == {
        str(result.audit): [
            (entry.kind, entry.subject, round(entry.weight_gpu_hours)) for entry in result.entries
        ]
        for result in results
    }


def test_a_node_has_a_reason_of_its_own(tmp_path: Path) -> None:
    """Of a job on two nodes of which one had no counters the other has none of the blame."""
    store = make_store(tmp_path / "ofu.db")
    job = make_job(node_count=2, node_list="n[1-2]")
    for name, its in (("n1", gpu(0, covered_seconds=18_000.0)), ("n2", silent_gpu(0))):
        store.write([make_record(job, node=name, gpus=[its], start=START, end=NOW, allocated=36_000.0)])
    (result,) = audit_results(CONFIG, Reader(store.path), ("coverage",), Selection(), NOW)
    assert {"gpu: gaps": 5, "gpu: no_source": 10, "n1: gaps": 5, "n2: no_source": 10} == {
        entry.subject: round(entry.weight_gpu_hours) for entry in result.entries
    }


class Slices(CountingReader):
    """A reader that answers for the window that it is asked about, and writes that down."""

    def __init__(self, *rows: UsageRow) -> None:
        super().__init__()
        self.rows = list(rows)
        self.windows: list[tuple[float, float]] = []

    def jobs(self, selection: Selection) -> list[UsageRow]:
        """The runs with any part in the window, which each says in its comment."""
        start, end = selection.start_epoch_s, selection.end_epoch_s
        assert start is not None
        assert end is not None
        self.windows.append((start, end))
        return [
            replace(row, run=replace(row.run, comment=str(start)))
            for row in self.rows
            if row.run is not None and _touches(row.run, start, end)
        ]


def _touches(run: RunRow, start: float, end: float) -> bool:
    assert run.start_epoch_s is not None
    assert run.end_epoch_s is not None
    return run.start_epoch_s < end and run.end_epoch_s > start


def test_idle_alone_needs_only_what_still_runs(tmp_path: Path) -> None:
    """Asked for idle runs alone, the answer is the same as among all audits."""
    eight = [idle_gpu(position, idle_hours=1.0) for position in range(8)]
    reader = stored(tmp_path, (1, [idle_gpu(0), idle_gpu(1)], False), (2, eight, True))
    alone = audit_results(CONFIG, reader, ["idle"], Selection(), NOW)
    both = audit_results(CONFIG, reader, ["idle", "unused"], Selection(), NOW)
    assert ["1", "2"] == [entry.subject for entry in alone[0].entries]
    assert both[0] == alone[0]


def test_regressions_are_held_against_what_came_before_the_window() -> None:
    """Runs of weeks ago and a slow one of today are a drop; others' runs of that time play no part, and a run
    on an edge counts once, and whole."""
    day, begin = 86_400.0, START

    def at(job_id: int, days: float, ofu: float, **changes: Any) -> UsageRow:
        start = begin + days * day
        times: dict[str, Any] = {"start_epoch_s": start, "end_epoch_s": start + 10 * 3600}
        return run(job_id, gpu(ofu=ofu), job_name="train-llama", **times, **changes)

    before = [at(job_id, -5.0 * job_id, 0.40 + 0.001 * job_id) for job_id in range(1, 7)]
    straddling = [at(7, -7.1, 0.40), at(8, -0.2, 0.41)]
    others = [at(9, -3, 0.4, user="fred")]
    reader = Slices(*before, *straddling, *others, at(10, 1.0, 0.16))
    selection = Selection(start_epoch_s=begin, end_epoch_s=begin + 7 * day)
    (result,) = audit_results(CONFIG, reader, ["regressions"], selection, begin + 7 * day)
    (entry,) = result.entries
    assert ("drop", "train-llama", 8, 1) == (
        entry.kind,
        entry.subject,
        entry.figures["before_run_count"],
        entry.figures["after_run_count"],
    )
    assert (9, {}) == (result.examined_count, result.left_out)
    came_with = {its.job_id: its.comment for its in entry.runs}
    whole = str(begin - 7.1 * day)
    assert (whole, whole) == (came_with[7], came_with[8])
    edges = [start for start, _ in reader.windows]
    assert (begin, begin - 7 * day, begin - 91 * day) == (edges[0], edges[1], edges[-2])


def slow_starter(job_id: int, start: float, *, user: str = "ada") -> NodeRecord:
    """A run of two hours whose first quarter hour is spent on loading: half a GPU's peak after that."""
    quarters = [
        replace(
            make_quarter(int(start) + 900 * number),
            covered_seconds=900.0,
            tensor_active_seconds=0.5 * 900 if number else 0.01 * 900,
            tensor_ref_seconds=0.5 * 900 if number else 0.01 * 900,
        )
        for number in range(8)
    ]
    tensor = sum(quarter.tensor_ref_seconds or 0.0 for quarter in quarters)
    one = gpu(hours=2.0, tensor_active_seconds=tensor, tensor_ref_seconds=tensor)
    job = replace(make_job(job_id=job_id, user=user), claim=Claim(kind="mfu", value=0.45, text="mfu=0.45"))
    return make_record(job, gpus=[one], quarters=quarters, start=start, end=start + 7200, allocated=7200.0)


def test_a_run_that_the_window_cuts_is_no_regression(tmp_path: Path) -> None:
    """A quarter hour of loading at the window's end, or before its beginning, is not a run's OFU: nothing
    fell, and what it states of itself fits."""
    store = make_store(tmp_path / "ofu.db")
    starts = [START + 8 * 3600 * number for number in range(8)]
    store.write([slow_starter(job_id, start) for job_id, start in enumerate(starts, start=1)])
    rows = [
        make_row(job_id=job_id, start=int(start), end=int(start) + 7200)
        for job_id, start in enumerate(starts, start=1)
    ]
    store.take_accounting(rows)
    windows = [(START, starts[-1] + 900), (starts[-1] + 900, starts[-1] + 86_400)]
    for start, end in windows:
        selection = Selection(start_epoch_s=start, end_epoch_s=end)
        regressions, claims = audit_results(
            CONFIG, Reader(store.path), ["regressions", "claims"], selection, end
        )
        assert ((), 8) == (regressions.entries, regressions.examined_count)
        assert () == claims.entries


def test_thresholds_and_exclusions_are_the_configurations(tmp_path: Path) -> None:
    """The same database by other settings."""
    reader = stored(tmp_path, (1, [idle_gpu()], False))
    assert 1 == len(audit_results(CONFIG, reader, ["idle"], Selection(), NOW)[0].entries)
    config = replace(CONFIG, audits=replace(SETTINGS, exclude_users=("ada",)))
    (result,) = audit_results(config, reader, ["idle"], Selection(), NOW)
    assert ((), {"excluded": 1}) == (result.entries, result.left_out)


def test_what_slurms_accounting_tells() -> None:
    """Out of words in Slurm's accounting: what has none is not covered, and what is stated is compared."""
    token = token_of(run(1, gpu(ofu=0.2)).sums)
    stating = make_row(job_id=1, end=START_S + 36_000, comment="mfu=0.6")
    rows = [
        replace(stating, system_comment=token),
        make_row(job_id=2, end=START_S + 36_000),
    ]
    accounting = ListedAccounting(rows)
    reader = SlurmReader(accounting, accounting.by_id, field="SystemComment")
    names: list[AuditName] = ["claims", "coverage"]
    selection = Selection(start_epoch_s=START_S, end_epoch_s=START_S + 86_400)
    claims, coverage = audit_results(CONFIG, reader, names, selection, NOW, single_gpus=False)
    assert ["1"] == [entry.subject for entry in claims.entries]
    assert ["no_token"] == [entry.figures["reason"] for entry in coverage.entries]


def test_a_drop_is_found_in_slurms_accounting() -> None:
    """Where each week is an answer of its own, runs of other weeks are other runs, whatever their place."""
    week = 7 * 86_400
    found = [(number, START_S - number * week, 0.40) for number in range(1, 8)]
    found.append((20, START_S + 3600, 0.16))
    rows = [
        replace(
            make_row(job_id=job_id, start=start, end=start + 36_000),
            job_name="train-llama",
            system_comment=token_of(run(job_id, gpu(ofu=ofu)).sums),
        )
        for job_id, start, ofu in found
    ]
    accounting = ListedAccounting(rows)
    reader = SlurmReader(accounting, accounting.by_id, field="SystemComment")
    selection = Selection(start_epoch_s=START_S, end_epoch_s=START_S + week)
    (result,) = audit_results(CONFIG, reader, ["regressions"], selection, NOW, single_gpus=False)
    assert (8, {}) == (result.examined_count, result.left_out)
    assert [("drop", 7, 1)] == [
        (entry.kind, entry.figures["before_run_count"], entry.figures["after_run_count"])
        for entry in result.entries
    ]


@pytest.mark.parametrize(("share", "listed"), [(1.0, ["1"]), (1 / 7, [])])
def test_a_slice_has_not_the_peak_of_its_gpu(tmp_path: Path, share: float, listed: list[str]) -> None:
    """Of a seventh of a GPU that works hard it is not said that its job states too little."""
    store = make_store(tmp_path / "ofu.db")
    one = gpu(ofu=0.5, sm_share_ratio=share)
    claim = Claim(kind="tflops", value=70.0, text="tflops=70")
    job = replace(make_job(job_id=1), claim=claim)
    store.write([make_record(job, gpus=[one], start=START, end=NOW, allocated=36_000.0)])
    reader = Reader(store.path, held_against=with_peak)
    (result,) = audit_results(CONFIG, reader, ["claims"], Selection(), NOW)
    assert listed == [entry.subject for entry in result.entries]


def test_a_slow_gpu_is_found_in_a_database(tmp_path: Path) -> None:
    """What the hardware audit needs to know of single GPUs survives the way through the database."""
    slow: dict[str, Any] = {"tensor_ref_seconds": 0.3 * 36_000}
    gpus = [gpu(0), gpu(1), gpu(2, **slow), gpu(3)]
    reader = stored(tmp_path, *((job_id, gpus, False) for job_id in range(1, 11)))
    (result,) = audit_results(CONFIG, reader, ["hardware"], Selection(), NOW)
    assert [("gpu_clock", "n1:2", 0.25)] == [
        (entry.kind, entry.subject, entry.figures["lag_ratio"]) for entry in result.entries
    ]
