"""What is measured, on the time that Slurm's accounting charges."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_ofu.figures import figures, gpu_figures, pool_gpus
from slurm_ofu.figures.work import with_counts
from slurm_ofu.store.read import Reader
from slurm_ofu.values import AccountingRow, Figures, GpuTotals, JobPage, NodeRecord
from tests.figures.examples import BY_MINUTES
from tests.store.accounting_rows import START_S, make_row
from tests.store.databases import make_store, query
from tests.store.records import START, make_gpu, make_job, make_record

NOW_AND_THEN = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
SECONDS = st.floats(0.0, 1e5)
RATIOS = st.floats(0.0, 1.0)
RAW = "SELECT * FROM run_gpu ORDER BY node_name, position"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An empty database."""
    path = tmp_path_factory.mktemp("template") / "ofu.db"
    make_store(path)
    return path.read_bytes()


def _page(template: bytes, records: Sequence[NodeRecord], rows: Sequence[AccountingRow]) -> JobPage:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "ofu.db"
        path.write_bytes(template)
        store = make_store(path, made=False)
        store.write(records)
        raw = query(path, RAW)
        store.take_accounting(rows)
        assert raw == query(path, RAW)  # what was measured is never overwritten
        return Reader(path).page(1)


def _row(elapsed: int, suspended: int = 0, **words: object) -> AccountingRow:
    return make_row(end=START_S + elapsed + suspended, suspended=suspended, **words)  # type: ignore[arg-type]


@st.composite
def gpus(draw: st.DrawFn, allocated: float) -> GpuTotals:
    """A GPU that was measured for any part of its time, or a little longer."""
    covered = draw(RATIOS) * allocated * 1.1
    active = draw(RATIOS) * covered
    side = draw(RATIOS) * covered
    return replace(
        make_gpu(
            allocated=allocated,
            covered=covered,
            tensor_ref=draw(RATIOS) * active * 1.08 if covered else None,
        ),
        tensor_active_seconds=active if covered else None,
        sm_active_covered_seconds=side,
        sm_active_seconds=draw(RATIOS) * side if covered else None,
        **draw(by_minutes(covered)),
    )


@st.composite
def by_minutes(draw: st.DrawFn, covered: float) -> dict[str, Any]:
    """Judged for any part of what was covered."""
    judged = draw(RATIOS) * covered
    known = draw(RATIOS) * judged
    idle = draw(RATIOS) * judged
    return {
        "idle_covered_seconds": judged,
        "idle_seconds": idle if covered else None,
        "idle_tail_seconds": draw(st.one_of(st.none(), st.just(0.0), st.just(draw(RATIOS) * idle))),
        "non_tensor_covered_seconds": known,
        "non_tensor_seconds": min(judged - idle, draw(RATIOS) * known) if covered else None,
        "peak_covered_seconds": min(covered, 300.0),
        "peak_tensor_ref_seconds": draw(RATIOS) * min(covered, 300.0) if covered else None,
    }


@pytest.mark.property
@NOW_AND_THEN
@given(data=st.data())
def test_a_ratio_stays_as_measured(data: st.DataObject, template: bytes) -> None:
    """Whatever Slurm charges, as long as it is something and nothing was suspended."""
    own = data.draw(st.floats(1.0, 1e5))
    gpu = data.draw(gpus(own))
    page = _page(template, [make_record(allocated=own, gpus=[gpu])], [_row(data.draw(st.integers(1, 10**5)))])
    told, charged = gpu_figures(gpu), gpu_figures(page.gpus[0].totals)
    names = (
        *("ofu_ratio", "tpa_mean_ratio", "active_clock_ratio", "sm_active_ratio", "ofu_error_pp"),
        "peak_ofu_ratio",
    )
    before, after = ({name: getattr(its, name) for name in names} for its in (told, charged))
    assert before == pytest.approx(after)


