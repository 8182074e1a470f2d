"""Runs that a window cuts: exactly at quarter hours, else by time, and never more or less than the whole."""

import math
import tempfile
from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_ofu.figures import pool, pool_gpus
from slurm_ofu.figures.work import RANKED, with_counts, with_lost, work_kind
from slurm_ofu.store.read import Reader
from slurm_ofu.values import (
    AccountingRow,
    Goals,
    GpuTotals,
    NodeRecord,
    QuarterSums,
    Selection,
    StoredGroup,
    UsageSums,
)
from tests.store.accounting_rows import make_row
from tests.store.databases import make_store
from tests.store.records import make_gpu, make_job, make_record

BEGIN = 1_750_000_500  # a multiple of 900
QUARTER = 900
GOALS = Goals(by_partition={"gpu": 0.5})
SETTINGS = settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
RATIOS = st.integers(0, 8).map(lambda eighths: eighths / 8)
MODELS = ("H100", "A100", None)
EVERY_GROUP: tuple[StoredGroup, ...] = ("job", "partition", "node", "gpu-model")
#: What is known of whole runs alone, or belongs to a run however much of it lies in a window.
OF_WHOLE_RUNS = ("peak_tensor_ref_seconds", "peak_covered_seconds", "gpu_count", "gpu_count_unknown_time")
ADDED = tuple(
    field.name
    for field in fields(UsageSums)
    if field.name.endswith(("_seconds", "_joules")) and field.name not in OF_WHOLE_RUNS
)


