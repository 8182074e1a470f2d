"""One job's page among the static pages: its facts, its course, its nodes and its GPUs."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import Final

from slurm_ofu.figures import figures, gpu_figures, pooled_timeline
from slurm_ofu.reports.as_page import NOT_KEPT
from slurm_ofu.reports.facts import Fact
from slurm_ofu.reports.html_figures import (
    COVERAGE,
    GPU_HOURS,
    IDLE,
    OFU,
    coverage_cell,
    hours_cell,
    idle_cell,
    ofu_cell,
    ratio_cell,
    text_cell,
    whole,
)
from slurm_ofu.reports.html_table import Cell, HtmlColumn, HtmlTable
from slurm_ofu.reports.page_anomalies import anomalies
from slurm_ofu.reports.page_claim import CLAIM_NOTE, claim_facts
from slurm_ofu.reports.page_facts import detail_facts, headline_facts
from slurm_ofu.reports.page_findings import Told, told
from slurm_ofu.reports.page_run import run_facts
from slurm_ofu.reports.page_timeline import believed_timelines
from slurm_ofu.reports.run_words import sums_of
from slurm_ofu.reports.wording import duration
from slurm_ofu.values import Figures, Finding, Goals, GpuRow, JobPage

_BUCKETS: Final = 128
_DAY: Final = 86400.0
_SHORT: Final = 3600.0

Paragraph = tuple[str, list[str]]  # a label, and what is said under it


def about_facts(page: JobPage, its: Figures, zone: tzinfo, *, show_users: bool) -> list[Paragraph]:
    """Which job it is. Where users are not shown, neither its name nor its comment is known here."""
    run = page.row.run
    if run is None:
        return []
    facts = run_facts(run, its, page.gpus, zone)
    facts = [fact for fact in facts if show_users or fact[0] not in ("Name", "Comment")]
    return _paragraphs([*facts, *claim_facts(run.claim, its, doubt=None)])


def headline(page: JobPage, its: Figures, goals: Goals | None = None) -> list[Paragraph]:
    """The figure, what it is held against, and how far it can be trusted."""
    return _paragraphs(headline_facts(page, its, goals))


def details(page: JobPage, its: Figures) -> list[Paragraph]:
    """How it was found, and what else the GPUs did."""
    return _paragraphs(detail_facts(page, its))


def said(found: Sequence[Finding], page: JobPage, zone: tzinfo) -> list[Told]:
    """Findings in words: what is, and what to try."""
    words = (told(finding, page, zone) for finding in found)
    return [(text[:1].upper() + text[1:], advice) for text, advice in words]


def job_notes(page: JobPage) -> list[str]:
    """What is out of the ordinary, and what has to be said about a claim."""
    run = page.row.run
    claimed = [] if run is None or run.claim is None else [CLAIM_NOTE]
    whole = [] if page.nodes or run is None or not run.heard else [NOT_KEPT]
    return [*claimed, *whole, *anomalies(page)]


def page_figures(page: JobPage) -> Figures:
    """The figures of the whole run."""
    return figures(sums_of(page.row))


def course_table(page: JobPage, zone: tzinfo) -> HtmlTable | None:
    """OFU over the run's life; ``None`` where no GPU kept it."""
    over = None if page.row.run is None else page.row.run.end_epoch_s
    line = pooled_timeline(believed_timelines(page.gpus), bucket_count=_BUCKETS, until_epoch_s=over)
    if line is None or all(ratio is None for ratio in line.ofu_ratios):
        return None
    length = line.end_epoch_s - line.start_epoch_s
    shown = "%H:%M:%S" if length < _SHORT else "%H:%M" if length < _DAY else "%m-%d %H:%M"
    rows = []
    for number, ratio in enumerate(line.ofu_ratios):
        begin = line.start_epoch_s + number * line.bucket_seconds
        text = f"{datetime.fromtimestamp(begin // 1, zone):{shown}}"
        rows.append([Cell(text=text, order=begin), ratio_cell(ratio)])
    return HtmlTable(
        key="course",
        caption=f"OFU over the job's life, all GPUs, {duration(line.bucket_seconds)} each",
        columns=(HtmlColumn(title="From", numeric=False), HtmlColumn(title="OFU")),
        rows=rows,
        row_count=len(rows),
        sorted_by="From",
    )


