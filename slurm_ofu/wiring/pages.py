"""``ofu-report --html``: asks for what the static pages show, and writes them."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from slurm_ofu.audits.findings import findings
from slurm_ofu.errors import ConfigError, StoreBusy, StoreError, StoreMissing, UsageError
from slurm_ofu.figures.work import RANKED, work_kind
from slurm_ofu.gpu_models import doubts
from slurm_ofu.protocols import UsageReader
from slurm_ofu.reports.html_course import Course, course_of
from slurm_ofu.reports.html_site import GROUP_PAGES, Site, SiteFacts
from slurm_ofu.reports.question import Question
from slurm_ofu.values import Config, JobPage, RunRow, Selection, StoredGroup, UsageRow
from slurm_ofu.wiring.site_directory import site_directory

_PACKAGE: Final = Path(__file__).resolve().parents[1]
_TEMPLATES: Final = "*.html.jinja"
_NOT_COPIED: Final = "README.txt"
_LONGEST_BEFORE: Final = 92 * 86400.0  # a window that begins longer before its first job begins with that


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPages:
    """How many pages there are now, of how many jobs, and how many former files went."""

    page_count: int
    job_count: int
    removed_count: int


def write_pages(
    config: Config, reader: UsageReader, question: Question, directory: Path, now: datetime
) -> WrittenPages:
    """Write the pages for the question's window and selection. Raises UsageError where the directory is not
    ours to write to, ConfigError for a template that cannot be used, StoreError."""
    templates, assets = _templates(config), _assets()
    jobs = reader.jobs(question.selection)
    site = Site(
        _facts(config, reader, question, jobs, now),
        templates,
        assets,
        findings_of=partial(findings, rules=config.findings, goals=config.goals),
    )
    files = {f"assets/{name}": text for name, text in assets.items()}
    with site_directory(directory) as target:
        target.plan([*files, *site.paths])
        for name, text in files.items():
            target.write(name, text)
        for path, page in site.pages(_page_of(reader, jobs)):
            target.write(path, page.encode())
        removed = target.finish()
    return WrittenPages(page_count=len(site.paths), job_count=len(jobs), removed_count=removed)


def _facts(
    config: Config, reader: UsageReader, question: Question, jobs: Sequence[UsageRow], now: datetime
) -> SiteFacts:
    selection = question.selection
    kinds = Counter(work_kind(row.sums) for row in jobs)
    models = {name for row in jobs if row.sums.tensor_ref_seconds is not None for name in row.sums.gpu_models}
    return SiteFacts(
        title=config.pages.title or _clusters(jobs, selection),
        start=question.start,
        end=question.end,
        generated_at=now.astimezone(question.zone),
        zone=question.zone,
        selection=selection,
        show_users=config.pages.show_users,
        goals=config.goals,
        jobs=jobs,
        worst=[row for row in jobs if work_kind(row.sums) in RANKED],
        worst_count=config.audits.top,
        job_pages=config.pages.job_pages,
        left_out={kind: count for kind, count in sorted(kinds.items()) if kind not in RANKED},
        groups=_groups(config, reader, selection),
        course=_course(reader, question, jobs, now),
        more_notes=tuple(doubts(models, config.gpu_models)),
    )


def _groups(
    config: Config, reader: UsageReader, selection: Selection
) -> Mapping[StoredGroup, Sequence[UsageRow]]:
    """By what the reader can group: Slurm's own accounting, for one, knows no single nodes."""
    groups: dict[StoredGroup, Sequence[UsageRow]] = {}
    for group in GROUP_PAGES:
        if group == "user" and not config.pages.show_users:
            continue
        try:
            groups[group] = reader.usage(selection, group)
        except UsageError:
            continue
    return groups


def _course(
    reader: UsageReader, question: Question, jobs: Sequence[UsageRow], now: datetime
) -> tuple[Course, Sequence[UsageRow]] | None:
    """Until now at most, and from shortly before the first job on at the earliest."""
    begun = [row.run.start_epoch_s for row in jobs if row.run is not None]
    first = min((start for start in begun if start is not None), default=None)
    if first is None:
        return None
    start, end = question.selection.start_epoch_s, question.selection.end_epoch_s
    start = first if start is None or start < first - _LONGEST_BEFORE else start
    end = now.timestamp() if end is None else min(end, now.timestamp())
    course = course_of(start, end, question.zone)
    if course is None:
        return None
    try:
        return course, reader.course(question.selection, course.edges)
    except UsageError:
        return None


def _page_of(reader: UsageReader, jobs: Sequence[UsageRow]) -> Callable[[int], JobPage]:
    """A run's page. Where it has gone meanwhile, or another run has its number, what was known before."""
    rows = {row.run.run_id: row for row in jobs if row.run is not None}

    def page_of(run_id: int) -> JobPage:
        row = rows[run_id]
        try:
            page = reader.page(run_id)
        except (StoreMissing, StoreBusy):
            raise
        except StoreError:
            return JobPage(row=row, nodes=(), gpus=())
        return page if _same(page.row.run, row.run) else JobPage(row=row, nodes=(), gpus=())

    return page_of


def _same(one: RunRow | None, other: RunRow | None) -> bool:
    if one is None or other is None:
        return one is other
    names = ("cluster", "job_id", "restart_count")
    return all(getattr(one, name) == getattr(other, name) for name in names)


def _clusters(jobs: Sequence[UsageRow], selection: Selection) -> str:
    names = sorted({row.run.cluster for row in jobs if row.run is not None}) or sorted(selection.clusters)
    return "GPU use" + (f" on {', '.join(names)}" if names else "")


def _templates(config: Config) -> dict[str, str]:
    """Ours, and those of the site by the same names. Raises ConfigError."""
    folders = [_PACKAGE / "templates" / "pages"]
    if config.pages.templates_dir is not None:
        folders.append(Path(config.pages.templates_dir))
    try:
        return {
            path.name: path.read_text(encoding="utf-8")
            for folder in folders
            for path in sorted(folder.iterdir())
            if path.match(_TEMPLATES)
        }
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"[pages] templates_dir {folders[-1]}: cannot be read: {error}") from error


def _assets() -> dict[str, bytes]:
    folder = _PACKAGE / "assets" / "pages"
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name != _NOT_COPIED}