class Template(bytes):
    """A database's bytes, which no failing example needs to print."""

    __repr__ = object.__repr__


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An empty database."""
    path = tmp_path_factory.mktemp("template") / "ofu.db"
    make_store(path)
    return Template(path.read_bytes())


class World:
    """A database for one example."""

    def __init__(
        self, template: bytes, records: Sequence[NodeRecord], rows: Sequence[AccountingRow] = ()
    ) -> None:
        self._place = tempfile.TemporaryDirectory()
        path = Path(self._place.name) / "ofu.db"
        path.write_bytes(template)
        store = make_store(path, made=False)
        store.write(records)
        store.take_accounting(rows)
        self.reader = Reader(path, goals=GOALS)

    def __enter__(self) -> Reader:
        return self.reader

    def __exit__(self, *_: object) -> None:
        self._place.cleanup()


@st.composite
def gpus(draw: st.DrawFn, position: int, held: float) -> GpuTotals:
    """A GPU that was measured for any part of its time, by either estimator, or is suspect."""
    covered = draw(RATIOS) * held
    judged = draw(RATIOS) * covered
    known = draw(RATIOS) * judged
    idle = draw(RATIOS) * judged
    measured = covered > 0
    gpu = make_gpu(
        position,
        reason=draw(st.sampled_from(("ok", "ok", "suspect"))),
        allocated=held,
        covered=covered,
        tensor_ref=draw(RATIOS) * covered if measured else None,
        model=draw(st.sampled_from(MODELS)),
    )
    return replace(
        gpu,
        tensor_active_seconds=draw(RATIOS) * covered if measured else None,
        estimator=draw(st.sampled_from(("sampled", "cycles"))) if measured else None,
        idle_covered_seconds=judged,
        idle_seconds=idle if judged > 0 else None,
        idle_tail_seconds=draw(st.sampled_from((None, idle / 2))),
        non_tensor_covered_seconds=known,
        non_tensor_seconds=min(judged - idle, draw(RATIOS) * known) if known > 0 else None,
        throttled_power_seconds=draw(st.sampled_from((None, covered / 8))),
        throttle_covered_seconds=covered,
        peak_covered_seconds=min(covered, 300.0),
        peak_tensor_ref_seconds=1.0 if measured else None,
    )


@st.composite
def quarters(draw: st.DrawFn, begin: int, end: int, models: Sequence[str | None]) -> list[QuarterSums]:
    """Rows that say anything of when it was; of an earlier version, or none."""
    rows = []
    judged = draw(st.booleans())
    for model in models:
        if draw(st.integers(0, 4)) == 0:
            continue
        for number in range(begin // QUARTER, (end - 1) // QUARTER + 1):
            covered = draw(RATIOS) * QUARTER
            row = QuarterSums(
                gpu_model=model,
                start_epoch_s=number * QUARTER,
                allocated_seconds=max(covered, draw(RATIOS) * QUARTER),
                covered_seconds=covered,
                tensor_active_seconds=draw(RATIOS) * covered,
                tensor_ref_seconds=draw(st.sampled_from((None, covered / 2, 0.0))),
                tensor_ref_error_seconds=draw(st.sampled_from((None, 1.0, 0.0))),
            )
            if judged:
                row = replace(
                    row,
                    idle_seconds=covered / 4,
                    idle_covered_seconds=covered,
                    non_tensor_seconds=0.0,
                    non_tensor_covered_seconds=covered / 2,
                )
            rows.append(row)
    return rows


@st.composite
def runs(draw: st.DrawFn, job_id: int) -> tuple[list[NodeRecord], list[AccountingRow]]:
    """A run on one or two nodes of three: the third was never heard from, and where Slurm charges another
    time than the nodes measured, some of it suspended."""
    begin = BEGIN + draw(st.integers(0, 4 * QUARTER))
    end = begin + draw(st.integers(0, 6 * QUARTER))
    names = draw(st.sampled_from((["n1"], ["n1", "n2"])))
    node_list = draw(st.sampled_from((",".join(names), "n[1-3]")))
    skew = draw(st.sampled_from((0, 0, 7, 2 * QUARTER)))  # of the nodes' clocks
    job = make_job(job_id=job_id, node_list=node_list, node_count=3 if "[" in node_list else len(names))
    records = []
    for name in names:
        its = [draw(gpus(at, float(end - begin))) for at in range(draw(st.integers(1, 2)))]
        models = sorted({gpu.gpu_model for gpu in its}, key=str)
        records.append(
            make_record(
                job,
                node=name,
                start=float(begin + skew),
                end=float(end + skew),
                allocated=float(end - begin),
                gpus=its,
                quarters=draw(quarters(begin + skew, end + skew, models)) if end > begin else (),
            )
        )
    if not draw(st.booleans()):
        return records, []
    suspended = draw(st.integers(0, (end - begin) // 2))
    row = make_row(job_id=job_id, start=begin, end=end, suspended=suspended)
    return records, [replace(row, node_list=node_list, gpu_count=draw(st.sampled_from((None, 6))))]


def agree(whole: UsageSums, parts: Sequence[UsageSums], names: Sequence[str] = ADDED) -> None:
    """The parts add up to the whole."""
    for name in names:
        expected = getattr(whole, name) or 0.0
        actual = math.fsum(getattr(sums, name) or 0.0 for sums in parts)
        assert actual == pytest.approx(expected, rel=1e-6, abs=1e-6), name


@pytest.mark.property
@SETTINGS
@given(data=st.data())
def test_windows_add_up_to_the_whole(data: st.DataObject, template: bytes) -> None:
    """Whatever was kept of when it was, wherever the edges lie, however it is grouped; and the variance of
    the windows is no more than the whole's, where no counter's ends are in it."""
    pairs = [data.draw(runs(job_id)) for job_id in (1, 2)]
    inner = data.draw(st.lists(st.integers(0, 12 * 60), min_size=1, max_size=3, unique=True))
    scale = data.draw(st.sampled_from((QUARTER, 60, 17)))
    edges = [BEGIN - 1e5, *(BEGIN + minute // 15 * scale + 0.0 for minute in sorted(inner)), BEGIN + 1e6]
    edges = sorted(set(edges))
    windows = [Selection(start_epoch_s=a, end_epoch_s=b) for a, b in pairwise(edges)]
    records, rows = [one for its, _ in pairs for one in its], [one for _, its in pairs for one in its]
    with World(template, records, rows) as reader:
        for by in EVERY_GROUP:
            whole = {row.group: row.sums for row in reader.usage(Selection(), by)}
            found: dict[str | None, list[UsageSums]] = {group: [] for group in whole}
            for window in windows:
                for row in reader.usage(window, by):
                    found[row.group].append(row.sums)
            for group, sums in whole.items():
                agree(sums, found[group])
                if sums.estimators == ("sampled",):
                    most = (sums.tensor_ref_variance or 0.0) * (1 + 1e-9)
                    assert math.fsum(one.tensor_ref_variance or 0.0 for one in found[group]) <= most
        spans = [row.sums for row in reader.course(Selection(), edges)]
        for span, window in zip(spans, windows, strict=True):
            total = pool(row.sums for row in reader.jobs(window))
            agree(span, [total], (*ADDED, "gpu_count", "run_count", "prorated_run_count"))
            assert (total.band_run_counts, total.reasons, total.gpu_models) == (
                *(span.band_run_counts, span.reasons, span.gpu_models),
            )  # fmt: skip


@pytest.mark.property
@SETTINGS
@given(data=st.data())
def test_nodes_and_models_add_up_to_the_runs(data: st.DataObject, template: bytes) -> None:
    """Each GPU counts on its node and its model alone; of runs, each counts wherever it has a part."""
    pairs = [data.draw(runs(job_id)) for job_id in (1, 2)]
    window = Selection(start_epoch_s=BEGIN + data.draw(st.integers(0, 5)) * 450.0)
    names = (*ADDED, "gpu_count", "gpu_count_unknown_time")
    records, rows = [one for its, _ in pairs for one in its], [one for _, its in pairs for one in its]
    with World(template, records, rows) as reader:
        for selection in (Selection(), window):
            total = pool(row.sums for row in reader.jobs(selection))
            for by in ("node", "gpu-model"):
                grouped = [row.sums for row in reader.usage(selection, by)]
                agree(total, grouped, names)
                for sums in grouped:
                    counted = sum(sums.band_run_counts) + sums.non_tensor_run_count
                    assert sums.run_count == counted + sums.unmeasured_run_count


@pytest.mark.property
@SETTINGS
@given(data=st.data())
def test_sql_ranks_as_the_rules_do(data: st.DataObject, template: bytes) -> None:
    """figures.work over the rows of a run's GPUs, and the database's sums: the same kind of work, the same
    loss against the partition's goal, the same place among the counts."""
    records, rows = data.draw(runs(1))
    with World(template, records, rows) as reader:
        (row,) = reader.jobs(Selection())
        its = [gpu.totals for gpu in reader.gpus(Selection())]
        pure = with_lost(with_counts(pool_gpus(its)), its, GOALS.of("gpu"))
        assert (work_kind(pure) in RANKED) == (row.sums.lost_seconds is not None)
        agree(pure, [row.sums], ("lost_seconds", "ranked_seconds"))
        names = ("band_run_counts", "non_tensor_run_count", "unmeasured_run_count", "running_run_count")
        assert [getattr(pure, name) for name in names] == [getattr(row.sums, name) for name in names]


