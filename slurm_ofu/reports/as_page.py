"""One run on one page: how much, made of what, why, measured how well, on which GPUs, and when."""

from collections.abc import Sequence
from datetime import tzinfo

from slurm_ofu.figures import figures
from slurm_ofu.reports.facts import as_facts, text_width
from slurm_ofu.reports.free_text import wrapped
from slurm_ofu.reports.notes import as_notes, explanations
from slurm_ofu.reports.page_anomalies import anomalies
from slurm_ofu.reports.page_claim import CLAIM_NOTE, claim_facts
from slurm_ofu.reports.page_facts import detail_facts, headline_facts
from slurm_ofu.reports.page_findings import as_findings
from slurm_ofu.reports.page_gpus import as_grids, part_figures
from slurm_ofu.reports.page_run import run_facts
from slurm_ofu.reports.page_timeline import timeline_facts
from slurm_ofu.reports.run_words import display_job_id, sums_of
from slurm_ofu.reports.wording import name
from slurm_ofu.values import Finding, Goals, JobPage

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
    findings: Sequence[Finding] = (),
    goals: Goals | None = None,
    doubt: str | None = None,
    more_notes: Sequence[str] = (),
) -> str:
    """The page as text. It names the run by its job id, its cluster and its restart count.

    ``findings``: what there is to say of it; ``goals``: what it is held against. ``doubt``: why what looks
    like a claim in the job's comment is none.
    """
    its, parts, run = figures(sums_of(page.row)), part_figures(page), page.row.run
    over = None if run is None else run.end_epoch_s
    timeline = timeline_facts(page.gpus, zone, columns=min(64, text_width(width)), until_epoch_s=over)
    headline = [*headline_facts(page, its, goals), *timeline]
    if run is not None:
        about = [*run_facts(run, its, page.gpus, zone), *claim_facts(run.claim, its, doubt=doubt)]
        headline = [*about, ("", ""), *headline]
    said = as_findings(findings, page, zone, width=width)
    lines = [*wrapped(_title(page), width), *as_facts(headline, width=width), *said]
    lines += [*([""] if said else []), *as_facts(detail_facts(page, its), width=width)]
    text = "".join(line + "\n" for line in lines)
    text += as_grids(page, parts, findings, width=width, colour=colour)
    notes = explanations([its, *parts.nodes, *parts.gpus], total=its, but=its.reason)
    claimed = [] if run is None or run.claim is None else [CLAIM_NOTE]
    whole = [] if page.nodes or _is_silent(page) else [NOT_KEPT]
    return text + as_notes([*notes, *more_notes, *claimed, *whole, *anomalies(page)], width=width)


def _is_silent(page: JobPage) -> bool:
    return page.row.run is None or not page.row.run.heard


def _title(page: JobPage) -> str:
    run = page.row.run
    if run is None:
        return f"Job {name(page.row.group)}"
    restarts = f", restart {run.restart_count}" if run.restart_count > 0 else ""
    return f"Job {display_job_id(run)} on cluster {name(run.cluster)}{restarts}"
