"""Counters as they were recorded, played back."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from slurm_ofu.counters.replay import ReplaySource, open_replay
from slurm_ofu.errors import SourceError
from slurm_ofu.values import DeviceIdentity

GPU = DeviceIdentity(index=0, uuid="GPU-0")
Row = dict[str, Any]


def row(at: float, tensor: float | None = 0.5, **values: Any) -> Row:
    return {"at_seconds": at, "gpu": 0, "tensor_active_ratio": tensor, "sm_clock_mhz": 1755.0, **values}


class Player:
    """A source of rows, and its time."""

    def __init__(self, *rows: Row) -> None:
        self.now = 10**12
        self.source = ReplaySource([GPU], rows, now_ns=lambda: self.now)

    def at(self, seconds: float) -> "Player":
        """So many seconds after the opening."""
        self.now = 10**12 + round(seconds * 1e9)
        return self


def test_ratios_are_means_over_time() -> None:
    """A ratio holds for the time since that GPU's row before: a reading averages by time."""
    player = Player(row(1.0, 0.2), row(3.0, 0.8), row(4.0, 0.4), row(9.0, 0.4))
    player.source.read(GPU)
    reading = player.at(3.5).source.read(GPU)
    assert (1.0 * 0.2 + 2.0 * 0.8 + 0.5 * 0.4) / 3.5 == pytest.approx(reading.tensor_active_ratio)
    assert (10**12, 10**12 + 3_500_000_000) == (reading.since_ns, reading.taken_ns)


def test_instantaneous_figures_are_the_latest() -> None:
    """The clock and the other figures are the latest that were recorded."""
    player = Player(row(1.0, sm_clock_mhz=345.0, power_watts=70.0), row(2.0, power_watts=0.0), row(9.0))
    assert None is player.at(0.5).source.sm_clock_mhz(GPU)
    assert 345.0 == player.at(1.5).source.sm_clock_mhz(GPU)
    assert [70.0, 0.0] == [player.at(at).source.read(GPU).power_watts for at in (1.9, 2.0)]


def test_a_gap_is_a_fault_and_no_zero() -> None:
    """Where any part of the time was not recorded there is no figure."""
    player = Player(row(1.0), row(2.0, None), row(9.0))
    player.source.read(GPU)
    reading = player.at(2.5).source.read(GPU)
    assert ("source_lost", None) == (reading.fault, reading.tensor_active_ratio)


def test_after_the_last_row_a_gpu_is_lost() -> None:
    """After a GPU's last row it is lost; up to it, it is not."""
    player = Player(row(1.0), row(2.0))
    player.source.read(GPU)
    assert None is player.at(2.0).source.read(GPU).fault
    assert "source_lost" == player.at(2.1).source.read(GPU).fault
    assert None is player.source.sm_clock_mhz(GPU)


@pytest.mark.parametrize(("cycles", "expected"), [(None, False), (5.0, True)])
def test_cycles_are_known_from_the_start(cycles: float | None, expected: bool) -> None:
    """A recording with cycle counters has them."""
    assert expected == Player(row(1.0, mma_cycles=cycles)).source.has_cycles


def opened(folder: Path, *lines: object) -> ReplaySource:
    path = folder / "recording.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return open_replay(path)


def test_a_file_is_read(tmp_path: Path) -> None:
    """The first line says which GPUs, every other is one GPU at one time."""
    source = opened(tmp_path, {"gpus": [{"uuid": "GPU-1", "minor": 4}]}, row(1.0), row(2.0))
    assert (DeviceIdentity(index=0, uuid="GPU-1", minor=4),) == source.devices()
    assert ("replay", None) == (source.name, source.read(source.devices()[0]).fault)


HEAD = {"gpus": [{"uuid": "GPU-1"}]}


@pytest.mark.parametrize(
    "lines",
    [
        (),
        (7,),
        ({},),
        ({"gpus": [{"name": "x"}]},),
        (HEAD, 7),
        (HEAD, {"gpu": 0}),
        (HEAD, {"at_seconds": 1.0}),
        (HEAD, row(math.nan)),
        (HEAD, row(1.0, math.nan)),
        (HEAD, row(1.0, 1.5)),
        (HEAD, row(1.0, power_watts="much")),
        (HEAD, row(1.0, sm_clock_mhz=math.inf)),
        (HEAD, row(1.0, sm_clock_mhz=[])),
        (HEAD, {**row(1.0), "at_seconds": None}),
    ],
)
def test_a_file_that_makes_no_sense_is_a_source_error(tmp_path: Path, lines: tuple[object, ...]) -> None:
    """A file that is not as described raises SourceError when it is opened, not when it is read."""
    with pytest.raises(SourceError, match="not a recording"):
        opened(tmp_path, *lines)
