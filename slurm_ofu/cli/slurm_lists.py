"""Lists as Slurm's commands take them: job states, nodes, fields; read, and completed by the shell."""

from collections.abc import Sequence
from typing import Final

import click
from click.shell_completion import CompletionItem

from slurm_ofu.cli.options import comma_lists
from slurm_ofu.reports.printed_fields import FIELDS
from slurm_ofu.slurm.hostlists import expand
from slurm_ofu.values.states import UNKNOWN_STATE

#: By their short names, as `sacct --state` takes both.
STATES: Final = {
    "BF": "BOOT_FAIL",
    "CA": "CANCELLED",
    "CD": "COMPLETED",
    "DL": "DEADLINE",
    "F": "FAILED",
    "NF": "NODE_FAIL",
    "OOM": "OUT_OF_MEMORY",
    "PD": "PENDING",
    "PR": "PREEMPTED",
    "R": "RUNNING",
    "RQ": "REQUEUED",
    "RS": "RESIZING",
    "RV": "REVOKED",
    "S": "SUSPENDED",
    "TO": "TIMEOUT",
}
_MOST_NODES: Final = 30_000  # each is a parameter of one SQL statement


def state_lists(ctx: click.Context, param: click.Parameter, lists: tuple[str, ...]) -> tuple[str, ...]:
    """A click callback: states by their short or long names, in any case, as their long names."""
    names = comma_lists(ctx, param, lists)
    found = [STATES.get(name.upper(), name.upper()) for name in names]
    for name, state in zip(names, found, strict=True):
        if state not in (*STATES.values(), UNKNOWN_STATE):
            known = ", ".join(f"{short} {long}" for short, long in STATES.items())
            raise click.BadParameter(
                f"{name[:40]!r} is no state; there are {known}, and {UNKNOWN_STATE} (Slurm has not said yet)",
                ctx,
                param,
            )
    return tuple(dict.fromkeys(found))


def node_lists(ctx: click.Context, param: click.Parameter, lists: tuple[str, ...]) -> tuple[str, ...]:
    """A click callback: nodes by name or host list, as in n[1-4,7]."""
    text = ",".join(lists)
    if not lists:
        return ()
    if not text.isprintable():
        raise click.BadParameter(f"{ascii(text)[:60]}: not a printable name", ctx, param)
    try:
        names = expand(text, limit=_MOST_NODES)
    except ValueError as error:
        raise click.BadParameter(str(error)[:200], ctx, param) from error
    if not names:
        raise click.BadParameter("a name is empty", ctx, param)
    return tuple(dict.fromkeys(names))


def complete_states(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """States after the last comma, long names."""
    return _completed(incomplete, sorted([*STATES.values(), UNKNOWN_STATE]))


def complete_fields(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Fields of --format after the last comma."""
    return _completed(incomplete, [field.name for field in FIELDS])


def _completed(incomplete: str, names: Sequence[str]) -> list[CompletionItem[str]]:
    before, comma, last = incomplete.rpartition(",")
    plus = "+" if last.startswith("+") else ""
    begins = last.removeprefix("+").lower()
    return [
        CompletionItem(f"{before}{comma}{plus}{name}") for name in names if name.lower().startswith(begins)
    ]
