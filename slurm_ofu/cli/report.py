"""ofu-report: Overall FLOP Utilization of Slurm jobs, users, partitions and accounts."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import click

from slurm_ofu import __version__
from slurm_ofu.cli.asked import Shape, output_of, question_of, shape_of
from slurm_ofu.cli.options import OfuCommand, comma_lists, config_option, job_ids
from slurm_ofu.config import load_config
from slurm_ofu.reports.as_csv import as_csv, as_parsable
from slurm_ofu.reports.as_json import as_json, pages_as_json
from slurm_ofu.reports.as_page import as_page
from slurm_ofu.reports.as_table import as_table
from slurm_ofu.reports.question import Question, nothing_found
from slurm_ofu.store.read import Reader
from slurm_ofu.values import UsageRow
from slurm_ofu.wiring.reading import open_reader

_PAGE_WIDTH = 80
HELP = """Show the Overall FLOP Utilization (OFU) of Slurm GPU jobs.

OFU is the share of the GPUs' tensor peak that was in use, measured in hardware: tensor pipe
activity times SM clock over the reference clock at which the vendor's peak holds.

Without options: your own jobs of today, one line each, and what they add up to (root: everybody's).
A job counts when any part of it lies in the window, and appears only after it has ended. With --jobs:
a page per job, of any time.

\b
How to read it
  OFU        in per cent, ± the half-width of its 95 % interval. May exceed
             100 % (clock above the reference clock): shown as measured.
  n/a (…)    nothing was measured, and why. It is not zero; zero is "0.0 %".
  Coverage   the share of the allocated GPU time that was measured. Below 95 %
             the ± says nothing about the rest.
  (… +2)     the most telling reason, and how many others; see Notes.
  Tensor     tensor pipe activity: what is lost by not computing.
  Clock      SM clock while computing, of the reference clock: what is lost by
             slow clocks. OFU = Tensor × Clock.
  TOTAL      all lines pooled by GPU time, not the mean of the lines.
  unknown    not known yet, or never: accounting may still fill it in.

\b
Examples
  ofu-report                                my jobs of today
  ofu-report -S now-7days                   my jobs of the past seven days
  ofu-report -j 4711,4712                   a page for each of two jobs
  ofu-report -u wilma,fred -S 2026-11-01    the jobs of two users since then
  ofu-report -a --by user -S 1101 -E 1201   every user in November
  ofu-report -a --by account --csv          accounts, for a spreadsheet
  ofu-report -P -n | cut -d'|' -f2          job ids, for the shell
  ofu-report --json | jq '.total.ofu_ratio'

\b
Times are Slurm's (local): YYYY-MM-DD[THH:MM[:SS]], MMDD, HH:MM, today, noon,
now-2hours, now-7days, … Machine formats give ratios from 0 to 1 and seconds
since 1970; what was not measured is empty (null). -P: no | in names.

\b
Exit codes
  0  answered, also when no job matches (said on stderr)
  1  an option or the configuration cannot be used
  3  a job id is malformed
  4  the accounting database is missing or cannot be read
  5  not permitted (reserved)
"""


@click.command(
    "ofu-report", cls=OfuCommand, help=HELP, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option(
    "-j",
    "--jobs",
    callback=job_ids,
    multiple=True,
    metavar="ID,…",
    help="A page for each raw job id, once it has ended.",
)
@click.option(
    "-u", "--user", "users", callback=comma_lists, multiple=True, metavar="NAME,…", help="Only these users."
)
@click.option("-a", "--allusers", is_flag=True, help="All users, not only yourself.")
@click.option(
    "-r",
    "--partition",
    "partitions",
    callback=comma_lists,
    multiple=True,
    metavar="NAME,…",
    help="Only these partitions.",
)
@click.option(
    "-A",
    "--account",
    "--accounts",
    "accounts",
    callback=comma_lists,
    multiple=True,
    metavar="NAME,…",
    help="Only these accounts.",
)
@click.option(
    "-M", "--clusters", callback=comma_lists, multiple=True, metavar="NAME,…", help="Only these clusters."
)
@click.option(
    "-S",
    "--starttime",
    metavar="TIME",
    help="Where the window begins. Default: today 00:00; with --jobs: no limit.",
)
@click.option(
    "-E",
    "--endtime",
    metavar="TIME",
    help="Where it ends, not included. Default: now; with --jobs: no limit. A date without a year"
    " that lies before --starttime is the next one after it.",
)
@click.option(
    "--by",
    type=click.Choice(["job", "user", "partition", "account"]),
    default="job",
    show_default=True,
    help="One line per what.",
)
@click.option("--json", is_flag=True, help="JSON with units and a schema version.")
@click.option("--csv", is_flag=True, help="CSV, safe to open in a spreadsheet.")
@click.option("-P", "--parsable2", "parsable", is_flag=True, help="Fields with | between them.")
@click.option("-n", "--noheader", is_flag=True, help="No header (and no notes).")
@click.option(
    "--color",
    "colour",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Colours; auto: on a terminal, unless NO_COLOR is set.",
)
@config_option
@click.version_option(__version__, "-V", "--version", prog_name="ofu-report")
def report(
    config: str | None, json: bool, csv: bool, parsable: bool, colour: str, noheader: bool, **asked: Any
) -> None:
    """See HELP."""
    output = output_of(json=json, csv=csv, parsable=parsable)
    now = datetime.now(timezone.utc)
    question = question_of(now=now, **asked)
    shape = shape_of(output=output, colour=colour, header=not noheader)
    text = answer(open_reader(load_config(config)), question, shape, now)
    click.echo(text, nl=False, color=shape.colour)


def answer(reader: Reader, question: Question, shape: Shape, now: datetime) -> str:
    """The report as text; what it cannot show is said on stderr."""
    if question.selection.job_ids and question.by == "job" and shape.output in (None, "json"):
        return _pages(reader, question, shape, now)
    rows = reader.usage(question.selection, question.by)
    if question.selection.job_ids:
        _name_missing(question, reader.jobs(question.selection) if rows else [])
    elif not rows:
        click.echo(nothing_found(question), err=True)
    match shape.output:
        case "json":
            return as_json(rows, question, generated_at=now.astimezone(question.zone))
        case "csv":
            return as_csv(rows, question.by, header=shape.header)
        case "parsable":
            return as_parsable(rows, question.by, header=shape.header)
    return as_table(rows, question, width=shape.width, colour=shape.colour, header=shape.header)


def _pages(reader: Reader, question: Question, shape: Shape, now: datetime) -> str:
    """A page per run of each job, in the order in which the jobs were asked for."""
    found = reader.jobs(question.selection)
    order = {job_id: number for number, job_id in enumerate(question.selection.job_ids)}
    runs = sorted(
        (row.run for row in found if row.run is not None),
        key=lambda run: (order[run.job_id], run.cluster, run.run_id),
    )
    _name_missing(question, found)
    pages = [reader.page(run.run_id) for run in runs]
    if shape.output == "json":
        return pages_as_json(pages, question, generated_at=now.astimezone(question.zone))
    width = min(shape.width, _PAGE_WIDTH)
    return "\n".join(as_page(page, question.zone, width=width, colour=shape.colour) for page in pages)


def _name_missing(question: Question, found: Sequence[UsageRow]) -> None:
    """Say on stderr which of the jobs that were asked for are not among those found."""
    ids = {row.run.job_id for row in found if row.run is not None}
    if missing := tuple(job_id for job_id in question.selection.job_ids if job_id not in ids):
        asked = replace(question, selection=replace(question.selection, job_ids=missing))
        click.echo(nothing_found(asked), err=True)


def main() -> None:
    """The entry point."""
    report.main(prog_name="ofu-report")
