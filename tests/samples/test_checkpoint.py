"""What the sampler keeps on disk."""

import json
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ofu.errors import StateError
from slurm_ofu.integrals.gpu_fold import GpuFold
from slurm_ofu.samples.checkpoint import Checkpoint, GpuState, decode_checkpoint, encode_checkpoint
from slurm_ofu.values import SamplerHealth
from tests.integrals.examples import counted_fold

NAMES = st.one_of(st.none(), st.text(st.characters(codec="utf-8"), max_size=20))
STATES = st.builds(
    GpuState,
    position=st.integers(0, 64),
    uuid=NAMES,
    gpu_model=NAMES,
    mapped_by=NAMES,
    sm_count=st.one_of(st.none(), st.integers(1, 200)),
    reason=st.sampled_from([None, "short", "unmapped", "no_source"]),
)
HEALTH = st.builds(
    SamplerHealth,
    tick_count=st.integers(0, 10**9),
    missed_ticks=st.integers(0, 10**6),
    late_max_seconds=st.floats(0, 1e6),
    wall_step_seconds=st.floats(0, 1e9),
    placement=NAMES,
    source=NAMES,
)
CHECKPOINTS = st.builds(
    Checkpoint,
    saved_ns=st.integers(0, 2**62),
    wall_offset_ns=st.integers(-(2**62), 2**62),
    interval_seconds=st.floats(0.1, 1e5),
    refresh_seconds=st.floats(0.0, 10.0),
    gpus=st.lists(STATES, max_size=4).map(tuple),
    health=HEALTH,
    ended=st.booleans(),
)


def packed(table: object) -> bytes:
    """Bytes as a checkpoint's are made."""
    return zlib.compress(json.dumps(table).encode())


@pytest.mark.property
@settings(deadline=None, max_examples=60)
@given(CHECKPOINTS)
def test_a_checkpoint_comes_back_as_it_was(checkpoint: Checkpoint) -> None:
    """Decoding what was encoded gives the same checkpoint."""
    assert checkpoint == decode_checkpoint(encode_checkpoint(checkpoint))


def test_folds_come_back() -> None:
    """The fold in a checkpoint is the fold that went in."""
    fold = counted_fold(intervals=4)
    checkpoint = Checkpoint(
        saved_ns=1,
        wall_offset_ns=2,
        interval_seconds=10.0,
        refresh_seconds=0.1,
        gpus=(GpuState(position=0, fold=fold.state()),),
    )
    (gpu,) = decode_checkpoint(encode_checkpoint(checkpoint)).gpus
    assert gpu.fold is not None
    assert fold.state() == GpuFold.from_state(dict(gpu.fold)).state()


@pytest.mark.property
@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=200))
def test_other_bytes_are_a_state_error(data: bytes) -> None:
    """Bytes that are no checkpoint raise StateError and nothing else."""
    with pytest.raises(StateError):
        decode_checkpoint(data)


GOOD = encode_checkpoint(
    Checkpoint(saved_ns=1, wall_offset_ns=2, interval_seconds=10.0, refresh_seconds=0.1, gpus=())
)


@pytest.mark.property
@settings(deadline=None, max_examples=100)
@given(st.integers(0, len(GOOD) - 1))
def test_half_a_checkpoint_is_a_state_error(length: int) -> None:
    """A checkpoint that was cut off anywhere raises StateError."""
    with pytest.raises(StateError):
        decode_checkpoint(GOOD[:length])


@pytest.mark.property
@settings(deadline=None, max_examples=100)
@given(st.integers(0, len(GOOD) - 1), st.integers(1, 255))
def test_damage_is_never_taken_for_figures(place: int, flip: int) -> None:
    """A damaged checkpoint raises StateError, unless the damage lies in a bit that says nothing."""
    damaged = GOOD[:place] + bytes([GOOD[place] ^ flip]) + GOOD[place + 1 :]
    try:
        found = decode_checkpoint(damaged)
    except StateError:
        return
    assert decode_checkpoint(GOOD) == found


@pytest.mark.parametrize(
    "table",
    [
        None,
        [],
        "text",
        7,
        {},
        {"format": 2},
        {"format": 1},
        {"format": 1, "gpus": [], "health": {}},
        {"format": 1, "gpus": [7], "health": {}},
        {"format": 1, "gpus": {}, "health": [], "saved_ns": 1},
        {"format": 1, "gpus": [{"position": 0, "newer": 1}], "health": {}},
    ],
)
def test_other_shapes_are_a_state_error(table: object) -> None:
    """JSON of another shape or of another version raises StateError."""
    with pytest.raises(StateError):
        decode_checkpoint(packed(table))


def test_deep_nesting_is_a_state_error() -> None:
    """JSON too deep to read raises StateError."""
    with pytest.raises(StateError):
        decode_checkpoint(zlib.compress(b"[" * 100_000))
