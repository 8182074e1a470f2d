"""ofu-admin audit: what somebody should look at, over many runs."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

from slurm_ofu.cli.admin_reconcile import window_of
from slurm_ofu.cli.asked import Shape, output_of, shape_of
from slurm_ofu.cli.local_zone import LocalZone
from slurm_ofu.cli.options import EXIT_OK, comma_lists, config_option
from slurm_ofu.config import load_config
from slurm_ofu.errors import UsageError
from slurm_ofu.protocols import UsageReader
from slurm_ofu.reports.as_audit import as_audit
from slurm_ofu.reports.as_audit_data import audit_as_csv, audits_as_json
from slurm_ofu.reports.free_text import printable
from slurm_ofu.reports.question import Question, nothing_found
from slurm_ofu.reports.wording import percent
from slurm_ofu.values import AUDIT_NAMES, AuditConfig, AuditName, AuditResult, Config, Selection, StoredGroup
from slurm_ofu.wiring.auditing import NOT_FROM_SLURM, audit_results
from slurm_ofu.wiring.reading import open_reader

EXIT_NOTHING: Final = 2
EXIT_BELOW: Final = 10
_WIDEST: Final = 100
_ALL: Final = "all"
_HIGHEST_RATIO: Final = 1.1  # OFU may be above 1, where the clock was above the reference clock
#: Which figure --fail-under is about; of several audits the first of these that is among them counts.
_JUDGED_BY: Final[tuple[tuple[AuditName, str, str], ...]] = (
    ("waste", "ofu_ratio", "the pooled OFU"),
    ("coverage", "measured_ratio", "the share of the GPU time with OFU"),
)
HELP = """Say what somebody should look at: NAME is one or more of the audits below, or all.

\b
  waste        users and accounts with a low OFU, by the GPU-hours that they lost
  idle         runs that held GPUs and did nothing, also while they still run
  unused       GPUs that stayed idle while others of the same run worked
  regressions  like-named runs that became slower, or fast again
  claims       what jobs say of their efficiency, against what was measured
  hardware     GPUs that lag their siblings in the same runs
  coverage     GPU time that nobody measured, and why

Nobody is listed for a figure that is missing or doubtful, nor for work without tensor cores; how many runs
were not judged, and why, stands in every answer. Thresholds, least runtimes and exclusions are the
configuration's ([audits]); the options below go before them, exclusions are added to them.

Exit code 0: answered, whatever came out, also where --fail-under has nothing to compare, which is said on
stderr; 1: an option or the configuration cannot be used; 2: no run matches;
4: the accounting database is missing or cannot be used (with --from-slurm: Slurm's accounting does not
answer); 5: this user may not read it; 10: below --fail-under.
"""

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _names_option(*flags: str, help: str) -> Callable[[_Command], _Command]:
    return click.option(*flags, callback=comma_lists, multiple=True, metavar="NAME,…", help=help)


def _finite(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """click's ranges let NaN pass."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is no number to compare with", ctx, param)
    return value


