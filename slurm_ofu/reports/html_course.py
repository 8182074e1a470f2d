"""How the pages cut their window into hours, days, weeks or months of the reader's time zone."""

from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Final, Literal

from slurm_ofu.reports.spans import span_edges

Step = Literal["hour", "day", "week", "month"]
_DAY: Final = 86400.0
#: The longest window, in seconds, that is cut into these.
_LONGEST: Final[tuple[tuple[Step, float], ...]] = (
    ("hour", 2 * _DAY),
    ("day", 92 * _DAY),
    ("week", 731 * _DAY),
)
_FORMATS: Final = {"hour": "%Y-%m-%d %H:%M", "day": "%Y-%m-%d", "week": "%Y-%m-%d", "month": "%Y-%m"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """Spans that follow each other: from each edge to the next. The first and last may be cut short."""

    step: Step
    edges: tuple[float, ...]
    labels: tuple[str, ...]  # of each span


def course_of(start_epoch_s: float, end_epoch_s: float, zone: tzinfo) -> Course | None:
    """The window's spans; of an empty window none."""
    length = end_epoch_s - start_epoch_s
    if length <= 0:
        return None
    step: Step = next((step for step, longest in _LONGEST if length <= longest), "month")
    edges = span_edges("hour" if step == "hour" else "day", start_epoch_s, end_epoch_s, zone)
    inner = [edge for edge in edges[1:-1] if _begins(edge, step, zone)]
    edges = [edges[0], *inner, edges[-1]]
    labels = tuple(f"{datetime.fromtimestamp(edge, zone):{_FORMATS[step]}}" for edge in edges[:-1])
    return Course(step=step, edges=tuple(edges), labels=labels)


def _begins(midnight_epoch_s: float, step: Step, zone: tzinfo) -> bool:
    day = datetime.fromtimestamp(midnight_epoch_s, zone).date()
    return day.day == 1 if step == "month" else day.weekday() == 0 if step == "week" else True