# --------------------------------------------------------------- by hand


def hour(*tensor_ref: float, covered: float = 900.0) -> list[QuarterSums]:
    """Quarter hours from BEGIN on with these tensor_ref_seconds."""
    return [
        QuarterSums(
            gpu_model="H100",
            start_epoch_s=BEGIN + number * QUARTER,
            allocated_seconds=900.0,
            covered_seconds=covered,
            tensor_active_seconds=seconds,
            tensor_ref_seconds=seconds,
            tensor_ref_error_seconds=2.0,
            idle_seconds=900.0 if seconds == 0 else 0.0,
            idle_covered_seconds=900.0,
            non_tensor_seconds=0.0,
            non_tensor_covered_seconds=900.0,
        )
        for number, seconds in enumerate(tensor_ref)
    ]


def busy_then_idle(**changes: Any) -> NodeRecord:
    """Half an hour at 0.5, then half an hour idle."""
    judged: dict[str, Any] = {
        **{"tensor_active_seconds": 900.0, "idle_seconds": 1800.0, "idle_covered_seconds": 3600.0},
        **{"idle_tail_seconds": 1800.0, "non_tensor_seconds": 0.0, "non_tensor_covered_seconds": 3600.0},
    }
    gpu = make_gpu(covered=3600.0, tensor_ref=900.0, error=4.0, model="H100")
    gpu = replace(gpu, **{**judged, **changes})
    return make_record(
        start=float(BEGIN), end=BEGIN + 3600.0, gpus=[gpu], quarters=hour(450.0, 450.0, 0.0, 0.0)
    )