def _ratio(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """Whoever means per cent would always fail."""
    value = _finite(ctx, param, value)
    if value is not None and value > _HIGHEST_RATIO:
        raise click.BadParameter(f"{value:g} is no ratio: write one as in 0.5 for 50 %", ctx, param)
    return value


def _complete_audits(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """After the last comma."""
    before, comma, last = incomplete.rpartition(",")
    names = [name for name in (*AUDIT_NAMES, _ALL) if name.startswith(last)]
    return [CompletionItem(f"{before}{comma}{name}") for name in names]


@click.command("audit", help=HELP, short_help="Say what somebody should look at, over many runs.")
@config_option
@click.argument("names", metavar="NAME…|all", nargs=-1, required=True, shell_complete=_complete_audits)
@click.option(
    *("-S", "--starttime"),
    default="now-7days",
    show_default=True,
    metavar="TIME",
    help="Where the window begins.",
)
@click.option(
    *("-E", "--endtime"),
    default="now",
    show_default=True,
    metavar="TIME",
    help="Where it ends, not included.",
)
@_names_option("-M", "--clusters", help="Only these clusters.")
@_names_option("-r", "--partition", "partitions", help="Only these partitions.")
@_names_option("-A", "--account", "--accounts", "accounts", help="Only these accounts.")
@_names_option("-u", "--user", "users", help="Only these users.")
@_names_option("-q", "--qos", help="Only these QOS.")
@_names_option("--exclude-user", "exclude_users", help="Not these users either.")
@_names_option("--exclude-account", "exclude_accounts", help="Not these accounts either.")
@_names_option("--exclude-qos", help="Not these QOS either.")
@_names_option("--exclude-partition", "exclude_partitions", help="Not these partitions either.")
@click.option(
    "--minimum-gpu-hours",
    type=click.FloatRange(0),
    callback=_finite,
    metavar="HOURS",
    help="Nothing with fewer at stake. [[audits] minimum_gpu_hours]",
)
@click.option(
    "--minimum-runtime",
    "minimum_seconds",
    type=click.FloatRange(0),
    callback=_finite,
    metavar="SECONDS",
    help="No runs shorter than this. [[audits] minimum_seconds]",
)
@click.option(
    "--top",
    type=click.IntRange(0),
    metavar="N",
    help="So many entries of a kind; 0: all. [[audits] top; all with --json and --csv]",
)
@click.option("--check", is_flag=True, help="Say only what would be looked at: runs, thresholds, exclusions.")
@click.option(
    "--fail-under",
    type=click.FloatRange(0),
    callback=_ratio,
    metavar="RATIO",
    help="Exit with 10 where the OFU of all that waste judged is below; with coverage alone: the share of the"
    " GPU time with OFU.",
)
@click.option("--json", is_flag=True, help="JSON with units and a schema version.")
@click.option("--csv", is_flag=True, help="CSV of a single audit, safe to open in a spreadsheet.")
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
    help="From Slurm's own accounting, where write-back left each job's OFU: only for audits that need no"
    " more.",
)
def audit_command(
    config: str | None,
    names: tuple[str, ...],
    json: bool,
    csv: bool,
    colour: str,
    top: int | None,
    check: bool,
    fail_under: float | None,
    from_slurm: bool,
    **asked: Any,
) -> int:
    """See HELP."""
    now = datetime.now(timezone.utc).astimezone(LocalZone())
    output = output_of(json=json, csv=csv)
    audits = audits_of(names, from_slurm=from_slurm)
    _check_options(audits, output, fail_under, check=check)
    question = _question(now, **{name: asked.pop(name) for name in _OF_THE_QUESTION})
    settings = load_config(config)
    settings = replace(settings, audits=_with_options(settings.audits, **asked))
    reader = _reader(settings, from_slurm=from_slurm)
    results = audit_results(
        settings,
        reader,
        audits,
        question.selection,
        now.timestamp(),
        single_gpus=not from_slurm,
    )
    if not any(result.examined_count or result.left_out for result in results):
        click.echo(nothing_found(question), err=True)
        return EXIT_NOTHING
    shape = shape_of(output=output, colour=colour, header=True)
    most = (settings.audits.top if output is None else 0) if top is None else top
    click.echo(
        _text(results, question, settings, shape, most=most or None, only_check=check, now=now),
        nl=False,
        color=shape.colour,
    )
    if check and (idle := _without_effect(reader, settings.audits, question.selection)):
        click.echo(f"ofu-admin: excluded, though no run of the window is of them: {idle}", err=True)
    return EXIT_OK if check or fail_under is None else _below(results, fail_under)


_OF_THE_QUESTION: Final = (*("starttime", "endtime", "clusters", "partitions", "accounts", "users", "qos"),)


def audits_of(names: Sequence[str], *, from_slurm: bool) -> tuple[AuditName, ...]:
    """The audits that are named, each once, in the order in which they are listed; those that Slurm's
    accounting cannot answer are said on stderr, and an error where they were named. Raises UsageError."""
    names = [name.strip() for text in names for name in text.split(",")]
    if unknown := [name for name in names if name not in (*AUDIT_NAMES, _ALL)]:
        raise UsageError(_not_known(unknown[0]))
    everything = _ALL in names
    wanted = tuple(name for name in AUDIT_NAMES if everything or name in names)
    refused = [name for name in wanted if from_slurm and name in NOT_FROM_SLURM]
    why = [f"{name} cannot be had with --from-slurm: {NOT_FROM_SLURM[name]}" for name in refused]
    if why and not everything:
        raise UsageError("; ".join(why))
    for line in why:
        click.echo(f"ofu-admin: {line}", err=True)
    return tuple(name for name in wanted if name not in refused)


def _not_known(name: str) -> str:
    from difflib import get_close_matches  # only a typo pays for it

    near = get_close_matches(name, (*AUDIT_NAMES, _ALL), n=1)
    hint = f"did you mean {near[0]}?" if near else f"they are {', '.join(AUDIT_NAMES)}, all"
    return f"there is no audit {name!a}: {hint}"


def _check_options(
    audits: Sequence[AuditName], output: str | None, fail_under: float | None, *, check: bool
) -> None:
    if output == "csv" and len(audits) != 1:
        raise UsageError("--csv is of a single audit: name one, or take --json")
    if output == "csv" and check:
        raise UsageError("--check is for people, or --json: --csv has nothing but entries")
    if fail_under is not None and not any(name in audits for name, _, _ in _JUDGED_BY):
        raise UsageError("--fail-under judges waste (by its OFU) or coverage: name one of them, or all")


def _question(now: datetime, *, starttime: str, endtime: str, **names: Any) -> Question:
    start, end = window_of(starttime, endtime, now)
    selection = Selection(start_epoch_s=start.timestamp(), end_epoch_s=end.timestamp(), **names)
    return Question(selection=selection, by="job", zone=LocalZone())


def _with_options(
    its: AuditConfig,
    *,
    minimum_gpu_hours: float | None,
    minimum_seconds: float | None,
    **excluded: tuple[str, ...],
) -> AuditConfig:
    return replace(
        its,
        minimum_gpu_hours=its.minimum_gpu_hours if minimum_gpu_hours is None else minimum_gpu_hours,
        minimum_seconds=its.minimum_seconds if minimum_seconds is None else minimum_seconds,
        exclude_users=_added(its.exclude_users, excluded["exclude_users"]),
        exclude_accounts=_added(its.exclude_accounts, excluded["exclude_accounts"]),
        exclude_qos=_added(its.exclude_qos, excluded["exclude_qos"]),
        exclude_partitions=_added(its.exclude_partitions, excluded["exclude_partitions"]),
    )


def _added(names: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*names, *more)))


