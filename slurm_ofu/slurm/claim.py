"""A job's comment → what the job says of its own efficiency: ``mfu=0.41`` or ``tflops=412``.

No claim is better than a wrong one. A comment makes one where everything in it that looks like a claim
is one, and where all of them say the same; :func:`doubt_of` says what is amiss elsewhere. ``mfu`` is a
ratio, ``tflops`` are TFLOP/s per GPU; capitals do not matter (sacctmgr of Slurm 22.05 takes them away).
"""

import re
from typing import Final

from slurm_ofu.values import Claim, ClaimKind, ClaimSource

COMMENT_LIMIT: Final = 1024  # characters of a job's comment that are kept, and read
_LARGEST: Final[dict[ClaimKind, float]] = {"mfu": 1.5, "tflops": 20_000.0}
_EXAMPLES: Final[dict[ClaimKind, str]] = {
    "mfu": "mfu=0.41 (a ratio above 0, at most 1.5)",
    "tflops": "tflops=412 (TFLOP/s per GPU, above 0, at most 20000)",
}
_DECIMALS: Final = 6  # that a record carries
_SHOWN: Final = 60  # characters of what was not understood

_KEY = "[mM][fF][uU]|[tT][fF][lL][oO][pP][sS]"
#: A key as a word of its own (not in target-mfu or model.mfu), an equals sign or colon, and what follows.
#: A comma and a digit may be a decimal point or thousands: "0,41" and "1,979" are one piece.
_LOOKS_LIKE_ONE = re.compile(rf"(?<![\w.\-/])({_KEY})\s*[=:]\s*(?:[^\s,;|]|,(?=[0-9]))*")
_STRICT = re.compile(rf"(?:{_KEY})=([0-9]{{1,5}}(?:\.[0-9]{{1,20}})?)")
_SEPARATORS: Final = ",;|"
_PERCENTAGE = re.compile(r"\S+?\s*[=:]\s*([0-9]{1,3}(?:\.[0-9]{1,20})?)%?")
_SURELY_PER_CENT: Final = 5.0  # "mfu=2" may be anything


def claim_of(comment: str | None, *, source: ClaimSource = "epilog") -> Claim | None:
    """The claim in a comment; ``None`` where there is none, or none that is beyond doubt."""
    found = _read(comment)
    if not isinstance(found, tuple):
        return None
    kind, value, text = found
    return Claim(kind=kind, value=value, text=text, source=source)


def doubt_of(comment: str | None) -> str | None:
    """Why what looks like a claim is not taken for one, and what to write instead; ``None``: no doubt."""
    found = _read(comment)
    return found if isinstance(found, str) else None


def _read(comment: str | None) -> tuple[ClaimKind, float, str] | str | None:
    """Kind, value and text of the one claim; or a doubt; or nothing."""
    kept = (comment or "")[:COMMENT_LIMIT]
    claims: dict[tuple[ClaimKind, float], str] = {}
    for match in _LOOKS_LIKE_ONE.finditer(kept):
        kind: ClaimKind = "mfu" if match[1].lower() == "mfu" else "tflops"
        value = _value(kept, match, kind)
        if value is None:
            doubt = f"a claim in the comment was not understood: {_quoted(match[0])}"
            return f"{doubt}; write {_instead(match[0], kind)}"
        claims.setdefault((kind, value), match[0])
    if len(claims) > 1:
        return f"the comment makes several claims: {', '.join(map(_quoted, claims.values()))}; state one"
    return next(((kind, value, text) for (kind, value), text in claims.items()), None)


def _value(kept: str, match: re.Match[str], kind: ClaimKind) -> float | None:
    """The number of a claim that stands by itself, in its strict form and within its bounds."""
    strict = _STRICT.fullmatch(match[0])
    stands_alone = match.start() == 0 or _separates(kept[match.start() - 1])
    was_cut = match.end() == COMMENT_LIMIT  # there may have been more of it
    if strict is None or not stands_alone or was_cut:
        return None
    value = round(float(strict[1]), _DECIMALS)
    return value if 0 < value <= _LARGEST[kind] else None


def _separates(character: str) -> bool:
    return character in _SEPARATORS or character.isspace()


def _instead(text: str, kind: ClaimKind) -> str:
    """What was probably meant, where a per cent figure was written; else an example."""
    percentage = _PERCENTAGE.fullmatch(text)
    if kind == "mfu" and percentage is not None and _SURELY_PER_CENT <= float(percentage[1]) <= 100:
        return f"mfu={float(percentage[1]) / 100:.4g}"
    return _EXAMPLES[kind]


def _quoted(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