def window(begin: float, end: float) -> Selection:
    """Seconds after BEGIN."""
    return Selection(start_epoch_s=BEGIN + begin, end_epoch_s=BEGIN + end)


@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [
        (0, 1800, (1800.0, 1800.0, 900.0, 0.0, 0.0, 0)),
        (1800, 3600, (1800.0, 1800.0, 0.0, 1800.0, 1800.0, 0)),
        (900, 2700, (1800.0, 1800.0, 450.0, 900.0, 900.0, 0)),
        (-900, 900, (900.0, 900.0, 450.0, 0.0, 0.0, 0)),
        (450, 900, (450.0, 450.0, 225.0, 0.0, 0.0, 1)),  # half of a quarter hour, by time
        (0, 3600, (3600.0, 3600.0, 900.0, 1800.0, 1800.0, 0)),
        (-450, 3700, (3600.0, 3600.0, 900.0, 1800.0, 1800.0, 0)),
    ],
)
def test_a_window_cuts_at_quarter_hours(
    template: bytes, begin: float, end: float, expected: tuple[float, ...]
) -> None:
    """What lies inside, not the whole; other edges by time, and marked. An idle tail lies at the end."""
    with World(template, [busy_then_idle()]) as reader:
        for by in EVERY_GROUP:
            (row,) = reader.usage(window(begin, end), by)
            its = row.sums
            assert expected == (
                *(its.allocated_seconds, its.ofu_covered_seconds, its.tensor_ref_seconds),
                *(its.idle_seconds, its.idle_tail_seconds, its.prorated_run_count),
            )


@pytest.mark.parametrize(("estimator", "variance"), [("sampled", 8.0), ("cycles", 16.0)])
def test_a_piece_has_its_part_of_the_variance(template: bytes, estimator: str, variance: float) -> None:
    """Half of the intervals, half of the variance; counted cycles are as uncertain at their ends as ever."""
    with World(template, [busy_then_idle(estimator=estimator)]) as reader:
        (row,) = reader.jobs(window(0, 1800))
        assert pytest.approx(variance) == row.sums.tensor_ref_variance
        (whole,) = reader.jobs(Selection())
        assert 16.0 == whole.sums.tensor_ref_variance


def test_the_peak_is_known_of_whole_runs_alone(template: bytes) -> None:
    """Nobody kept when the busiest five minutes were."""
    with World(
        template, [busy_then_idle(peak_tensor_ref_seconds=150.0, peak_covered_seconds=300.0)]
    ) as reader:
        found = [reader.jobs(which)[0].sums for which in (window(0, 3600), window(0, 1800))]
        assert [(150.0, 300.0), (None, 0.0)] == [
            (sums.peak_tensor_ref_seconds, sums.peak_covered_seconds) for sums in found
        ]


def test_a_piece_is_never_covered_for_more_than_it_had(template: bytes) -> None:
    """Not where Slurm charges less than was measured either: 3,000 of 3,600 s, the first 900 of them half
    measured. Sums stay those of the whole."""
    record = busy_then_idle()
    late = replace(record.quarters[0], covered_seconds=450.0)
    gpu = replace(record.gpus[0], covered_seconds=3150.0)
    record = replace(record, gpus=(gpu,), quarters=(late, *record.quarters[1:]))
    row = make_row(start=BEGIN, end=BEGIN + 3000)
    with World(template, [record], [row]) as reader:
        pieces = [reader.jobs(window(at, at + 900))[0].sums for at in (0, 900, 1800, 2700)]
        assert all(its.covered_seconds <= (its.allocated_seconds or 0.0) * (1 + 1e-9) for its in pieces)
        agree(reader.jobs(Selection())[0].sums, pieces)


