"""Old rows under a corrected reference clock are what they would have been with it from the start."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_ofu.records.build import node_reason, reason_of_many
from slurm_ofu.store.recomputing import OutdatedRows, Recomputation
from slurm_ofu.values import GpuModel, GpuTotals, NodeRecord, QuarterSums, Timeline
from tests.store.databases import content, make_store, query
from tests.store.records import START, make_job, make_record

OLD, NEW = 1980.0, 1830.0
MODEL = "NVIDIA X1"


def gpu(
    position: int, cycles: float, clock: float | None, *, model: str = MODEL, seconds: float = 900.0
) -> GpuTotals:
    """A GPU with so many active megacycles, as a node that knows this reference clock tells it."""

    def at(megacycles: float) -> float | None:
        return None if clock is None else megacycles / clock

    return GpuTotals(
        position=position,
        reason="unknown_model" if clock is None else "ok",
        allocated_seconds=900.0,
        covered_seconds=seconds,
        uuid=f"GPU-{position}",
        gpu_model=model,
        reference_clock_mhz=clock,
        estimator="sampled",
        interval_count=90,
        tensor_active_seconds=seconds / 2,
        tensor_ref_seconds=at(cycles),
        tensor_ref_error_seconds=at(cycles / 100),
        error_degrees=50.0,
        disagreement_ratio=at(cycles / 1000),
        peak_tensor_ref_seconds=at(cycles / 3),
        peak_covered_seconds=300.0,
        tensor_megacycles=cycles if clock is None else None,
        tensor_megacycles_error=cycles / 100 if clock is None else None,
        timeline=Timeline(start_epoch_s=START, bucket_seconds=900.0, buckets=((at(cycles), seconds),)),
    )


def record(gpus: Sequence[GpuTotals], job_id: int = 1) -> NodeRecord:
    """A node's record, with its quarter hours."""
    made = make_record(make_job(job_id=job_id), allocated=900.0, end=START + 900.0, gpus=gpus)
    models = dict.fromkeys(its.gpu_model for its in gpus)
    return replace(made, reason=node_reason(gpus), quarters=tuple(quarter(gpus, model) for model in models))


def quarter(gpus: Sequence[GpuTotals], model: str | None) -> QuarterSums:
    """One quarter hour of the GPUs of one model."""
    parts = [its.tensor_ref_seconds for its in gpus if its.gpu_model == model]
    known = [part for part in parts if part is not None]
    return QuarterSums(
        gpu_model=model,
        start_epoch_s=int(START),
        allocated_seconds=900.0,
        covered_seconds=800.0,
        tensor_active_seconds=100.0,
        tensor_ref_seconds=sum(known) if known else None,
        tensor_ref_error_seconds=sum(known) / 100 if known else None,
    )


def recomputation(path: Path, clock: float | None = NEW, highest: float | None = None) -> Recomputation:
    """With a catalogue of one model."""
    model = (
        None
        if clock is None
        else GpuModel(name=MODEL, sm_count=1, reference_clock_mhz=clock, max_clock_mhz=highest)
    )
    return Recomputation(
        path,
        wait_seconds=10,
        model_of=lambda name: model if name == MODEL else None,
        node_reason=reason_of_many,
    )


