"""ofu-admin backfill: OFU of past jobs, out of samples that a Prometheus or VictoriaMetrics keeps."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import click

from slurm_ofu.cli.admin_reconcile import window_of
from slurm_ofu.cli.local_zone import LocalZone
from slurm_ofu.cli.options import comma_lists, config_option
from slurm_ofu.config import load_config
from slurm_ofu.reports.free_text import printable
from slurm_ofu.store.backfilling import Asked
from slurm_ofu.values import NodeRecord

if TYPE_CHECKING:
    from slurm_ofu.wiring.backfilling import Backfilled, Outcome, Progress

_WORDS: "dict[Outcome, str]" = {
    "measured": "backfilled",
    "short": "backfilled, but shorter than two of the samples' intervals (short)",
    "without_figure": "without OFU: no tensor figures, no reference clock, or MIG slices",
    "unmapped": "unmapped: which GPUs they had is not known",
    "without_samples": "without samples",
}


@click.command("backfill", short_help="Compute the OFU of past jobs from Prometheus.")
@config_option
@click.option(
    "--prometheus",
    "url",
    metavar="URL",
    help="Prometheus or VictoriaMetrics, such as http://host:9090; http://user:password@host for basic"
    " authentication. [[prometheus] url]",
)
@click.option("-S", "--starttime", required=True, metavar="TIME", help="Jobs with any part after that.")
@click.option("-E", "--endtime", default="now", show_default=True, metavar="TIME", help="And before that.")
@click.option(
    "-M",
    "--clusters",
    callback=comma_lists,
    multiple=True,
    metavar="NAME,…",
    help="Only these clusters, as slurmdbd names them. [those of [accounting]]",
)
@click.option(
    "-r",
    "--partition",
    "partitions",
    callback=comma_lists,
    multiple=True,
    metavar="NAME,…",
    help="Only jobs in these partitions.",
)
@click.option("--again", is_flag=True, help="Also what was backfilled before: more samples replace fewer.")
@click.option("-n", "--dry-run", is_flag=True, help="Show what would be stored, and store nothing.")
def backfill_command(
    config: str | None,
    url: str | None,
    starttime: str,
    endtime: str,
    clusters: tuple[str, ...],
    partitions: tuple[str, ...],
    again: bool,
    dry_run: bool,
) -> int:
    """Compute the OFU of past jobs out of a dcgm-exporter's samples, where no sampler of ours measured them.

    Reads Slurm's accounting of the window, as reconcile does, and then the stored samples of every node of
    which a job was never heard. Which GPUs a job had is taken from the exporter's label hpc_job, else from
    Slurm's count where the job had every GPU of the node; otherwise it is unmapped, and nothing is guessed.
    What a node says itself is never overwritten, and replaces what was backfilled whenever it comes. May be
    interrupted and started again: what is stored is not asked for again.

    http_proxy and its like are not heeded.

    Exit code 0: done, whatever came out; 1: the server or Slurm's accounting does not answer, or does not let
    us; 4: the accounting database cannot be used.
    """
    from slurm_ofu.wiring.backfilling import backfill, open_prometheus  # urllib3: no other command needs it

    settings = load_config(config)
    now = datetime.now(timezone.utc).astimezone(LocalZone())
    start, end = window_of(starttime, endtime, now)
    asked = Asked(
        start_epoch_s=start.timestamp(),
        end_epoch_s=end.timestamp(),
        clusters=clusters,
        partitions=partitions,
        again=again,
    )
    prometheus = open_prometheus(settings, url)
    with _progress() as progress:
        done = backfill(
            settings,
            asked,
            now.timestamp(),
            prometheus=prometheus,
            progress=progress,
            say=_show if dry_run else None,
        )
    click.echo(_summary(done, dry_run=dry_run), nl=False)
    return 0


def _show(record: NodeRecord) -> None:
    """What would be stored of one job on one node."""
    key = record.job.key
    mapped = {gpu.mapped_by for gpu in record.gpus if gpu.mapped_by is not None}
    covered = sum(gpu.covered_seconds for gpu in record.gpus)
    held = sum(gpu.allocated_seconds or 0.0 for gpu in record.gpus)
    ratio = f"{100 * covered / held:.0f} % covered" if held else "no time"
    words = (record.reason, *sorted(mapped), f"{len(record.gpus)} GPUs", ratio)
    click.echo(f"{printable(key.cluster)}:{key.job_id}  {printable(record.node_name)}  {', '.join(words)}")


def _summary(done: "Backfilled", *, dry_run: bool) -> str:
    counts = done.counts
    measured = counts.run_count - counts.due_count - counts.backfilled_count
    lines = [
        f"{counts.run_count} jobs with GPUs",
        f"{measured} measured by their nodes",
        f"{counts.backfilled_count} backfilled before",
        *(f"{done.count(outcome)} {words}" for outcome, words in _WORDS.items() if done.runs.get(outcome)),
        f"{done.record_count} records {'would be ' if dry_run else ''}stored, {done.query_count} queries",
    ]
    if done.late_count > 0:
        lines.append(f"{done.late_count} left for later: they have only just ended")
    if done.completed.refused:
        lines.append(f"{done.completed.refused} rows of Slurm's accounting were refused")
    return "".join(f"{line}\n" for line in lines)


class _Silent:
    """Nobody watches."""

    def start(self, total: int) -> None:
        """Nothing to show."""

    def done(self, count: int) -> None:
        """Nothing to show."""


@contextmanager
def _progress() -> "Iterator[Progress]":
    """A bar on stderr, where that is a terminal."""
    if not sys.stderr.isatty():
        yield _Silent()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("jobs on nodes"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None)

        class _Shown:
            def start(self, total: int) -> None:
                bar.update(task, total=total)

            def done(self, count: int) -> None:
                bar.advance(task, count)

        yield _Shown()
