"""ofu-report: Overall FLOP Utilization of Slurm jobs, users, partitions and accounts."""

import re
from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from slurm_ofu import __version__
from slurm_ofu.audits.findings import findings
from slurm_ofu.cli.abbreviations import spelled_out
from slurm_ofu.cli.answers import answer
from slurm_ofu.cli.asked import clusters_of, output_of, question_of, shape_of, with_format
from slurm_ofu.cli.job_ids import asked_jobs
from slurm_ofu.cli.options import EXIT_NOTHING, EXIT_OK, OfuGroup, comma_lists, config_option
from slurm_ofu.cli.report_help import HELP, eager_flag, short_help_option, show_all
from slurm_ofu.cli.report_tile import no_options_of, tile_command
from slurm_ofu.cli.slurm_lists import complete_fields, complete_states, node_lists, state_lists
from slurm_ofu.config import load_config
from slurm_ofu.errors import UsageError
from slurm_ofu.protocols import UsageReader
from slurm_ofu.reports.formatting import help_format
from slurm_ofu.reports.order import SORTS
from slurm_ofu.reports.question import Question
from slurm_ofu.values import Config
from slurm_ofu.wiring.reading import open_reader

_Function = TypeVar("_Function", bound=Callable[..., Any])
_JOB_ID = re.compile(r"[0-9][0-9_+,\[\]-]*")
_BY = ("job", "user", "account", "partition", "qos", "node", "gpu-model", "job-name", "month", "day", "hour")


