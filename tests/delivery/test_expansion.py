"""How large packed records become."""

import tracemalloc
import zlib

import pytest

from slurm_ofu.delivery.expansion import EXPANDED_LIMIT, expanded_bytes


@pytest.mark.parametrize("size", [0, 1, (1 << 16) - 1, 1 << 16, (1 << 16) + 1, 1_000_000])
def test_what_is_packed_is_counted(size: int) -> None:
    """The size is that of what is packed, however it falls into steps."""
    data = zlib.compress(b"\0" * size)
    assert max(size, len(data)) == expanded_bytes(data)


@pytest.mark.parametrize("data", [b"", b"nothing packed", zlib.compress(b"x" * 9000)[:-5]])
def test_what_is_not_packed_has_a_size_too(data: bytes) -> None:
    """Bytes that are no whole record are counted as what they are, or as far as they go: no error."""
    assert expanded_bytes(data) >= len(data)


def test_a_bomb_costs_no_memory() -> None:
    """Of what unpacks to more than the limit no more than the limit is counted, and nothing is kept."""
    bomb = zlib.compress(b"\0" * (4 * EXPANDED_LIMIT))
    tracemalloc.start()
    try:
        size = expanded_bytes(bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert EXPANDED_LIMIT < size <= EXPANDED_LIMIT + (1 << 16)
    assert peak < 2 << 20