def nodes_table(page: JobPage, nodes: Sequence[Figures], found: Sequence[Finding] = ()) -> HtmlTable | None:
    """A line per node, where there are several."""
    if len(page.nodes) < 2:
        return None
    rows = []
    for node, its in zip(page.nodes, nodes, strict=True):
        gpu_count = whole(node.gpu_count)
        assumed = (
            replace(gpu_count, text=gpu_count.text + " assumed") if node.gpu_count_assumed else gpu_count
        )
        rows.append(
            [text_cell(node.node_name), assumed, hours_cell(its.gpu_hours), ofu_cell(its), coverage_cell(its)]
        )
    about, numbers = _about([{node.node_name} for node in page.nodes], found)
    rows = [[*row, *cells] for row, cells in zip(rows, numbers, strict=True)]
    return HtmlTable(
        key="nodes",
        caption="By node",
        columns=(
            HtmlColumn(title="Node", numeric=False),
            HtmlColumn(title="GPUs"),
            GPU_HOURS,
            OFU,
            COVERAGE,
            *about,
        ),
        rows=rows,
        row_count=len(rows),
        sorted_by="Node",
    )


def gpus_table(page: JobPage, found: Sequence[Finding] = ()) -> HtmlTable | None:
    """A line per GPU; ``None`` where single GPUs are not known."""
    if not page.gpus:
        return None
    places = [{gpu.node_name, f"{gpu.node_name}:{gpu.totals.position}"} for gpu in page.gpus]
    about, numbers = _about(places, found)
    return HtmlTable(
        key="gpus",
        caption="By GPU",
        columns=(
            HtmlColumn(title="GPU", numeric=False, meaning="node and position in its Slurm device list"),
            HtmlColumn(title="GPU model", numeric=False),
            HtmlColumn(title="SM active", meaning="share of time with any work, mean of the SMs"),
            HtmlColumn(title="Tensor", meaning="tensor pipe activity: what is lost by not computing"),
            HtmlColumn(title="Clock", meaning="SM clock while computing, of the reference clock"),
            OFU,
            COVERAGE,
            IDLE,
            *about,
        ),
        rows=[[*_gpu_cells(gpu), *cells] for gpu, cells in zip(page.gpus, numbers, strict=True)],
        row_count=len(page.gpus),
        sorted_by="GPU",
    )


def _about(
    places: Sequence[set[str]], found: Sequence[Finding]
) -> tuple[tuple[HtmlColumn, ...], list[list[Cell]]]:
    """Which findings are about a line in particular, by their numbers; no column where none is about any."""
    numbers = [
        [number for number, finding in enumerate(found, start=1) if not its.isdisjoint(finding.where)]
        for its in places
    ]
    if not any(numbers):
        return (), [[] for _ in places]
    column = HtmlColumn(title="Finding", numeric=False, meaning="the number of what is said of it above")
    cells = [[Cell(text=", ".join(map(str, its)), order=float(its[0]) if its else None)] for its in numbers]
    return (column,), cells


def _gpu_cells(gpu: GpuRow) -> list[Cell]:
    its, totals = gpu_figures(gpu.totals), gpu.totals
    model = None if totals.gpu_model is None else totals.gpu_model.removeprefix("NVIDIA ")
    if model is not None and totals.mig_profile is not None:
        model += f", MIG {totals.mig_profile}"
    return [
        text_cell(f"{gpu.node_name}:{totals.position}"),
        text_cell(model),
        ratio_cell(its.sm_active_ratio),
        ratio_cell(its.tpa_mean_ratio),
        ratio_cell(its.active_clock_ratio),
        ofu_cell(its),
        coverage_cell(its),
        idle_cell(its),
    ]


def _paragraphs(facts: Sequence[Fact]) -> list[Paragraph]:
    """An empty label continues the one above."""
    paragraphs: list[Paragraph] = []
    for label, text in facts:
        if label or not paragraphs:
            paragraphs.append((label, [text]))
        else:
            paragraphs[-1][1].append(text)
    return paragraphs
