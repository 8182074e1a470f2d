"""ofu-admin reconcile: the nodes' records against Slurm's accounting."""

import shutil
from datetime import datetime, timezone

import click

from slurm_ofu.cli.local_zone import LocalZone
from slurm_ofu.cli.options import comma_lists, config_option
from slurm_ofu.config import load_config
from slurm_ofu.errors import UsageError
from slurm_ofu.reports.as_reconciliation import as_reconciliation, reconciliation_as_json
from slurm_ofu.slurm.times import parse_time
from slurm_ofu.wiring.reconciling import reconcile

_MOST_SHOWN = 20
_NARROWEST, _WIDEST = 60, 120


@click.command("reconcile", short_help="Compare the nodes' records with Slurm's accounting.")
@config_option
@click.option(
    "-S",
    "--starttime",
    default="now-1day",
    show_default=True,
    metavar="TIME",
    help="Where the window begins.",
)
@click.option(
    "-E", "--endtime", default="now", show_default=True, metavar="TIME", help="Where it ends, not included."
)
@click.option(
    "-M",
    "--clusters",
    callback=comma_lists,
    multiple=True,
    metavar="NAME,…",
    help="Only these clusters, as slurmdbd names them. [those of [accounting], and all that have runs]",
)
@click.option(
    "-r",
    "--partition",
    "partitions",
    callback=comma_lists,
    multiple=True,
    metavar="NAME,…",
    help="Only runs in these partitions, where not all are meant to be measured.",
)
@click.option(
    "--all", "everything", is_flag=True, help=f"List every run, not the first {_MOST_SHOWN} of a kind."
)
@click.option("--json", "as_json", is_flag=True, help="JSON, whole, with a schema version.")
def reconcile_command(
    config: str | None,
    starttime: str,
    endtime: str,
    clusters: tuple[str, ...],
    partitions: tuple[str, ...],
    everything: bool,
    as_json: bool,
) -> int:
    """Compare the records of the nodes with Slurm's accounting, and say how much of the fleet has an OFU.

    Reads Slurm's accounting of the window anew, and completes every run that it can. Then: jobs and
    GPU-hours with and without OFU, by partition and reason; GPU jobs that no node ever spoke of, and
    why; runs that Slurm does not know; runs whose end was lost; nodes that never report.

    GPU jobs that no node spoke of stay in the database, also those from before slurm-ofu was there.

    Exit code 0: compared, whatever came out; 1: Slurm's accounting does not answer; 4: the accounting
    database cannot be used.
    """
    now = datetime.now(timezone.utc).astimezone(LocalZone())
    start, end = window_of(starttime, endtime, now)
    found = reconcile(
        load_config(config),
        start.timestamp(),
        end.timestamp(),
        now.timestamp(),
        clusters=clusters,
        partitions=partitions,
    )
    if as_json:
        click.echo(reconciliation_as_json(found.clusters, start=start, end=end, generated_at=now), nl=False)
        return 0
    width = min(_WIDEST, max(_NARROWEST, shutil.get_terminal_size((100, 24)).columns))
    for number, (cluster, its) in enumerate(found.clusters):
        text = as_reconciliation(
            cluster,
            its,
            start=start,
            end=end,
            now_epoch_s=now.timestamp(),
            width=width,
            most=None if everything else _MOST_SHOWN,
        )
        click.echo(("\n" if number else "") + text, nl=False)
    if not found.clusters:
        click.echo("no runs of any cluster", err=True)
    if found.completed.refused:
        click.echo(f"ofu-admin: {found.completed.refused} rows of Slurm's accounting were refused", err=True)
    return 0


def window_of(starttime: str, endtime: str, now: datetime) -> tuple[datetime, datetime]:
    """Compared by the moments: what clocks show goes back in autumn."""
    start, end = (parse_time(text, now=now, zone=LocalZone()) for text in (starttime, endtime))
    if end.timestamp() <= start.timestamp():
        raise UsageError(f"the window ends before it begins: --starttime {starttime}, --endtime {endtime}")
    return start, end
