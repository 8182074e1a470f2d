"""Which job names are one family's: ``train-llama-0412`` and ``train-llama-0413`` are, ``train7b`` and
``train70b`` are not.

What tells the runs of one family apart is taken off a name: dates, times and commit ids anywhere, counted
words such as ``run12`` or ``seed3`` and bare numbers at its end. A bare number may as well be what was
run (``gpt-2``): it counts as a counter only where hardly any of them comes twice, and never after a word
such as ``ctx`` or ``bs``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

#: Names that say nothing of what was run.
GENERIC: Final = frozenset(
    (
        *(
            "wrap",
            "bash",
            "sh",
            "zsh",
            "sbatch",
            "srun",
            "salloc",
            "slurm",
            "interactive",
            "submit",
            "script",
        ),
        *(
            "job",
            "jobs",
            "test",
            "tmp",
            "debug",
            "run",
            "main",
            "launch",
            "start",
            "gpu",
            "python",
            "python3",
        ),
        *("jupyter", "jupyterlab", "jupyter-notebook", "notebook", "vscode", "tunnel", "ipython", "myjob"),
        *("untitled", "default", "sys/dashboard"),
    )
)
#: The least share of numbers that come once among the names of one stem, for them to be counters.
_COUNTER_RATIO: Final = 0.8
_SIZE_DIGITS: Final = 4  # longer numbers are no size of anything that is run

_YEAR, _MONTH, _DAY = "20[0-9]{2}", "(?:0[1-9]|1[0-2])", "(?:0[1-9]|[12][0-9]|3[01])"
_TIME: Final = r"(?:[T_\-. ]?(?:[01][0-9]|2[0-3])[:\-h]?[0-5][0-9](?:[:\-m]?[0-5][0-9])?s?)?"
_WITHIN: Final = (
    re.compile(rf"(?<![0-9]){_YEAR}([-_.]?){_MONTH}\1{_DAY}{_TIME}(?![0-9])", re.IGNORECASE),
    re.compile(r"(?<![0-9a-z])(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}(?![0-9a-z])", re.IGNORECASE),
)
_ENDING: Final = re.compile(r"\.(?:sh|bash|py|slurm|sbatch|job|batch|sub)$", re.IGNORECASE)
_SURE: Final = (  # counters whatever the other names are
    re.compile(r"\[[0-9,%\-]*\]$|%[0-9]+$"),
    re.compile(
        r"(?:^|[-_.:#/ ])(?:run|rerun|try|retry|attempt|rep|repeat|restart|resume|seed|part|chunk)"
        r"[-_.:#= ]?[0-9]{1,10}$",
        re.IGNORECASE,
    ),
    re.compile(rf"[-_.:#/ ](?:0{{1,9}}[0-9]{{0,5}}|[0-9]{{2}}{_MONTH}{_DAY}|[0-9]{{9,}})$"),
)
_PADDED: Final = re.compile(r"[-_.:#/ ](0[0-9]{1,6})$")
_BARE: Final = re.compile(r"[-_.:#/ ](?:no\.?|n°)?([0-9]{1,8})$", re.IGNORECASE)
#: Words whose number is a setting.
_SETTING: Final = re.compile(
    r"[0-9]e$|(?:^|[-_.:#/ ])(?:bs|mbs|gbs|batch|batchsize|batch[-_ ]size|lr|ctx|context|seq|seqlen|len"
    r"|seq[-_ ]len|length|layers?|hidden|dim|width|depth|heads?|experts?|rank|lora|nodes?|gpus?|tp|pp|dp|ep"
    r"|cp|fsdp|size|scale|res|resolution|px|ver|version|v|fp|int|bits?|topk|k|n|d|l|b|h)$",
    re.IGNORECASE,
)
_EDGES: Final = "-_.:#/ "


@dataclass(frozen=True, slots=True, kw_only=True)
class Stem:
    """What a name has in common with its family's others, and the bare number that may tell them apart."""

    text: str  # in lower case
    number: str | None = None
    padded_width: int | None = None  # of the zero-padded number at the name's end, which is taken off

    @property
    def whole(self) -> str:
        """The name with its number."""
        return self.text if self.number is None else f"{self.text}-{self.number}"


def stem_of(job_name: str | None) -> Stem | None:
    """The stem of a job's name; ``None`` where it is generic or says nothing."""
    text = (job_name or "").strip()
    for pattern in _WITHIN:
        text = pattern.sub("", text)
    text = _ENDING.sub("", text.strip(_EDGES))
    padded = _PADDED.search(text)
    text = _without_counters(text)
    number = None
    if (bare := _BARE.search(text)) is not None and not _is_setting(text, bare.start()):
        number = bare[1]
        text = _without_counters(text[: bare.start()])
    text = re.sub(r"[-_.:#/ ]{2,}", "-", text).casefold()
    if sum(map(str.isalpha, text)) < 2 or text in GENERIC:
        return None
    return Stem(text=text, number=number, padded_width=None if padded is None else len(padded[1]))


def numbers_count(stems: Sequence[Stem]) -> bool:
    """Whether the numbers of one stem, by start, are counters: hardly any of them comes twice, or they go on
    where zero-padded ones of the same width end (``08``, ``09``, ``10``). Counters grow; of what goes back
    and forth between small numbers each may be a size of its own, as in ``gpt-13``, ``gpt-70``, ``gpt-7``."""
    widths = {stem.padded_width for stem in stems}
    numbers = [
        stem.number
        for stem in stems
        if stem.padded_width is None and (stem.number is None or len(stem.number) not in widths)
    ]
    return len(set(numbers)) >= _COUNTER_RATIO * len(numbers) and _grow(numbers)


def _grow(numbers: Sequence[str | None]) -> bool:
    known = [int(number) for number in numbers if number is not None and len(number) <= _SIZE_DIGITS]
    back = sum(later < earlier for earlier, later in pairwise(known))
    return back <= len(known) / 10


def _without_counters(text: str) -> str:
    while True:
        shorter = text.rstrip(_EDGES)
        for pattern in _SURE:
            found = pattern.search(shorter)
            if found is not None and not _is_setting(shorter, found.start()):
                shorter = shorter[: found.start()]
        if shorter == text:
            return text
        text = shorter


def _is_setting(text: str, start: int) -> bool:
    """Whether a number, with what separates it from the rest, is a setting's or a decimal fraction."""
    is_fraction = text[start] == "." and text[:start][-1:].isdigit()
    return is_fraction or _SETTING.search(text[:start]) is not None