class ReportGroup(OfuGroup):
    """Reports by options alone; a word without one is a command's name, or an error as it always was."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As sacct, with long options by their beginnings, too."""
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        return super().parse_args(ctx, spelled_out(args, options))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is named. Raises click.UsageError."""
        if self.get_command(ctx, args[0]) is None:
            if _JOB_ID.fullmatch(args[0]):
                ctx.fail(f"{args[0]} is no command; did you mean -j {args[0]}?")
            plural = "" if len(args) == 1 else "s"
            names = ", ".join(self.list_commands(ctx))
            ctx.fail(f"Got unexpected extra argument{plural} ({' '.join(args)}): the only command is {names}")
        return super().resolve_command(ctx, args)

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """One screen; --help-all has the rest."""
        return short_help_option()


def _names(
    *options: str,
    to: str,
    help: str,
    callback: Any = comma_lists,
    metavar: str = "NAME,…",
    complete: Any = None,
) -> Callable[[_Function], _Function]:
    return click.option(
        *options,
        to,
        callback=callback,
        multiple=True,
        metavar=metavar,
        help=help,
        shell_complete=complete,
    )


def _show_fields(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(help_format(), nl=False)
        ctx.exit()


@click.group(
    "ofu-report",
    cls=ReportGroup,
    help=HELP,
    short_help="Overall FLOP Utilization of Slurm GPU jobs",
    invoke_without_command=True,
    subcommand_metavar="[tile …]",
)
@_names(
    *("-j", "--jobs"),
    to="jobs",
    callback=asked_jobs,
    metavar="ID,…",
    help="A page for each job: 123, 123_4, 123_[1-5], 123+1.",
)
@_names("-u", "--uid", "--user", to="users", help="Only these users, by name or uid.")
@click.option("-a", "--allusers", is_flag=True, help="All users, not only yourself.")
@_names("-r", "--partition", to="partitions", help="Only these partitions.")
@_names("-A", "--account", "--accounts", to="accounts", help="Only these accounts.")
@_names("-q", "--qos", to="qos", help="Only these qualities of service.")
@_names("--name", to="job_names", help="Only jobs of these names.")
@_names(
    *("-N", "--nodelist"),
    to="node_names",
    callback=node_lists,
    metavar="HOSTS",
    help="Only jobs that had any of these nodes, as in n[1-4,7], with all their nodes.",
)
@_names(
    *("-s", "--state"),
    to="states",
    callback=state_lists,
    metavar="STATE,…",
    complete=complete_states,
    help="Only jobs that ended so, by sacct's short or long names: CD, F, TO, …; R: those that run.",
)
@_names("-M", "--clusters", to="clusters", help="Only these clusters; all: every one.")
@click.option("-L", "--allclusters", is_flag=True, hidden=True)
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
@click.option("-X", "--allocations", is_flag=True, hidden=True, expose_value=False)
@click.option("-D", "--duplicates", is_flag=True, hidden=True, expose_value=False)
@click.option(
    "--by",
    type=click.Choice(_BY),
    default="job",
    show_default=True,
    help="One line per what; months, days and hours are local ones.",
)
@click.option(
    "--sort",
    type=click.Choice(SORTS),
    default="name",
    show_default=True,
    help="The order of the lines: by name (jobs: the oldest first), the lowest OFU first, or the most"
    " (lost) GPU-hours first.",
)
@click.option(
    "--worst",
    type=click.IntRange(min=0),
    metavar="N",
    help="List the N runs that lost most GPU-hours, too. Default: 5 under groups (of up to 5000 runs).",
)
@click.option(
    "-o",
    "--format",
    "fields",
    metavar="FIELD,…",
    shell_complete=complete_fields,
    help="These columns: NAME, NAME%20, NAME%-20 (to the left), +NAME (to add it). [$OFU_FORMAT]",
)
@eager_flag("-e", "--helpformat", callback=_show_fields, help="Show the fields for --format.")
@click.option("--json", is_flag=True, help="JSON with units and a schema version.")
@click.option("--csv", is_flag=True, help="CSV, safe to open in a spreadsheet.")
@click.option("-P", "--parsable2", "parsable", is_flag=True, help="Fields with | between them.")
@click.option("-p", "--parsable", "parsable_trailing", is_flag=True, help="The same, with a | at the end.")
@click.option("--delimiter", metavar="TEXT", help="What -p and -P put in the place of |.")
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
    help="From Slurm's own accounting (sacct), where write-back left each job's OFU: no database is needed,"
    " and Slurm says whose jobs you may see.",
)
@click.option(
    "--html",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Web pages of the whole selection, for a browser: into a new directory, or one made so before.",
)
@config_option
@click.version_option(__version__, "-V", "--version", prog_name="ofu-report")
@eager_flag("--help-all", callback=show_all, help="Show all of this.")
@click.pass_context
def report(
    ctx: click.Context,
    /,
    config: str | None,
    json: bool,
    csv: bool,
    parsable: bool,
    parsable_trailing: bool,
    delimiter: str | None,
    fields: str | None,
    colour: str,
    noheader: bool,
    from_slurm: bool,
    html: Path | None,
    allclusters: bool,
    clusters: tuple[str, ...],
    **asked: Any,
) -> int | None:
    """See HELP."""
    if ctx.invoked_subcommand is not None:
        no_options_of(ctx)
        return None
    output = output_of(json=json, csv=csv, parsable=parsable, parsable_trailing=parsable_trailing)
    if html is not None and not (output is None and fields is None and delimiter is None):
        raise UsageError(
            "--html takes no other format: leave --json, --csv, -p, -P, --format and --delimiter out"
        )
    now = datetime.now(timezone.utc)
    asked["clusters"] = clusters_of(clusters, every=allclusters, from_slurm=from_slurm)
    question = question_of(now=now, from_slurm=from_slurm, **asked)
    if html is not None:
        if (question.by, question.sort, question.worst) != ("job", "name", None):
            raise UsageError("--html makes pages of every kind: leave --by, --sort and --worst out")
        return _write_pages(load_config(config), question, html, now, from_slurm=from_slurm)
    shape = shape_of(output=output, colour=colour, header=not noheader)
    shape = with_format(
        shape, question, fields=fields, delimiter=delimiter, trailing=parsable_trailing, now=now
    )
    settings = load_config(config)
    found = partial(findings, rules=settings.findings, goals=settings.goals)
    reader = _reader(settings, from_slurm=from_slurm)
    answered = answer(reader, question, shape, now, settings.gpu_models, found, settings.goals)
    click.echo(answered.text, nl=False, color=shape.colour)
    return answered.code


report.add_command(tile_command)


def _reader(config: Config, *, from_slurm: bool) -> UsageReader:
    if not from_slurm:
        return open_reader(config)
    from slurm_ofu.wiring.from_slurm import open_slurm_reader  # the usual report does not pay for it

    return open_slurm_reader(config)


def _write_pages(
    config: Config, question: Question, directory: Path, now: datetime, *, from_slurm: bool
) -> int:
    from slurm_ofu.wiring.pages import write_pages  # the usual report does not pay for it

    reader = _reader(config, from_slurm=from_slurm)
    done = write_pages(config, reader, question, directory, now)
    click.echo(f"{done.page_count} pages about {done.job_count} jobs: {directory / 'index.html'}", err=True)
    return EXIT_OK if done.job_count else EXIT_NOTHING


def main() -> None:
    """The entry point."""
    report.main(prog_name="ofu-report")
