"""ofu-report: Overall FLOP Utilization of Slurm jobs, users, partitions and accounts."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import click

from slurm_ofu import __version__
from slurm_ofu.cli.asked import Shape, output_of, question_of, shape_of
from slurm_ofu.cli.job_ids import asked_jobs
from slurm_ofu.cli.options import OfuGroup, comma_lists, config_option
from slurm_ofu.cli.report_tile import no_options_of, tile_command
from slurm_ofu.config import load_config
from slurm_ofu.gpu_models import doubts
from slurm_ofu.protocols import UsageReader
from slurm_ofu.reports.as_csv import as_csv, as_parsable
from slurm_ofu.reports.as_json import as_json, pages_as_json
from slurm_ofu.reports.as_page import as_page
from slurm_ofu.reports.as_table import as_table
from slurm_ofu.reports.asked_jobs import in_order_asked, not_found
from slurm_ofu.reports.question import Question, nothing_found
from slurm_ofu.slurm.claim import doubt_of
from slurm_ofu.values import Config, GpuModel, JobPage, UsageRow
from slurm_ofu.wiring.reading import open_reader

_PAGE_WIDTH = 80
_MOST_PAGES = 20
HELP = """Show the Overall FLOP Utilization (OFU) of Slurm GPU jobs.

OFU is the share of the GPUs' tensor peak that was in use, measured in hardware: tensor pipe
activity times SM clock over the reference clock at which the vendor's peak holds.

Without options: your own jobs of today, one line each, and what they add up to (root: everybody's).
A job counts when any part of it lies in the window, and appears only after it has ended. With --jobs:
a page per job, of any time (a line each where there are more than 20).

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
  unknown    not known yet, or never: name, state, array and exact times come
             from Slurm's accounting, which is read some minutes later.
  Claimed    on a page: what the job says of itself in its comment (mfu=0.41
             or tflops=412), beside its OFU.

\b
Examples
  ofu-report                                my jobs of today
  ofu-report -S now-7days                   my jobs of the past seven days
  ofu-report -j 4711,4712                   a page for each of two jobs
  ofu-report -j 4720_3                      … for task 3 of an array
  ofu-report -u wilma,fred -S 2026-11-01    the jobs of two users since then
  ofu-report -a --by user -S 1101 -E 1201   every user in November
  ofu-report -a --by account --csv          accounts, for a spreadsheet
  ofu-report -P -n | cut -d'|' -f2          job ids, for the shell
  ofu-report --json | jq '.total.ofu_ratio'
  ofu-report --from-slurm -S now-7days      the same from sacct
  ofu-report tile --help                    what padding costs one GEMM

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
     (with --from-slurm: Slurm's accounting does not answer)
  5  not permitted (reserved)
"""


class ReportGroup(OfuGroup):
    """Reports by options alone; a word without one is a command's name, or an error as it always was."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is named. Raises click.UsageError."""
        if self.get_command(ctx, args[0]) is None:
            plural = "" if len(args) == 1 else "s"
            names = ", ".join(self.list_commands(ctx))
            ctx.fail(f"Got unexpected extra argument{plural} ({' '.join(args)}): the only command is {names}")
        return super().resolve_command(ctx, args)


@click.group(
    "ofu-report",
    cls=ReportGroup,
    help=HELP,
    invoke_without_command=True,
    subcommand_metavar="[tile …]",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "-j",
    "--jobs",
    callback=asked_jobs,
    multiple=True,
    metavar="ID,…",
    help="A page for each job, once it has ended: 123, 123_4, 123_[1-5], 123+1.",
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
@click.option(
    "--from-slurm",
    is_flag=True,
    help="From Slurm's own accounting (sacct), where write-back left each job's OFU: no database is needed.",
)
@config_option
@click.version_option(__version__, "-V", "--version", prog_name="ofu-report")
@click.pass_context
def report(
    ctx: click.Context,
    /,
    config: str | None,
    json: bool,
    csv: bool,
    parsable: bool,
    colour: str,
    noheader: bool,
    from_slurm: bool,
    **asked: Any,
) -> None:
    """See HELP."""
    if ctx.invoked_subcommand is not None:
        no_options_of(ctx)
        return
    output = output_of(json=json, csv=csv, parsable=parsable)
    now = datetime.now(timezone.utc)
    question = question_of(now=now, **asked)
    shape = shape_of(output=output, colour=colour, header=not noheader)
    settings = load_config(config)
    reader = _reader(settings, from_slurm=from_slurm)
    text = answer(reader, question, shape, now, settings.gpu_models)
    click.echo(text, nl=False, color=shape.colour)


report.add_command(tile_command)


def _reader(config: Config, *, from_slurm: bool) -> UsageReader:
    if not from_slurm:
        return open_reader(config)
    from slurm_ofu.wiring.from_slurm import open_slurm_reader  # the usual report does not pay for it

    return open_slurm_reader(config)


def answer(
    reader: UsageReader,
    question: Question,
    shape: Shape,
    now: datetime,
    site_models: Sequence[GpuModel] = (),
) -> str:
    """The report as text; what it cannot show is said on stderr."""
    if question.jobs and question.by == "job" and shape.output in (None, "json"):
        return _pages(reader, question, shape, now, site_models)
    if question.by in ("day", "hour"):
        raise NotImplementedError
    rows = reader.usage(question.selection, question.by)
    if question.jobs:
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
    return _table(rows, question, shape, site_models)


def _table(
    rows: Sequence[UsageRow], question: Question, shape: Shape, site_models: Sequence[GpuModel]
) -> str:
    return as_table(
        rows,
        question,
        width=shape.width,
        colour=shape.colour,
        header=shape.header,
        more_notes=_doubts(rows, site_models),
    )


def _doubts(rows: Sequence[UsageRow], site_models: Sequence[GpuModel]) -> list[str]:
    """Of the GPU models that have an OFU here."""
    measured = [row.sums for row in rows if row.sums.tensor_ref_seconds is not None]
    return doubts({name for sums in measured for name in sums.gpu_models}, site_models)


def _pages(
    reader: UsageReader,
    question: Question,
    shape: Shape,
    now: datetime,
    site_models: Sequence[GpuModel],
) -> str:
    """A page per run of each job, in the order in which the jobs were asked for."""
    found = reader.jobs(question.selection)
    _name_missing(question, found)
    runs = in_order_asked(question.jobs, (row.run for row in found if row.run is not None))
    if shape.output is None and len(runs) > _MOST_PAGES:
        click.echo(f"{len(runs)} runs, hence a line each (pages for up to {_MOST_PAGES})", err=True)
        return _table(found, question, shape, site_models)
    pages = [reader.page(run.run_id) for run in runs]
    if shape.output == "json":
        return pages_as_json(pages, question, generated_at=now.astimezone(question.zone))
    return "\n".join(_page(page, question, shape, site_models) for page in pages)


def _page(page: JobPage, question: Question, shape: Shape, site_models: Sequence[GpuModel]) -> str:
    return as_page(
        page,
        question.zone,
        width=min(shape.width, _PAGE_WIDTH),
        colour=shape.colour,
        doubt=None if page.row.run is None else doubt_of(page.row.run.comment),
        more_notes=_doubts([page.row], site_models),
    )


def _name_missing(question: Question, found: Sequence[UsageRow]) -> None:
    """Say on stderr which of the jobs that were asked for are not among those found."""
    runs = [row.run for row in found if row.run is not None]
    if missing := not_found(question.jobs, runs):
        click.echo(nothing_found(replace(question, jobs=missing)), err=True)


def main() -> None:
    """The entry point."""
    report.main(prog_name="ofu-report")
