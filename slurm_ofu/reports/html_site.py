"""The static pages of a cluster: which there are, and what stands on each."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any, Final

from slurm_ofu import __version__
from slurm_ofu.figures import figures, pool
from slurm_ofu.reports.free_text import printable
from slurm_ofu.reports.html_charts import Chart, bands_chart, course_charts, histogram_chart, job_chart
from slurm_ofu.reports.html_course import Course
from slurm_ofu.reports.html_coverage import reasons_table
from slurm_ofu.reports.html_distribution import bands_table, histogram_table
from slurm_ofu.reports.html_figures import (
    GPU_HOURS,
    GROUP_COLUMNS,
    LOST,
    ShownRow,
    group_cells,
    shown_row,
    text_cell,
)
from slurm_ofu.reports.html_job import (
    about_facts,
    course_table,
    details,
    gpus_table,
    headline,
    job_notes,
    nodes_table,
    page_figures,
    said,
)
from slurm_ofu.reports.html_jobs import (
    LEFT_OUT,
    by_gpu_hours,
    job_paths,
    job_title,
    jobs_table,
)
from slurm_ofu.reports.html_overview import cards
from slurm_ofu.reports.html_table import HtmlColumn, HtmlTable
from slurm_ofu.reports.html_templates import Press
from slurm_ofu.reports.html_veil import Veil, asked_for, users_of
from slurm_ofu.reports.notes import explanations
from slurm_ofu.reports.order import worst_of
from slurm_ofu.reports.page_gpus import part_figures
from slurm_ofu.reports.run_words import sums_of
from slurm_ofu.reports.wording import EXPLANATIONS, moment, percent, span
from slurm_ofu.values import Figures, Finding, Goals, JobPage, Selection, StoredGroup, UsageRow

#: By what there are pages: their paths, titles, and what one of them is called.
GROUP_PAGES: Final[Mapping[StoredGroup, tuple[str, str, str]]] = {
    "partition": ("partitions.html", "Partitions", "Partition"),
    "account": ("accounts.html", "Accounts", "Account"),
    "user": ("users.html", "Users", "User"),
    "gpu-model": ("gpu-models.html", "GPU models", "GPU model"),
    "node": ("nodes.html", "Nodes", "Node"),
}
_VEILED: Final = ("account", "qos")
_ALWAYS: Final = ("jobs.html", "worst.html", "coverage.html", "reading.html", "index.html")


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteFacts:
    """What the pages are made of. ``start`` and ``end`` in the reader's zone; ``None``: no limit.

    ``jobs``: every run that was asked for; ``worst``: those of them that may be on the worst list, and
    ``left_out`` why how many others may not. ``groups``: only what is there has a page.
    """

    title: str
    start: datetime | None
    end: datetime | None
    generated_at: datetime
    zone: tzinfo
    selection: Selection
    show_users: bool
    goals: Goals
    jobs: Sequence[UsageRow]
    worst: Sequence[UsageRow]
    worst_count: int
    job_pages: int
    left_out: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[StoredGroup, Sequence[UsageRow]] = field(default_factory=dict)
    course: tuple[Course, Sequence[UsageRow]] | None = None
    more_notes: tuple[str, ...] = ()


class Site:
    """The pages, one after the other, so that only one of them is held at a time."""

    def __init__(
        self,
        facts: SiteFacts,
        templates: Mapping[str, str],
        assets: Mapping[str, bytes],
        *,
        findings_of: Callable[[JobPage], Sequence[Finding]],
    ) -> None:
        self._facts, self._findings_of = facts, findings_of
        self._veil = Veil(show_users=facts.show_users, users=users_of(facts.jobs))
        self._jobs = [shown_row(self._veil.row(row)) for row in by_gpu_hours(facts.jobs)]
        worst = worst_of(facts.worst, facts.worst_count)
        self._worst = [shown_row(self._veil.row(row)) for row in worst]
        rows = (shown.row for shown in [*self._worst, *self._jobs])
        paged = {row.run.run_id: row for row in rows if row.run is not None}
        self._paths = job_paths(list(paged.values())[: facts.job_pages])
        self._total = figures(pool(sums_of(row) for row in facts.jobs))
        self._press = Press(templates, assets, self._everywhere())

    @property
    def paths(self) -> tuple[str, ...]:
        """Where the pages will be, seen from the site's root."""
        groups = [GROUP_PAGES[group][0] for group in self._shown_groups()]
        return (*self._paths.values(), *groups, *_ALWAYS)

    def pages(self, page_of: Callable[[int], JobPage]) -> Iterator[tuple[str, str]]:
        """Each page's path and text, those of jobs first: no link leads to one that is not there yet.
        ``page_of`` gives what is known of a run by its ``run_id``."""
        for run_id, path in self._paths.items():
            yield path, self._job(path, self._veil.page(page_of(run_id)))
        for group in self._shown_groups():
            path, title, one = GROUP_PAGES[group]
            yield path, self._group(path, title, one, self._rows(group))
        yield "jobs.html", self._page("jobs.html", "Jobs", table=self._jobs_table())
        yield "worst.html", self._worst_page()
        yield "coverage.html", self._coverage()
        yield "reading.html", self._page("reading.html", "How to read", reasons=EXPLANATIONS)
        yield "index.html", self._overview()

    def _shown_groups(self) -> list[StoredGroup]:
        return [group for group in self._facts.groups if group != "user" or self._facts.show_users]

    def _rows(self, group: StoredGroup) -> Sequence[UsageRow]:
        rows = self._facts.groups.get(group, ())
        return self._veil.groups(rows) if group in _VEILED else rows

    def _everywhere(self) -> dict[str, Any]:
        facts = self._facts
        navigation = [
            ("index.html", "Overview"),
            *(GROUP_PAGES[group][:2] for group in self._shown_groups()),
            ("jobs.html", "Jobs"),
            ("worst.html", "Lost GPU-hours"),
            ("coverage.html", "Coverage"),
            ("reading.html", "How to read"),
        ]
        return {
            "site_title": printable(facts.title),
            "window": _window(facts.start, facts.end),
            "asked_for": asked_for(facts.selection, show_users=facts.show_users),
            "generated": moment(facts.generated_at),
            "navigation": navigation,
            "version": __version__,
            "show_users": facts.show_users,
            "goal": percent(facts.goals.default_ratio, digits=0),
            "goals": [(name, percent(goal, digits=0)) for name, goal in facts.goals.by_partition.items()],
        }

    def _page(self, path: str, title: str, *, template: str | None = None, **facts: Any) -> str:
        return self._press.page(f"{template or path}.jinja", path=path, title=title, **facts)

    def _overview(self) -> str:
        its = self._total
        course = self._facts.course
        charts: list[Chart] = [] if course is None else course_charts(*course)
        models = self._group_table("gpu-model", "By GPU model")
        partitions = self._group_table("partition", "By partition")
        return self._page(
            "index.html",
            "Overview",
            cards=cards(its) if self._facts.jobs else [],
            charts=charts,
            bands=bands_chart(bands_table(its)),
            histogram=histogram_chart(histogram_table(self._jobs)),
            tables=[table for table in (models, partitions) if table is not None],
            notes=self._notes([its], its),
        )

    def _group_table(self, group: StoredGroup, caption: str) -> HtmlTable | None:
        rows = self._rows(group)
        return None if not rows else group_table(rows, GROUP_PAGES[group][2], caption)

    def _group(self, path: str, title: str, one: str, rows: Sequence[UsageRow]) -> str:
        shown = [shown_row(row).figures for row in rows]
        return self._page(
            path,
            title,
            template="groups.html",
            table=group_table(rows, one, f"GPU jobs by {one if one.startswith('GPU') else one.lower()}"),
            notes=self._notes(shown, self._total),
        )

    def _jobs_table(self) -> HtmlTable:
        return self._table_of(self._jobs, key="jobs", caption="Jobs", sorted_by=GPU_HOURS)

    def _worst_page(self) -> str:
        left_out = [(LEFT_OUT.get(reason, reason), count) for reason, count in self._facts.left_out.items()]
        table = self._table_of(self._worst, key="worst", caption="Jobs by lost GPU-hours", sorted_by=LOST)
        return self._page(
            "worst.html",
            "Lost GPU-hours",
            table=table,
            left_out=left_out,
            judged_count=len(self._facts.worst),
        )

    def _coverage(self) -> str:
        figures_on_top = cards(self._total)[:3]
        return self._page(
            "coverage.html",
            "Coverage",
            reasons=reasons_table(self._jobs),
            cards=figures_on_top,
            job_count=len(self._jobs),
        )

    def _table_of(
        self, rows: Sequence[ShownRow], *, key: str, caption: str, sorted_by: HtmlColumn
    ) -> HtmlTable:
        return jobs_table(
            rows,
            self._paths,
            self._facts.zone,
            key=key,
            caption=caption,
            show_users=self._facts.show_users,
            sorted_by=sorted_by,
        )

    def _notes(self, shown: Sequence[Figures], total: Figures) -> list[str]:
        return [*explanations(shown, total=total), *self._facts.more_notes]

    def _job(self, path: str, page: JobPage) -> str:
        zone, run, its, parts = self._facts.zone, page.row.run, page_figures(page), part_figures(page)
        course = course_table(page, zone)
        found = self._findings_of(page)
        nodes, gpus = nodes_table(page, parts.nodes, found), gpus_table(page, found)
        return self._page(
            path,
            "Job" if run is None else f"Job {job_title(run)}",
            template="job.html",
            about=about_facts(page, its, zone, show_users=self._facts.show_users),
            headline=headline(page, its, self._facts.goals),
            details=details(page, its),
            findings=said(found, page, zone),
            charts=[] if course is None else [job_chart(course)],
            tables=[table for table in (nodes, gpus) if table is not None],
            running=run is not None and run.running,
            notes=[*self._notes([its, *parts.nodes, *parts.gpus], its), *job_notes(page)],
        )


def group_table(rows: Sequence[UsageRow], one: str, caption: str) -> HtmlTable:
    """A line per group; ``one`` is what a group is called."""
    return HtmlTable(
        key=one.lower().replace(" ", "-"),
        caption=caption,
        columns=(HtmlColumn(title=one, numeric=False), *GROUP_COLUMNS),
        rows=[[text_cell(row.group), *group_cells(shown_row(row).figures)] for row in rows],
        row_count=len(rows),
        sorted_by=GPU_HOURS.title,
    )


def _window(start: datetime | None, end: datetime | None) -> str:
    if start is not None and end is not None:
        return span(start, end)
    return f"until {moment(end)}" if end else f"since {moment(start)}" if start else "all times"
