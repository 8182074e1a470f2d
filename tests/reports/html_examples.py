"""A cluster's month for tests of the static pages: jobs of every kind, with figures that belong together."""

import random
from dataclasses import replace
from datetime import datetime, timezone
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import slurm_ofu
from slurm_ofu.figures import pool
from slurm_ofu.figures.bands import BAND_COUNT, band_of
from slurm_ofu.figures.work import lost_seconds, work_kind
from slurm_ofu.reports.html_course import course_of
from slurm_ofu.reports.html_site import GROUP_PAGES, Site, SiteFacts
from slurm_ofu.values import Finding, Goals, GpuRow, JobPage, Selection, StoredGroup, UsageRow, UsageSums
from tests.figures.examples import BY_MINUTES, HOUR, gpu, measured, unmeasured
from tests.reports.examples import CET, MORNING, accounted, node, run, timeline

DAY = 86400.0
GOALS = Goals(by_partition={"long": 0.3})
NOW = datetime.fromtimestamp(MORNING + 20 * DAY, timezone.utc)
_MODELS = ("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB")
_USERS = ("wilma", "fred", "barney", "betty", "pebbles")
_NAMES = ("train", "train-7b", "eval", "md_run", "ablation [lr=3e-4]", "sweep")


def kept(sums: UsageSums, partition: str) -> UsageSums:
    """The sums of one run with what the accounting database counts of it."""
    if sums.tensor_ref_seconds is None:
        return replace(sums, band_run_counts=(0,) * BAND_COUNT, unmeasured_run_count=1)
    if work_kind(sums) == "non_tensor":
        return replace(sums, band_run_counts=(0,) * BAND_COUNT, non_tensor_run_count=1)
    band = band_of(sums.tensor_ref_seconds / sums.ofu_covered_seconds)
    bands = tuple(int(number == band) for number in range(BAND_COUNT))
    if work_kind(sums) == "unknown":
        return replace(sums, band_run_counts=bands)
    lost = lost_seconds(sums.ofu_covered_seconds, sums.tensor_ref_seconds, GOALS.of(partition))
    return replace(sums, band_run_counts=bands, lost_seconds=lost, ranked_seconds=sums.ofu_covered_seconds)


def sums_like(chance: random.Random, partition: str) -> UsageSums:
    """A run of training, of poor training, idle, of FP64, or one that nobody measured."""
    gpus = chance.choice((1, 1, 2, 4, 8, 8, 16, 64))
    seconds = gpus * chance.uniform(0.2, 30) * HOUR
    model = chance.choice(_MODELS)
    kind = chance.choices(("good", "poor", "idle", "fp64", "lost"), (40, 25, 8, 17, 10))[0]
    if kind == "lost":
        reason = chance.choice(("no_source", "not_delivered", "opted_out"))
        models = () if reason == "not_delivered" else (model,)
        sums = unmeasured(
            gpu_count=float(gpus), allocated_seconds=seconds, reasons=(reason,), gpu_models=models
        )
        return kept(sums, partition)
    covered = seconds * chance.choice((1.0, 0.999, 0.98, 0.7))
    ofu = {
        "good": max(0.05, min(0.62, chance.gauss(0.41, 0.06))),
        "poor": max(0.005, min(0.3, chance.gauss(0.08, 0.05))),
        "idle": 0.0,
        "fp64": 0.0,
    }[kind]
    idle = covered * {"good": 0.02, "poor": 0.3, "idle": 1.0, "fp64": 0.05}[kind]
    other = covered * 0.95 if kind == "fp64" else 0.0
    sums = measured(
        gpu_count=float(gpus),
        allocated_seconds=seconds,
        covered_seconds=covered,
        ofu_covered_seconds=covered,
        tpa_covered_seconds=covered,
        tensor_active_seconds=ofu * covered / 0.9,
        tensor_ref_seconds=ofu * covered,
        tensor_ref_variance=(0.002 * covered) ** 2,
        sm_active_seconds=covered - idle,
        sm_active_covered_seconds=covered,
        idle_seconds=idle,
        idle_covered_seconds=covered,
        non_tensor_seconds=other,
        non_tensor_covered_seconds=covered,
        gpu_models=(model,),
    )
    return kept(sums, partition)


