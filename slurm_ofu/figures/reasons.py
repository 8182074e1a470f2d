"""Which of several reasons a pooled figure carries."""

from collections.abc import Sequence

#: Of a job read from Slurm's own accounting that holds no figures of ours; never in the database.
NO_TOKEN = "no_token"
#: Of what was measured, but not for any time that Slurm charges; never in the database.
NOT_CHARGED = "not_charged"
#: Worst first: what casts doubt on the figure, then what lost it, from fault to choice, then ``ok``.
SEVERITY = (
    "suspect",
    "shared",
    "source_lost",
    "sampler_died",
    "not_delivered",
    "not_started",
    "unmapped",
    "profiling_locked",
    "no_source",
    "unknown_model",
    NO_TOKEN,
    NOT_CHARGED,
    "opted_out",
    "short",
    "ok",
)


def by_severity(reasons: Sequence[str]) -> tuple[str, ...]:
    """Each reason once, the worst first."""
    return tuple(sorted(set(reasons), key=_rank))


def dominating_reason(reasons: Sequence[str], *, has_figure: bool) -> str | None:
    """The worst reason by :data:`SEVERITY`; one that this version does not know counts as worst.

    ``None`` where nothing explains the answer: no reason at all, or "ok" without a figure.
    """
    worst = next(iter(by_severity(reasons)), None)
    if worst == "ok" and not has_figure:
        return None
    return worst


def _rank(reason: str) -> tuple[int, str]:
    return (SEVERITY.index(reason) if reason in SEVERITY else -1, reason)