def recompute(path: Path, clock: float = NEW, highest: float | None = None) -> None:
    """All of it."""
    its = recomputation(path, clock, highest)
    for rows in its.outdated():
        for _ in its.recompute(rows, 0.0):
            pass


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cycles=st.lists(st.floats(0, 1e6), min_size=1, max_size=4))
def test_rows_are_as_if_made_with_the_new_clock(
    cycles: list[float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Numerators, errors, peaks, time-lines and quarter hours: all that rests on the clock, and no more."""
    both = []
    for clock in (OLD, NEW):
        store = make_store(tmp_path_factory.mktemp("store") / "ofu.db")
        other = gpu(9, 1e5, 1410.0, model="NVIDIA Y2")
        store.write([record([*(gpu(at, part, clock) for at, part in enumerate(cycles)), other])])
        both.append(store.path)
    recompute(both[0])
    for table, rows in content(both[1]).items():
        found = content(both[0])[table]
        for expected, actual in zip(rows, found, strict=True):
            for at, (want, got) in enumerate(zip(expected, actual, strict=True)):
                if isinstance(want, float):
                    assert got == pytest.approx(want, rel=1e-9), (table, at)
                elif table not in ("run_node", "gpu_timeline"):  # the fingerprint; six digits
                    assert want == got, (table, at)
    [(text,)] = query(both[0], "SELECT timeline_json FROM gpu_timeline WHERE position = 0")
    assert float(text.split("[[")[1].split(",")[0]) == pytest.approx(cycles[0] / NEW, rel=1e-5)


def test_an_unknown_model_gets_its_figure(tmp_path: Path) -> None:
    """Its active cycles were kept: the figure, its error and both reasons come, once the clock is known."""
    store = make_store(tmp_path / "ofu.db")
    store.write([record([gpu(0, 9000.0, None), gpu(1, 18000.0, None)])])
    recompute(store.path, 1800.0)
    assert [(1800.0, "ok", 5.0, 0.05, None), (1800.0, "ok", 10.0, 0.1, None)] == query(
        store.path,
        "SELECT reference_clock_mhz, reason, tensor_ref_seconds, tensor_ref_error_seconds, tensor_megacycles"
        " FROM run_gpu ORDER BY position",
    )
    assert [("ok",)] == query(store.path, "SELECT reason FROM run_node")
    assert [] == recomputation(store.path, 1800.0).outdated()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"interval_count": 1}, "short"),
        ({"allocated_seconds": 450.0}, "shared"),
        ({"tensor_megacycles": 900.0 * 2100}, "suspect"),
        ({"reason": "sampler_died"}, "sampler_died"),
    ],
)
def test_the_reason_of_a_model_that_became_known(
    tmp_path: Path, change: dict[str, float | str], reason: str
) -> None:
    """A reason that the unknown clock had hidden comes to light; any other stays."""
    store = make_store(tmp_path / "ofu.db")
    made = record([replace(gpu(0, 9000.0, None), **change)])  # type: ignore[arg-type]
    store.write([replace(made, allocated_seconds=900.0)])
    recompute(store.path, 1800.0, 2000.0)
    assert [(reason,)] == query(store.path, "SELECT reason FROM run_gpu")


def test_what_cannot_be_recomputed_is_said_and_stays(tmp_path: Path) -> None:
    """Rows without cycles, and rows of a model that nobody knows any more, are listed and left."""
    store = make_store(tmp_path / "ofu.db")
    bare = replace(gpu(0, 9000.0, None), tensor_megacycles=None, tensor_megacycles_error=None)
    store.write([record([bare]), record([gpu(0, 9000.0, OLD)], job_id=2)])
    before = content(store.path)
    assert [(None, NEW, 1, 1, 1), (OLD, NEW, 1, 1, 0)] == [told(rows) for rows in outdated(store.path, NEW)]
    nobody_knows = [(None, None, 1, 1, 1), (OLD, None, 1, 1, 0)]
    assert nobody_knows == [told(rows) for rows in outdated(store.path, None)]
    its = recomputation(store.path, None)
    for rows in its.outdated():
        assert [] == list(its.recompute(rows, 0.0))
    assert before == content(store.path)


def outdated(path: Path, clock: float | None) -> list[OutdatedRows]:
    """What there is to do."""
    return recomputation(path, clock).outdated()


def told(rows: OutdatedRows) -> tuple[float | None, float | None, int, int, int]:
    """The facts of it."""
    return (
        rows.old_clock_mhz,
        rows.new_clock_mhz,
        rows.gpu_row_count,
        rows.run_count,
        rows.lost_count,
    )


def test_a_clock_that_is_the_same_is_left_alone(tmp_path: Path) -> None:
    """Nothing to do is nothing done, down to the last digit that a record carries."""
    store = make_store(tmp_path / "ofu.db")
    store.write([record([gpu(0, 9000.0, 2007.7000001)])])
    assert [] == outdated(store.path, 2007.7)


def test_a_record_that_comes_again_undoes_nothing(tmp_path: Path) -> None:
    """The very same record, delivered twice, does not bring the old clock back."""
    store = make_store(tmp_path / "ofu.db")
    made = record([gpu(0, 9000.0, OLD)])
    store.write([made])
    recompute(store.path)
    store.write([made])
    assert [(NEW,)] == query(store.path, "SELECT reference_clock_mhz FROM run_gpu")


def test_it_can_be_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Transaction by transaction: what is done is done, and the rest is found again."""
    monkeypatch.setattr("slurm_ofu.store.recomputing.RUNS_PER_TRANSACTION", 2)
    store = make_store(tmp_path / "ofu.db")
    store.write([record([gpu(0, 9000.0, OLD)], job_id=job) for job in range(1, 6)])
    its = recomputation(store.path)
    [rows] = its.outdated()
    assert 2 == next(its.recompute(rows, 0.0))
    assert [3] == [rows.run_count for rows in its.outdated()]
    recompute(store.path)
    assert [(5, NEW)] == query(store.path, "SELECT COUNT(*), MAX(reference_clock_mhz) FROM run_gpu")


def test_its_word_in_slurm_is_due_again(tmp_path: Path) -> None:
    """A run that was recomputed has something new said of it: its token will be written anew."""
    store = make_store(tmp_path / "ofu.db")
    store.write([record([gpu(0, 9000.0, OLD)])])
    its = recomputation(store.path)
    list(its.recompute(its.outdated()[0], 9e9))
    assert [(9e9,)] == query(store.path, "SELECT updated_epoch_s FROM run")