def month(count: int = 300, *, seed: int = 5, **changes: Any) -> list[UsageRow]:
    """So many runs in twenty days, the oldest first."""
    chance = random.Random(seed)
    starts = sorted(MORNING + chance.uniform(0, 19 * DAY) for _ in range(count))
    rows = []
    for number, start in enumerate(starts):
        partition = chance.choice(("gpu", "gpu", "long"))
        sums = sums_like(chance, partition)
        end = start + (sums.allocated_seconds or 0.0) / sums.gpu_count
        facts = accounted(
            user=chance.choice(_USERS),
            account=chance.choice(("physics", "nlp", "chemistry")),
            partition=partition,
            job_name=chance.choice(_NAMES),
            state=chance.choice(("COMPLETED", "COMPLETED", "TIMEOUT", "FAILED", "CANCELLED by 1000")),
            start_epoch_s=start,
            end_epoch_s=end,
            elapsed_seconds=end - start,
        )
        rows.append(UsageRow(group=None, sums=sums, run=run(2000 + number, **{**facts, **changes})))
    return rows


def grouped(rows: list[UsageRow], group: StoredGroup) -> list[UsageRow]:
    """The runs pooled as the accounting database does it."""
    members: dict[str | None, list[UsageSums]] = {}
    for row in rows:
        names: tuple[str | None, ...]
        if group == "gpu-model":
            names = row.sums.gpu_models or (None,)
        elif group == "node":
            names = ("n1", "n2")
        else:
            names = (getattr(row.run, group),)
        for name in names:
            members.setdefault(name, []).append(row.sums)
    ordered = sorted(members, key=lambda name: (name is not None, name or ""))
    return [UsageRow(group=name, sums=pool(members[name])) for name in ordered]


def site_facts(rows: list[UsageRow], **changes: Any) -> SiteFacts:
    """The facts of a site about these runs, users not shown unless told otherwise."""
    start, end = MORNING, MORNING + 20 * DAY
    course = course_of(start, end, CET)
    assert course is not None
    days = [
        UsageRow(
            group=None,
            sums=pool(row.sums for row in rows if row.run and begin <= (row.run.start_epoch_s or 0) < until),
        )
        for begin, until in zip(course.edges, course.edges[1:], strict=False)
    ]
    values: dict[str, Any] = {
        "title": "GPU use on alpha",
        "start": datetime.fromtimestamp(start, CET),
        "end": datetime.fromtimestamp(end, CET),
        "generated_at": NOW.astimezone(CET),
        "zone": CET,
        "selection": Selection(start_epoch_s=start, end_epoch_s=end),
        "show_users": False,
        "goals": GOALS,
        "jobs": rows,
        "worst": [row for row in rows if row.sums.lost_seconds is not None],
        "worst_count": 20,
        "job_pages": 5,
        "left_out": {"non_tensor": 12, "unmeasured": 3},
        "groups": {group: grouped(rows, group) for group in GROUP_PAGES},
        "course": (course, days),
    }
    return SiteFacts(**{**values, **changes})


def page_like(row: UsageRow) -> JobPage:
    """A page for a run: two nodes with four GPUs each, one of which lags."""
    course = timeline(*(0.0, 0.1, 0.2, 0.4, 0.5, None, None, 0.4, 0.45, 0.47, 0.44, 0.1) * 5)
    gpus = [
        GpuRow(
            node_name=name,
            totals=gpu(position, timeline=course, clock=0.5 if position == 3 else 0.8, **BY_MINUTES),
        )
        for name in ("n1", "n2")
        for position in range(4)
    ]
    return JobPage(row=row, nodes=(node("n1"), node("n2")), gpus=tuple(gpus))


PACKAGE = Path(slurm_ofu.__file__).parent


def templates() -> dict[str, str]:
    """The templates that are shipped."""
    return {path.name: path.read_text() for path in (PACKAGE / "templates/pages").glob("*.jinja")}


def assets() -> dict[str, bytes]:
    """What the pages bring along."""
    return {path.name: path.read_bytes() for path in (PACKAGE / "assets/pages").iterdir()}


def no_findings(page: JobPage) -> tuple[Finding, ...]:
    """Nothing to say."""
    return ()


def rendered(rows: list[UsageRow], **changes: Any) -> dict[str, str]:
    """All pages by their paths."""
    site = Site(site_facts(rows, **changes), templates(), assets(), findings_of=no_findings)
    runs = {row.run.run_id: row for row in rows if row.run is not None}
    pages = dict(site.pages(lambda run_id: page_like(runs[run_id])))
    assert set(site.paths) == set(pages)
    return pages


class Elements(HTMLParser):
    """What is in a page: its elements with their attributes, its text, and the text of each script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self._within = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._within = tag

    def handle_endtag(self, tag: str) -> None:
        self._within = ""

    def handle_data(self, data: str) -> None:
        (self.scripts if self._within == "script" else self.texts).append(data)

    @property
    def text(self) -> str:
        """All that is to be read."""
        return " ".join(" ".join(self.texts).split())

    def links(self) -> list[str]:
        """Every address that it names."""
        wanted = ("href", "src")
        return [its[name] or "" for _, its in self.elements for name in wanted if name in its]
