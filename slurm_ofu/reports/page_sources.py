"""Who gave a run's GPUs their figures, and why nobody better, in words."""

from collections import Counter
from collections.abc import Sequence

from slurm_ofu.reports.facts import Fact
from slurm_ofu.reports.free_text import shortened
from slurm_ofu.reports.wording import name
from slurm_ofu.values import GpuRow

_MOST = 4  # lines: a run may have thousands of GPUs, each with a word of its own
_LONGEST_NOTE = 200


def source_facts(gpus: Sequence[GpuRow]) -> list[Fact]:
    """A line for each source and note, the most frequent first; none of rows of before 0.3."""
    found = Counter(
        (gpu.totals.source, gpu.totals.source_note) for gpu in gpus if gpu.totals.source is not None
    )
    lines = [_said(source, note, many, len(gpus)) for (source, note), many in found.most_common(_MOST)]
    if len(found) > _MOST:
        lines.append(f"and {len(found) - _MOST} more of this kind")
    return [("" if at else "Source", line) for at, line in enumerate(lines)]


def _said(source: str | None, note: str | None, many: int, of: int) -> str:
    gpus = "" if many == of else f", {many} of {of} GPUs"
    return f"{name(source)}{gpus}" + ("" if note is None else f" ({shortened(name(note), _LONGEST_NOTE)})")