@pytest.mark.property
@NOW_AND_THEN
@given(data=st.data())
def test_no_figure_weighs_more_than_what_is_charged(data: st.DataObject, template: bytes) -> None:
    """Active seconds never exceed the covered ones, nor these the allocated ones, whatever was suspended."""
    own = data.draw(SECONDS)
    gpu = data.draw(gpus(own))
    row = _row(data.draw(st.integers(0, 10**5)), data.draw(st.integers(0, 10**5)))
    page = _page(template, [make_record(allocated=own, gpus=[gpu])], [row])
    (its,) = (one.totals for one in page.gpus)
    assert float(row.elapsed_seconds) == its.allocated_seconds
    assert max(its.covered_seconds, its.sm_active_covered_seconds) <= row.elapsed_seconds
    assert page.row.sums.covered_seconds <= (page.row.sums.allocated_seconds or 0.0)
    assert (its.tensor_active_seconds or 0.0) <= its.covered_seconds * (1 + 1e-9)
    assert (its.sm_active_seconds or 0.0) <= its.sm_active_covered_seconds * (1 + 1e-9)
    assert gpu.energy_joules == its.energy_joules
    assert its.idle_covered_seconds <= row.elapsed_seconds
    assert -1e-9 <= (its.idle_seconds or 0.0) <= its.idle_covered_seconds * (1 + 1e-9)
    assert -1e-9 <= (its.idle_tail_seconds or 0.0) <= (its.idle_seconds or 0.0) * (1 + 1e-9)
    assert (its.non_tensor_seconds or 0.0) <= its.non_tensor_covered_seconds * (1 + 1e-9)
    assert (gpu.idle_tail_seconds is None) == (its.idle_tail_seconds is None)


@pytest.mark.property
@NOW_AND_THEN
@given(ran=st.integers(1, 10**5), suspended=st.integers(0, 10**5), activity=RATIOS)
def test_suspended_time_leaves_the_denominator(
    ran: int, suspended: int, activity: float, template: bytes
) -> None:
    """A job that was measured all the time: its OFU is over the time it ran, exactly."""
    whole, active = float(ran + suspended), activity * ran
    gpu = replace(make_gpu(allocated=whole, covered=whole, tensor_ref=active), tensor_active_seconds=active)
    record = make_record(end=START + whole, allocated=whole, gpus=[gpu])
    its = figures(_page(template, [record], [_row(ran, suspended)]).row.sums)
    assert ran / 3600 == its.gpu_hours
    assert 1.0 == pytest.approx(its.coverage_ratio)
    assert activity == pytest.approx(its.ofu_ratio)


@pytest.mark.property
@NOW_AND_THEN
@given(ran=st.integers(1, 10**5), suspended=st.integers(0, 10**5), share=RATIOS)
def test_suspended_time_is_no_idle_time(ran: int, suspended: int, share: float, template: bytes) -> None:
    """A job that was judged all the time, idle while suspended and for a share of the rest: only that share
    is its idle time, and its tail is no longer than what is left of it."""
    whole, idle = float(ran + suspended), share * ran
    gpu = replace(
        make_gpu(allocated=whole, covered=whole, tensor_ref=0.0),
        tensor_active_seconds=0.0,
        idle_seconds=idle + suspended,
        idle_covered_seconds=whole,
        idle_tail_seconds=idle + suspended,
        non_tensor_seconds=ran - idle,
        non_tensor_covered_seconds=whole,
    )
    record = make_record(end=START + whole, allocated=whole, gpus=[gpu])
    its = figures(_page(template, [record], [_row(ran, suspended)]).row.sums)
    seen = (its.idle_gpu_hours, its.idle_judged_gpu_hours, its.idle_tail_gpu_hours, its.non_tensor_gpu_hours)
    assert seen == pytest.approx((idle / 3600, ran / 3600, idle / 3600, (ran - idle) / 3600), abs=1e-6)
    assert its.non_tensor_judged_gpu_hours == pytest.approx(ran / 3600)
    assert its.held_suspended_gpu_hours == pytest.approx(suspended / 3600)


