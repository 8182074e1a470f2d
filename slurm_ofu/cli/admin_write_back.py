"""ofu-admin write-back: OFU into Slurm's own accounting, where sacct shows it."""

import time
from datetime import datetime, timezone

import click

from slurm_ofu.cli.local_zone import LocalZone
from slurm_ofu.cli.options import EXIT_USAGE, config_option
from slurm_ofu.config import load_config
from slurm_ofu.errors import UsageError
from slurm_ofu.reports.free_text import printable
from slurm_ofu.slurm.comments import Step, address
from slurm_ofu.slurm.times import parse_time
from slurm_ofu.wiring.writing_back import WriteBack, WroteBack

_PAUSE_SECONDS = 5.0  # between two looks whether the rate allows more
_MOST_SHOWN = 1000


@click.command("write-back", short_help="Write each job's OFU into Slurm's accounting.")
@config_option
@click.option("-n", "--dry-run", is_flag=True, help="Show what would be written, and change nothing.")
@click.option(
    "-S",
    "--starttime",
    metavar="TIME",
    help="Jobs that ended since then, as in Slurm's commands. [default: 30 days ago]",
)
@click.option("-E", "--endtime", metavar="TIME", help="Jobs that ended until then. [default: now]")
def write_back_command(config: str | None, dry_run: bool, starttime: str | None, endtime: str | None) -> int:
    """Write the OFU of jobs that are over into the [write_back] field of Slurm's accounting.

    The collector does it by itself where [write_back] enabled = true; this does now what is due, no more
    jobs in a minute than jobs_per_minute. Only the last run of a job id is written, and a text that somebody
    else left there stays as it is. The rights of a Slurm operator are needed.

    Exit code 0: nothing is left to write; 1: it is not enabled, some failed (they are tried again), or
    Slurm's accounting does not answer or does not let us; 4: the database cannot be used, or another process
    is writing back.
    """
    settings = load_config(config)
    if not settings.write_back.enabled and not dry_run:
        raise UsageError(
            f"{settings.path}: [write_back] enabled is false: nothing was written (see --dry-run)"
        )
    if settings.accounting.source == "none":
        raise UsageError(
            f'{settings.path}: [accounting] source = "none": without it nothing is due to be written'
        )
    write_back = WriteBack(settings)
    start, end = _epoch(starttime), _epoch(endtime)
    window = write_back.window(time.time(), start, end)
    if waiting := write_back.count_waiting(window):
        click.echo(
            f"ofu-admin: {waiting} runs wait for their row of Slurm's accounting, and are not written yet"
            " (ofu-admin reconcile asks for them)",
            err=True,
        )
    if dry_run:
        steps = write_back.plan(window, _MOST_SHOWN)
        click.echo("".join(f"{_shown(step)}\n" for step in steps) or "nothing to write\n", nl=False)
        return 0
    return EXIT_USAGE if _all_written(write_back, start, end) else 0


def _all_written(write_back: WriteBack, start: float | None, end: float | None) -> bool:
    """Write until nothing is due. Whether any failed."""
    failed = False
    while True:
        done: WroteBack = write_back.round(write_back.window(time.time(), start, end))
        failed = failed or bool(done.counts["failed"])
        if done.counts or not done.waiting:
            click.echo(str(done))
        if not done.waiting:
            return failed
        time.sleep(_PAUSE_SECONDS)


def _shown(step: Step) -> str:
    what = "write" if step.kind == "write" else step.kind.replace("_", " ")
    why = step.text if step.message is None else step.message
    return f"{step.target.cluster}:{address(step.target)}  {what}  {printable(why)}"


def _epoch(text: str | None) -> float | None:
    if text is None:
        return None
    zone = LocalZone()
    return parse_time(text, now=datetime.now(timezone.utc).astimezone(zone), zone=zone).timestamp()
