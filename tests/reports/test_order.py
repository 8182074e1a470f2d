"""The order of lines, and the worst list."""

from typing import Any

from slurm_ofu.reports.order import in_order, worst_of
from slurm_ofu.values import UsageRow
from tests.figures.examples import HOUR, measured, unmeasured
from tests.reports.examples import job_row

BY_MINUTES: dict[str, Any] = {
    "idle_seconds": 0.0,
    "idle_covered_seconds": 16 * HOUR,
    "non_tensor_seconds": 0.0,
    "non_tensor_covered_seconds": 16 * HOUR,
}


def lost(job_id: int, seconds: float | None, **changes: Any) -> UsageRow:
    """A run that lost so much."""
    return job_row(job_id, measured(lost_seconds=seconds, **{**BY_MINUTES, **changes}))


def ids(rows: list[UsageRow]) -> list[str | None]:
    """Which they are."""
    return [row.group for row in rows]


ROWS = [
    job_row(2, unmeasured(allocated_seconds=None)),
    job_row(1, measured(tensor_ref_seconds=0.5 * 16 * HOUR, lost_seconds=0.0)),
    job_row(3, measured(tensor_ref_seconds=0.1 * 16 * HOUR, lost_seconds=12 * HOUR)),
    job_row(
        4, measured(tensor_ref_seconds=0.3 * 16 * HOUR, lost_seconds=4 * HOUR, allocated_seconds=99 * HOUR)
    ),
]


def test_orders() -> None:
    """The lowest OFU, the most GPU-hours, the most lost ones first; what is not known last, never as 0."""
    assert ["2", "1", "3", "4"] == ids(in_order(ROWS, "name"))
    assert ["3", "4", "1", "2"] == ids(in_order(ROWS, "ofu"))
    assert ["4", "1", "3", "2"] == ids(in_order(ROWS, "gpu-hours"))
    assert ["3", "4", "1", "2"] == ids(in_order(ROWS, "lost"))


def test_the_worst_list() -> None:
    """Those that lost most come first, no more than asked for, and who lost nothing is not on it."""
    rows = [lost(1, HOUR), lost(2, 5 * HOUR), lost(3, 0.0), lost(4, 3 * HOUR)]
    assert ["2", "4", "1"] == ids(worst_of(rows, 9))
    assert ["2", "4"] == ids(worst_of(rows, 2))


def test_nobody_is_blamed_for_what_is_not_known() -> None:
    """Runs that are not measured, busy without tensor cores, or perhaps so, are on no worst list."""
    busy = {"non_tensor_seconds": 16 * HOUR}
    unknown = {"non_tensor_covered_seconds": 0.0}
    rows = [
        lost(1, 9 * HOUR, **busy),
        lost(2, 9 * HOUR, **unknown),
        lost(3, None),
        job_row(4, unmeasured(lost_seconds=9 * HOUR)),
    ]
    assert [] == worst_of(rows, 5)