@pytest.mark.parametrize(("suspended", "idle", "tail"), [(600, 1400.0, 300.0), (1200, 800.0, 0.0)])
def test_what_was_suspended_may_have_been_the_end(
    suspended: int, idle: float, tail: float, template: bytes
) -> None:
    """Nobody knows when a job was suspended: its tail loses as much as its idle time."""
    gpu = replace(
        make_gpu(allocated=3600.0, covered=3600.0),
        idle_seconds=2000.0,
        idle_covered_seconds=3600.0,
        idle_tail_seconds=900.0,
        peak_tensor_ref_seconds=150.0,
        peak_covered_seconds=300.0,
    )
    its = _page(template, [make_record(gpus=[gpu])], [_row(3600 - suspended, suspended)]).gpus[0].totals
    assert (idle, tail) == pytest.approx((its.idle_seconds, its.idle_tail_seconds))
    assert (150.0, 300.0) == (its.peak_tensor_ref_seconds, its.peak_covered_seconds)  # not suspended then


def test_what_was_busy_was_not_suspended(template: bytes) -> None:
    """Of the judged time no more can have been suspended than was idle."""
    gpu = replace(make_gpu(allocated=3600.0, covered=2000.0), idle_seconds=100.0, idle_covered_seconds=2000.0)
    its = _page(template, [make_record(gpus=[gpu])], [_row(3000, 600)]).gpus[0].totals
    assert (0.0, 1900.0) == (its.idle_seconds, its.idle_covered_seconds)


def test_a_shared_gpu_was_held_in_part_while_suspended(template: bytes) -> None:
    """A job that had half of one GPU, and a whole one, held one and a half while it was suspended."""
    gpus = [make_gpu(0, reason="shared", allocated=1800.0, covered=1700.0), make_gpu(1)]
    page = _page(template, [make_record(gpus=gpus)], [_row(3000, 600, gpu_count=2)])
    assert 900.0 == page.row.sums.held_suspended_seconds
    unaccounted = _page(template, [make_record(gpus=gpus)], [])
    assert None is unaccounted.row.sums.held_suspended_seconds


def test_a_suspect_gpu_was_not_measured(template: bytes) -> None:
    """In sums a suspect GPU is allocated and not measured, in the database as in what is pooled from rows;
    its own row keeps what the counters said."""
    odd = replace(make_gpu(1, reason="suspect", tensor_ref=0.0), **by_name(idle_seconds=100.0))
    good = replace(make_gpu(0), **by_name(idle_seconds=50.0))
    page = _page(template, [make_record(gpus=[good, odd])], [])
    alone = figures(_page(template, [make_record(gpus=[good])], []).row.sums)
    its = figures(page.row.sums)
    assert (alone.ofu_ratio, alone.tpa_mean_ratio, alone.sm_active_ratio, alone.idle_gpu_hours) == (
        *(its.ofu_ratio, its.tpa_mean_ratio, its.sm_active_ratio, its.idle_gpu_hours),
    )  # fmt: skip
    assert ("suspect", alone.ofu_error_pp) == (its.reason, its.ofu_error_pp)
    assert (alone.coverage_ratio or 0.0) / 2 == pytest.approx(its.coverage_ratio)
    assert its == figures(with_counts(pool_gpus([gpu.totals for gpu in page.gpus])))
    assert 0.0 == page.gpus[1].totals.tensor_ref_seconds


def by_name(**columns: float) -> dict[str, Any]:
    """Changes of a GPU."""
    return columns