def _reader(config: Config, *, from_slurm: bool) -> UsageReader:
    if not from_slurm:
        return open_reader(config)
    from slurm_ofu.wiring.from_slurm import open_slurm_reader  # the usual audit does not pay for it

    return open_slurm_reader(config)


def _text(
    results: Sequence[AuditResult],
    question: Question,
    config: Config,
    shape: Shape,
    *,
    most: int | None,
    only_check: bool,
    now: datetime,
) -> str:
    if shape.output == "json":
        return audits_as_json(
            results,
            question,
            config.audits,
            config.goals,
            generated_at=now,
            most=most,
            only_check=only_check,
        )
    if shape.output == "csv":
        return audit_as_csv(results[0], most=most)
    return "\n\n".join(
        as_audit(
            result,
            question,
            config.audits,
            config.goals,
            width=min(_WIDEST, shape.width),
            colour=shape.colour,
            most=most,
            only_check=only_check,
            short_seconds=config.findings.short_seconds,
        )
        for result in results
    )


def _without_effect(reader: UsageReader, its: AuditConfig, selection: Selection) -> str:
    """Which exclusions match no run: names may be misspelt."""
    lists: tuple[tuple[StoredGroup, str, tuple[str, ...]], ...] = (
        ("user", "users", its.exclude_users),
        ("account", "accounts", its.exclude_accounts),
        ("qos", "QOS", its.exclude_qos),
        ("partition", "partitions", its.exclude_partitions),
    )
    said = []
    for group, what, names in lists:
        found = {row.group for row in reader.usage(selection, group)} if names else set()
        if missing := [name for name in names if name not in found]:
            said.append(f"{what} {printable(', '.join(missing))}")
    return "; ".join(said)


def _below(results: Sequence[AuditResult], least_ratio: float) -> int:
    """10 where what counts is below; a figure that is missing is no failure, and said."""
    by_name = {result.audit: result for result in results}
    audit, figure, what = next(one for one in _JUDGED_BY if one[0] in by_name)
    value = by_name[audit].summary.get(figure)
    if not isinstance(value, int | float):
        click.echo(f"ofu-admin: --fail-under: nothing to compare: {what} is not known", err=True)
        return EXIT_OK
    if value >= least_ratio:
        return EXIT_OK
    click.echo(f"ofu-admin: {what}, {percent(value)}, is below {percent(least_ratio)}", err=True)
    return EXIT_BELOW
