"""A job's comment → whether the job asks not to be profiled: the word ``ofu=off``.

Before Hopper, reading tensor activity holds profiling hardware that a user's own profiler needs. The word
may stand among others, between blanks, commas, semicolons or bars; capitals do not matter. The prolog's
comment counts: what is changed later changes nothing.
"""

import re
from typing import Final

WORD: Final = "ofu=off"
_SEPARATOR = re.compile(r"[\s,;|]+")
_LIMIT: Final = 1024  # characters of a comment that are read, as for claims


def asks_not_to_be_profiled(comment: str | None) -> bool:
    """Whether the word is there, whole."""
    words = _SEPARATOR.split((comment or "")[: _LIMIT + 1])
    if len(comment or "") > _LIMIT:
        words = words[:-1]  # it may go on
    return any(word.lower() == WORD for word in words)
