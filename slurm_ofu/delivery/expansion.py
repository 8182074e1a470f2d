"""How large packed records become, found out before anybody unpacks them: 17 KB may be 16 MiB of text, and
that 1 GB of values in memory. Who takes many at once counts first."""

import zlib

#: Bytes of text that the records of one message, or of one transaction, may come to: as many as one record.
EXPANDED_LIMIT = 16 << 20
_STEP = 1 << 16


def expanded_bytes(data: bytes, most: int = EXPANDED_LIMIT) -> int:
    """Bytes after unpacking; beyond ``most`` no more is counted. What is not packed has its own size."""
    unpacker, size = zlib.decompressobj(), 0
    try:
        rest = data
        while size <= most and (part := unpacker.decompress(rest, _STEP)):
            size += len(part)
            rest = unpacker.unconsumed_tail
    except zlib.error:
        pass  # no record: whoever reads it says so
    return max(size, len(data))