def test_what_is_charged_after_a_node_s_last_word_lies_behind_it(template: bytes) -> None:
    """A node was heard for an hour and then died; Slurm noticed three hours later. Nobody measured those."""
    record = replace(busy_then_idle(), interim=True, exit_code=None)
    row = make_row(start=BEGIN, end=BEGIN + 4 * 3600, state="NODE_FAIL")
    with World(template, [record], [row]) as reader:
        for by in EVERY_GROUP:
            hours = [reader.usage(window(3600.0 * at, 3600.0 * (at + 1)), by)[0].sums for at in range(4)]
            assert [3600.0] * 4 == [its.allocated_seconds for its in hours]
            assert [3600.0, 0.0, 0.0, 0.0] == [its.ofu_covered_seconds for its in hours]
            assert [0] * 4 == [its.prorated_run_count for its in hours]


def test_time_held_suspended_is_told_where_slurm_charges_none(template: bytes) -> None:
    """Of a job that was suspended from its first second to its last: the GPU that two jobs held counts half,
    by node and model as by run."""
    half = replace(busy_then_idle().gpus[0], position=1, allocated_seconds=1800.0, covered_seconds=0.0)
    record = replace(busy_then_idle(), gpus=(busy_then_idle().gpus[0], half), quarters=())
    row = make_row(start=BEGIN, end=BEGIN + 3600, suspended=3600)
    with World(template, [record], [row]) as reader:
        for by in EVERY_GROUP:
            (its,) = reader.usage(Selection(), by)
            assert 5400.0 == its.sums.held_suspended_seconds


def test_a_run_without_quarter_hours_is_cut_by_time(template: bytes) -> None:
    """And marked; but not where nothing was measured: GPUs are held all the time."""
    measured = replace(busy_then_idle(), quarters=())
    blind = make_record(
        make_job(job_id=7),
        start=float(BEGIN),
        end=BEGIN + 3600.0,
        gpus=[make_gpu(reason="no_source", covered=0.0, tensor_ref=None)],
    )
    with World(template, [measured, blind]) as reader:
        one, other = (row.sums for row in reader.jobs(window(0, 900)))
        assert (900.0, 225.0, 1) == (one.allocated_seconds, one.tensor_ref_seconds, one.prorated_run_count)
        assert (900.0, None, 0) == (
            other.allocated_seconds,
            other.tensor_ref_seconds,
            other.prorated_run_count,
        )


def test_what_a_run_lost_is_shared_by_what_was_measured(template: bytes) -> None:
    """Against 0.5: half of 3,600 s; in half of it, half of that. The run's band is that of all of it."""
    with World(template, [busy_then_idle()]) as reader:
        for which, lost in ((Selection(), 1800.0), (window(0, 1800), 900.0)):
            (row,) = reader.usage(which, "partition")
            assert (lost, (0, 0, 0, 1, 0)) == (row.sums.lost_seconds, row.sums.band_run_counts)


def test_a_course_has_a_row_for_every_span(template: bytes) -> None:
    """Whether anything ran or not; only what lies in the selection's window counts."""
    edges = [BEGIN + hours * 3600.0 - 1800.0 for hours in range(-1, 4)]
    with World(template, [busy_then_idle()]) as reader:
        spans = reader.course(Selection(), edges)
        assert [str(edge) for edge in edges[:-1]] == [row.group for row in spans]
        assert [0, 1, 1, 0] == [row.sums.run_count for row in spans]
        assert [None, 900.0, 0.0, None] == [row.sums.tensor_ref_seconds for row in spans]
        assert [None, 1800.0, 1800.0, None] == [row.sums.allocated_seconds for row in spans]
        inner = reader.course(window(900, 1800), edges)
        assert [0.0, 900.0, 0.0, 0.0] == [row.sums.allocated_seconds or 0.0 for row in inner]
        assert [] == reader.course(Selection(), edges[:1])


def test_a_window_of_no_length_has_no_runs(template: bytes) -> None:
    """No instant lies in it."""
    with World(template, [busy_then_idle()]) as reader:
        assert [] == reader.jobs(window(900, 900))
