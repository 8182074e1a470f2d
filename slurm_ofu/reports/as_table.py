"""Many runs or groups, one line each, and what they add up to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from slurm_ofu.figures import figures, pool
from slurm_ofu.reports.free_text import shortened, wrapped
from slurm_ofu.reports.grid import Column, Line, as_grid
from slurm_ofu.reports.notes import as_notes, explanations, style
from slurm_ofu.reports.question import Question, headline
from slurm_ofu.reports.run_words import display_job_id, final_state, sums_of
from slurm_ofu.reports.wording import NOT_MEASURED, count, hours, idle_in_part, name, ofu, percent
from slurm_ofu.values import Figures, RunRow, UsageRow

_LONGEST_NAME = 20  # cells of a job's name: a long one would need more room than there is


@dataclass(frozen=True, slots=True, kw_only=True)
class _Name:
    """A leading column: what a line is about."""

    column: Column
    of: Callable[[UsageRow, Figures], str]


_IDLE = Column(title="Idle", right=True, give_way=3)
_FIGURES = (
    Column(title="GPUs", right=True),
    Column(title="GPU-h", right=True),
    _IDLE,
    Column(title="Tensor", right=True, give_way=1),
    Column(title="Clock", right=True, give_way=1),
    Column(title="Coverage", right=True),
    Column(title="OFU"),
)


def as_table(
    rows: Sequence[UsageRow],
    question: Question,
    *,
    width: int,
    colour: bool,
    header: bool = True,
    more_notes: Sequence[str] = (),
) -> str:
    """The whole report: headline, a line per row, the pooled total, and notes on what needs one."""
    if not rows:
        return ""
    names = _run_names(rows) if question.by == "job" else _group_names(question)
    sums = [sums_of(row) for row in rows]
    shown = [figures(its) for its in sums]
    lines = [
        _line(tuple(leading.of(row, its) for leading in names), its)
        for row, its in zip(rows, shown, strict=True)
    ]
    if len(rows) > 1:
        shown.append(figures(pool(sums)))
        lines.append(_line(_total_names(names, shown[-1], question), shown[-1], total=True))
    columns = [*(leading.column for leading in names), *_FIGURES]
    if all(its.idle_gpu_hours is None for its in shown):
        lines = [_without(line, columns.index(_IDLE)) for line in lines]
        columns.remove(_IDLE)
    grid = as_grid(columns, lines, width=width, colour=colour, header=header)
    if not header:
        return grid
    title = "".join(line + "\n" for line in wrapped(headline(question), width))
    notes = [*explanations(shown, total=shown[-1]), *more_notes]
    return f"{title}\n{grid}{as_notes(notes, width=width)}"


def _line(names: tuple[str, ...], its: Figures, *, total: bool = False) -> Line:
    cells = (
        count(its.gpu_count),
        hours(its.gpu_hours),
        _idle(its),
        percent(its.tpa_mean_ratio, absent=NOT_MEASURED),
        percent(its.active_clock_ratio, absent=NOT_MEASURED),
        percent(its.coverage_ratio),
        ofu(its),
    )
    return Line(cells=names + cells, style=style(its), total=total)


def _idle(its: Figures) -> str:
    """At least so much, where more was measured than judged."""
    return ("≥" if idle_in_part(its) else "") + hours(its.idle_gpu_hours, absent=NOT_MEASURED)


def _without(line: Line, number: int) -> Line:
    return replace(line, cells=(*line.cells[:number], *line.cells[number + 1 :]))


def _run_names(rows: Sequence[UsageRow]) -> tuple[_Name, ...]:
    """Which run it is; restarts and clusters only where they tell runs apart, name and state only where
    accounting has said some. Job name, state, account, idle hours and partition give way in this order."""
    runs = [row.run for row in rows if row.run is not None]
    restarted = any(run.restart_count > 0 for run in runs)
    several_clusters = len({run.cluster for run in runs}) > 1
    names = [_Name(column=Column(title="JobID"), of=_job_id)]
    if restarted:
        names.append(_run_name("Restarts", lambda run: str(run.restart_count), right=True))
    if several_clusters:
        names.append(_run_name("Cluster", lambda run: run.cluster, shrinks=True))
    if any(run.job_name is not None for run in runs):
        names.append(_run_name("Name", lambda run: run.job_name, longest=_LONGEST_NAME, give_way=6))
    names.append(_run_name("User", lambda run: run.user, shrinks=True))
    names.append(_run_name("Account", lambda run: run.account, shrinks=True, give_way=4))
    names.append(_run_name("Partition", lambda run: run.partition, shrinks=True, give_way=2))
    if any(final_state(run) is not None for run in runs):
        names.append(_run_name("State", final_state, longest=_LONGEST_NAME, give_way=5))
    return tuple(names)


def _job_id(row: UsageRow, _: Figures) -> str:
    return name(row.group if row.run is None else display_job_id(row.run))


def _run_name(
    title: str,
    of: Callable[[RunRow], str | None],
    *,
    right: bool = False,
    shrinks: bool = False,
    give_way: int = 0,
    longest: int | None = None,
) -> _Name:
    def cell(row: UsageRow, _: Figures) -> str:
        text = name(None if row.run is None else of(row.run))
        return text if longest is None else shortened(text, longest)

    return _Name(column=Column(title=title, right=right, shrinks=shrinks, give_way=give_way), of=cell)


def _group_names(question: Question) -> tuple[_Name, ...]:
    group = Column(title=question.by.capitalize(), shrinks=True)
    return (
        _Name(column=group, of=lambda row, _: name(row.group)),
        _Name(column=Column(title="Runs", right=True), of=lambda _, its: str(its.run_count)),
    )


def _total_names(names: Sequence[_Name], total: Figures, question: Question) -> tuple[str, ...]:
    if question.by == "job":
        return ("TOTAL", *("" for _ in names[1:]))
    return ("TOTAL", str(total.run_count))
