"""One run on one page: how much, made of what, measured how well, on which GPUs, and when."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import tzinfo

from slurm_ofu.figures import figures, gpu_figures, pool_gpus
from slurm_ofu.reports.facts import as_facts, text_width
from slurm_ofu.reports.free_text import wrapped
from slurm_ofu.reports.grid import Column, Line, as_grid
from slurm_ofu.reports.notes import as_notes, explanations, style
from slurm_ofu.reports.page_anomalies import anomalies
from slurm_ofu.reports.page_claim import CLAIM_NOTE, claim_facts
from slurm_ofu.reports.page_facts import measured_facts
from slurm_ofu.reports.page_minutes import held_facts, minute_facts
from slurm_ofu.reports.page_run import run_facts
from slurm_ofu.reports.page_sources import source_facts
from slurm_ofu.reports.page_timeline import timeline_facts
from slurm_ofu.reports.run_words import display_job_id, sums_of
from slurm_ofu.reports.wording import NOT_MEASURED, count, hours, name, ofu, percent
from slurm_ofu.values import Figures, GpuRow, JobPage, NodeRow

_NODE_COLUMNS = (
    Column(title="Node", shrinks=True),
    Column(title="GPUs", right=True),
    Column(title="GPU-h", right=True),
    Column(title="Tensor", right=True),
    Column(title="Clock", right=True),
    Column(title="Coverage", right=True),
    Column(title="OFU"),
)
_GPU_COLUMNS = (
    Column(title="Node"),
    Column(title="GPU", right=True),
    Column(title="Model", shrinks=True),
    Column(title="SM", right=True, give_way=1),
    Column(title="Tensor", right=True),
    Column(title="Clock", right=True),
    Column(title="Coverage", right=True),
    Column(title="OFU"),
)

#: Of a run that a node spoke of and whose nodes are not there: it was read from Slurm's accounting.
NOT_KEPT = (
    "from Slurm's accounting, which keeps the figures of the whole job: those of its nodes and GPUs, and"
    " their course in time, are in the accounting database alone"
)


def as_page(
    page: JobPage,
    zone: tzinfo,
    *,
    width: int,
    colour: bool,
    doubt: str | None = None,
    more_notes: Sequence[str] = (),
) -> str:
    """The page as text. It names the run by its job id, its cluster and its restart count.

    ``doubt``: why what looks like a claim in the job's comment is none.
    """
    its = figures(sums_of(page.row))
    timeline = timeline_facts(page.gpus, zone, columns=min(64, text_width(width)))
    facts = [*measured_facts(its), *source_facts(page.gpus), *minute_facts(page, its)]
    facts += [*held_facts(its), *timeline]
    claim = None
    if page.row.run is not None:
        claim = page.row.run.claim
        about = [*run_facts(page.row.run, its, page.gpus, zone), *claim_facts(claim, its, doubt=doubt)]
        facts = [*about, ("", ""), *facts]
    text = "".join(line + "\n" for line in [*wrapped(_title(page), width), *as_facts(facts, width=width)])
    nodes = [_node_figures(node, page.gpus) for node in page.nodes]
    gpus = [gpu_figures(gpu.totals) for gpu in page.gpus]
    if nodes:
        lines = [_node_line(node, node_figures) for node, node_figures in zip(page.nodes, nodes, strict=True)]
        text += "\n" + as_grid(_NODE_COLUMNS, lines, width=width, colour=colour)
    if gpus:
        text += "\n" + _gpu_grid(page.gpus, gpus, width=width, colour=colour)
    notes = explanations([its, *nodes, *gpus], total=its, but=its.reason)
    claimed = [] if claim is None else [CLAIM_NOTE]
    whole = [] if nodes or _is_silent(page) else [NOT_KEPT]
    return text + as_notes([*notes, *more_notes, *claimed, *whole, *anomalies(page)], width=width)


def _is_silent(page: JobPage) -> bool:
    return page.row.run is None or not page.row.run.heard


def _title(page: JobPage) -> str:
    run = page.row.run
    if run is None:
        return f"Job {name(page.row.group)}"
    restarts = f", restart {run.restart_count}" if run.restart_count > 0 else ""
    return f"Job {display_job_id(run)} on cluster {name(run.cluster)}{restarts}"


def _node_figures(node: NodeRow, gpus: Sequence[GpuRow]) -> Figures:
    """The node's GPUs together; a node without GPU rows still has its hours, and its reason."""
    sums = pool_gpus(gpu.totals for gpu in gpus if gpu.node_name == node.node_name)
    if sums.allocated_seconds is None and node.gpu_count is not None and node.allocated_seconds is not None:
        seconds = node.gpu_count * node.allocated_seconds
        sums = replace(sums, allocated_seconds=seconds, gpu_count_unknown_time=0.0)
    return figures(replace(sums, reasons=(*sums.reasons, node.reason)))


def _node_line(node: NodeRow, its: Figures) -> Line:
    assumed = " assumed" if node.gpu_count_assumed else ""
    cells = (name(node.node_name), count(node.gpu_count) + assumed, hours(its.gpu_hours))
    return Line(cells=(*cells, *_ratios(its)), style=style(its))


def _gpu_grid(gpus: Sequence[GpuRow], shown: Sequence[Figures], *, width: int, colour: bool) -> str:
    """A line per GPU, with its model where the page has several."""
    several = len({gpu.totals.gpu_model for gpu in gpus if gpu.totals.gpu_model is not None}) > 1
    columns = [column for column in _GPU_COLUMNS if several or column.title != "Model"]
    lines = [_gpu_line(gpu, its, with_model=several) for gpu, its in zip(gpus, shown, strict=True)]
    return as_grid(columns, lines, width=width, colour=colour)


def _gpu_line(gpu: GpuRow, its: Figures, *, with_model: bool) -> Line:
    model = (name(gpu.totals.gpu_model).removeprefix("NVIDIA "),) if with_model else ()
    sm_active = percent(its.sm_active_ratio, absent=NOT_MEASURED)
    cells = (name(gpu.node_name), str(gpu.totals.position), *model, sm_active)
    return Line(cells=(*cells, *_ratios(its)), style=style(its))


def _ratios(its: Figures) -> tuple[str, ...]:
    return (
        percent(its.tpa_mean_ratio, absent=NOT_MEASURED),
        percent(its.active_clock_ratio, absent=NOT_MEASURED),
        percent(its.coverage_ratio),
        ofu(its),
    )