@pytest.mark.property
@NOW_AND_THEN
@given(
    data=st.data(),
    heard=st.lists(st.tuples(st.integers(1, 4), st.one_of(st.none(), SECONDS)), min_size=1, max_size=3),
    missing=st.integers(0, 2),
    elapsed=st.integers(0, 10**5),
)
def test_allocated_seconds_are_slurms(
    data: st.DataObject,
    heard: list[tuple[int, float | None]],
    missing: int,
    elapsed: int,
    template: bytes,
) -> None:
    """Nodes that told another time, or none, and nodes never heard from: GPUs times Slurm's seconds."""
    count = len(heard) + missing
    job = make_job(node_list=f"n[1-{count}]" if count > 1 else "n1", node_count=count)
    records = [
        make_record(
            *(job,),
            node=f"n{at}",
            allocated=own,
            gpus=[make_gpu(n, allocated=own, covered=0.0, tensor_ref=None) for n in range(number)],
        )
        for at, (number, own) in enumerate(heard, start=1)
    ]
    gpu_count = sum(number for number, _ in heard) + missing * 3
    listed = job.node_list
    page = _page(template, records, [_row(elapsed, node_list=listed, node_count=count, gpu_count=gpu_count)])
    assert (gpu_count, gpu_count * elapsed, 0.0) == (
        *(page.row.sums.gpu_count, page.row.sums.allocated_seconds),
        page.row.sums.gpu_count_unknown_time,
    )


def test_shared_gpus_keep_their_split(template: bytes) -> None:
    """Half of a GPU for an hour by the node's clock is half of one for what Slurm charges."""
    half = make_gpu(reason="shared", allocated=1800.0, covered=1700.0)
    page = _page(template, [make_record(gpus=[half])], [_row(3000)])
    assert (1500.0, 1500.0) == (
        *(page.row.sums.allocated_seconds, page.row.sums.covered_seconds),
    )  # fmt: skip


def test_nothing_accounted_nothing_changed(template: bytes) -> None:
    """Without a final row the GPUs are as they were told, also where more is covered than allocated."""
    gpu = make_gpu(covered=3700.0)
    page = _page(template, [make_record(gpus=[gpu])], [make_row(end=None, state="RUNNING")])
    assert gpu == page.gpus[0].totals
    assert (3600.0, 3700.0) == (page.row.sums.allocated_seconds, page.row.sums.covered_seconds)


def test_a_life_of_no_time_weighs_nothing(template: bytes) -> None:
    """Slurm counts whole seconds: of a run of 0 s nothing is charged, and nothing is divided by it."""
    page = _page(template, [make_record(gpus=[make_gpu(allocated=0.7, covered=0.5)])], [_row(0)])
    its = figures(page.row.sums)
    assert (0.0, 0.0, None, None) == (
        *(page.row.sums.allocated_seconds, page.row.sums.covered_seconds),
        *(its.ofu_ratio, its.coverage_ratio),
    )


def test_the_page_adds_up_to_its_run(template: bytes) -> None:
    """The GPUs of a page, pooled, are the run's sums, after accounting as before."""
    job = make_job(node_list="n[1-2]", node_count=2)
    judged: dict[str, Any] = {**BY_MINUTES}
    one, two = (replace(make_gpu(position), **judged) for position in range(2))
    records = [make_record(job, gpus=[one, two]), make_record(job, node="n2")]
    page = _page(template, records, [_row(3000, 300, node_list="n[1-2]", gpu_count=3)])

    def shown(its: Figures) -> tuple[object, ...]:
        minutes = its.idle_gpu_hours, its.idle_tail_gpu_hours, its.non_tensor_gpu_hours, its.peak_ofu_ratio
        assert None not in minutes
        return (
            *minutes,
            its.ofu_ratio,
            its.ofu_error_pp,
            its.coverage_ratio,
            its.gpu_hours,
            its.sm_active_ratio,
        )

    pooled = figures(with_counts(pool_gpus([gpu.totals for gpu in page.gpus])))
    assert shown(pooled) == pytest.approx(shown(figures(page.row.sums)))
    assert [3000.0, 3000.0] == [node.allocated_seconds for node in page.nodes]
