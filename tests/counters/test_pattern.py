"""GPUs with a known truth: the integrals are exact."""

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ofu.counters.pattern import Pattern, Segment
from slurm_ofu.counters.synthetic import SyntheticSource, device_uuid, open_synthetic
from slurm_ofu.errors import SourceError
from tests.samples.fake_clock import BURSTY, pattern

SEGMENTS = st.lists(
    st.builds(
        Segment,
        seconds=st.floats(0.01, 100),
        tensor_active_ratio=st.floats(0, 1),
        sm_clock_mhz=st.floats(100, 2500),
        sm_active_ratio=st.floats(0, 1),
        dram_active_ratio=st.floats(0, 1),
        power_watts=st.floats(0, 1000),
    ),
    min_size=1,
    max_size=6,
)
QUICK = settings(deadline=None, max_examples=80)


def test_integrals_by_hand() -> None:
    """Two segments, counted by hand: 0.5 s at 1000 MHz half active, 0.5 s at 2000 MHz idle."""
    its = pattern((0.5, 0.5, 1000.0), (0.5, 0.0, 2000.0))
    done = its.until(2.25)
    assert (2 * 1500 + 250, 2 * 250 + 125) == pytest.approx((done.sm_megacycles, done.tensor_megacycles))
    assert 625 / 1830 / 2.25 == pytest.approx(its.ofu_ratio(0.0, 2.25, 1830.0))


@pytest.mark.property
@QUICK
@given(SEGMENTS, st.lists(st.floats(0, 1e6), min_size=2, max_size=6).map(sorted))
def test_integrals_are_additive(segments: list[Segment], times: list[float]) -> None:
    """What happened in two stretches together is what happened in both."""
    its = Pattern(segments)
    whole = its.until(times[-1]).minus(its.until(times[0])).tensor_megacycles
    parts = [its.until(end).minus(its.until(begin)).tensor_megacycles for begin, end in pairwise(times)]
    assert whole == pytest.approx(math.fsum(parts), rel=1e-6, abs=1e-3)


@pytest.mark.property
@QUICK
@given(SEGMENTS, st.floats(0, 1e5), st.integers(1, 50))
def test_a_whole_number_of_periods_is_the_mean(segments: list[Segment], begin: float, count: int) -> None:
    """Over whole periods OFU does not depend on where they begin."""
    its = Pattern(segments)
    end = begin + count * its.period_seconds
    expected = math.fsum(one.seconds * one.tensor_active_ratio * one.sm_clock_mhz for one in segments)
    assert expected / its.period_seconds / 1830 == pytest.approx(
        its.ofu_ratio(begin, end, 1830.0), rel=1e-6, abs=1e-9
    )


def test_the_segment_at_a_time() -> None:
    """A boundary belongs to the segment that begins there; after the last comes the first."""
    its = pattern((1.0, 0.1, 1000.0), (2.0, 0.2, 1100.0))
    seen = [its.at(at).sm_clock_mhz for at in (0.0, 0.999, 1.0, 2.999, 3.0, 301.5)]
    assert [1000.0, 1000.0, 1100.0, 1100.0, 1000.0, 1100.0] == seen


def test_every_process_sees_the_same_gpu() -> None:
    """The time-line hangs on an absolute clock: two sources of one file agree."""
    first, second = (SyntheticSource({0: BURSTY}, gpu_model="H", now_ns=lambda: 10**15 + 7) for _ in range(2))
    (device,) = first.devices()
    assert device == second.devices()[0]
    assert first.sm_clock_mhz(device) == second.sm_clock_mhz(device)
    assert device_uuid(0) == device.uuid


SEGMENT = {"seconds": 1, "tensor_active_ratio": 0.5, "sm_clock_mhz": 1755}
GOOD: dict[str, Any] = {"gpu_model": "H", "gpus": 2, "default": [SEGMENT]}


def written(folder: Path, table: object) -> Path:
    path = folder / "source.json"
    path.write_text(json.dumps(table))
    return path


def test_a_file_says_whose_gpus_and_what_slowed_them(tmp_path: Path) -> None:
    """GPUs of another host are others, and a segment may say that the driver slowed it down."""
    hot = {**SEGMENT, "throttle_mask": 0x20}
    here = open_synthetic(written(tmp_path, {**GOOD, "host": "n1", "default": [hot]}), 1)
    uuids = {device_uuid(index, host) for index in (0, 1) for host in ("", "n1", "n2")}
    assert 6 == len(uuids)
    assert [device_uuid(index, "n1") for index in (0, 1)] == [its.uuid for its in here.devices()]
    assert 0x20 == here.read(here.devices()[0]).throttle_mask


def test_a_job_may_have_time_lines_of_its_own(tmp_path: Path) -> None:
    """jobs gives a job's GPUs time-lines of their own; default is every other GPU's."""
    own = {**GOOD, "jobs": {"101": {"1": [{**SEGMENT, "sm_clock_mhz": 345}]}}}
    path = written(tmp_path, own)
    for job, expected in ((101, [1755, 345]), (102, [1755, 1755])):
        source = open_synthetic(path, job)
        assert expected == [source.sm_clock_mhz(device) for device in source.devices()]


@pytest.mark.parametrize(
    "table",
    [
        [],
        {},
        {**GOOD, "default": []},
        {**GOOD, "default": "x"},
        {**GOOD, "gpus": "many"},
        {**GOOD, "jobs": []},
        {**GOOD, "jobs": {"7": {"0": []}}},
        *[
            {**GOOD, "default": [{**SEGMENT, "sm_clock_mhz": value}]}
            for value in (0, -1, "x", None, math.nan)
        ],
        *[{**GOOD, "default": [{**SEGMENT, "seconds": value}]} for value in (0, -1, "x", None, math.inf)],
        *[{**GOOD, "default": [{**SEGMENT, "tensor_active_ratio": value}]} for value in (1.1, -1, math.nan)],
        {**GOOD, "default": [{**SEGMENT, "tensor": 1}]},
    ],
)
def test_a_file_that_makes_no_sense_is_a_source_error(tmp_path: Path, table: object) -> None:
    """A file that is not as described raises SourceError when it is opened, not when it is read."""
    with pytest.raises(SourceError, match=r"source\.json"):
        open_synthetic(written(tmp_path, table), 7)


def test_a_file_that_is_missing_is_a_source_error(tmp_path: Path) -> None:
    """A file that is not there raises SourceError with its name."""
    with pytest.raises(SourceError, match="nowhere"):
        open_synthetic(tmp_path / "nowhere", 7)
