"""What `ofu-admin reconcile` says: how much of the fleet has an OFU, and what is amiss, with why."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, tzinfo
from typing import Any

from slurm_ofu.figures.fleet import fleet_coverage, gpu_hours
from slurm_ofu.reports.fields import safe
from slurm_ofu.reports.free_text import wrapped
from slurm_ofu.reports.grid import Column, Line, as_grid
from slurm_ofu.reports.run_words import display_job_id
from slurm_ofu.reports.wording import count, hour_digits, hours, moment_of, name, percent, span
from slurm_ofu.values import CoveredRuns, ReconciledRun, Reconciliation, ReportingNode

SCHEMA_VERSION = 1
ON_ITS_WAY_SECONDS = 1800.0  # a node whose collector did not answer tries again within that time
_UNREAD = "Name it under [accounting] clusters or with -M, unless [node] cluster_name is not Slurm's own name"
_COLUMNS = (
    Column(title="Partition", shrinks=True),
    Column(title="Reason"),
    Column(title="Runs", right=True),
    Column(title="with OFU", right=True),
    Column(title="GPU-h with OFU", right=True),
    Column(title="without", right=True),
    Column(title="Share with", right=True),
)


def as_reconciliation(
    cluster: str,
    its: Reconciliation,
    *,
    start: datetime,
    end: datetime,
    now_epoch_s: float,
    width: int,
    most: int | None,
) -> str:
    """One cluster's reconciliation for people. ``most``: how many runs of a kind are listed; None: all."""
    zone = start.tzinfo
    assert zone is not None
    silence = {node.node_name: node for node in its.nodes}
    parts = [
        f"Cluster {name(cluster)}, runs with any part in {span(start, end)}\n",
        _coverage(its, width),
        _runs(
            "GPU jobs of Slurm's accounting that no node ever spoke of",
            its.silent,
            lambda run: why_never_seen(run, silence, now_epoch_s, zone),
            width,
            most,
        ),
        _runs(
            "Runs that some of their nodes never spoke of",
            its.incomplete,
            lambda run: why_never_seen(run, silence, now_epoch_s, zone),
            width,
            most,
        ),
        _runs(
            "Runs that Slurm's accounting does not know, or not as ended",
            its.unaccounted,
            lambda run: why_unaccounted(run, accounting_known=its.accounting_known),
            width,
            most,
        ),
        _runs("Runs whose end was lost", its.endless, _why_endless, width, most),
        _nodes(its.nodes, zone, width),
    ]
    return "\n".join(part for part in parts if part)


def reconciliation_as_json(
    clusters: Iterable[tuple[str, Reconciliation]],
    *,
    start: datetime,
    end: datetime,
    generated_at: datetime,
) -> str:
    """The same for programs: whole, in base units."""
    now, zone = generated_at.timestamp(), generated_at.tzinfo
    assert zone is not None
    document = {
        "schema_version": SCHEMA_VERSION,
        "generated_at": generated_at.isoformat(timespec="seconds"),
        "start": start.isoformat(timespec="seconds"),
        "end": end.isoformat(timespec="seconds"),
        "clusters": [_cluster(cluster, its, now, zone) for cluster, its in clusters],
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def why_never_seen(
    run: ReconciledRun, nodes: Mapping[str, ReportingNode], now_epoch_s: float, zone: tzinfo
) -> str:
    """Why nothing came from the silent nodes of a run, as far as their other reports tell."""
    silent = [nodes[node] for node in run.silent_nodes if node in nodes]
    never = [node.node_name for node in silent if node.last_heard_epoch_s is None]
    if never:
        return f"{_listed(never)} never reported on any job: look with ofu-node check there"
    if now_epoch_s - run.end_epoch_s < ON_ITS_WAY_SECONDS:
        return "it ended lately: the record may be on its way"
    before = [node for node in silent if (node.last_heard_epoch_s or 0.0) < run.end_epoch_s]
    if before:
        last = max(node.last_heard_epoch_s or 0.0 for node in before)
        return (
            f"{_listed(node.node_name for node in before)} last reported on a job that ended"
            f" {moment_of(last, zone)}, before this one: records may wait there (ofu-node deliver)"
        )
    return (
        f"{_listed(run.silent_nodes)} reported on jobs that ended later: the hooks did not run for this"
        " one, or its record was set aside or lost"
    )


def why_unaccounted(run: ReconciledRun, *, accounting_known: bool) -> str:
    """Why a run has no row that is over in Slurm's accounting, as far as its other rows tell."""
    if run.state is not None:
        return (
            f"in Slurm's accounting as {name(run.state)}, without an end: the job goes on without these"
            " nodes, or is a runaway (sacctmgr show runawayjobs)"
        )
    if not accounting_known:
        return f"no row of its cluster was ever read. {_UNREAD}"
    if run.others_rows:
        return (
            "Slurm's accounting has this job id only for another life, another user, or a time over a day"
            " away (is a node's clock right?)"
        )
    return (
        "no such job in Slurm's accounting: purged there, not handed over by slurmctld yet, or hidden from"
        " this user (PrivateData)"
    )


def _why_endless(run: ReconciledRun) -> str:
    known = "" if run.state is None else f"; Slurm says {name(run.state)}"
    return f"no epilog spoke: the node died, or another script failed first{known}"


def _coverage(its: Reconciliation, width: int) -> str:
    rows = its.coverage
    if not rows:
        return "No runs.\n"
    whole = fleet_coverage(rows)
    digits = hour_digits([whole.gpu_hours_with_ofu, whole.gpu_hours_without], most_digits=3)
    lines = [_coverage_line((name(row.partition), name(row.reason)), [row], digits) for row in rows]
    lines.append(_coverage_line(("TOTAL", ""), rows, digits, total=True))
    notes = [line for note in _coverage_notes(its) for line in wrapped(note, width)]
    return as_grid(_COLUMNS, lines, width=width, colour=False) + "".join(f"{line}\n" for line in notes)


def _coverage_notes(its: Reconciliation) -> Iterator[str]:
    """What the table leaves out."""
    if not its.accounting_known:
        yield (
            "No row of this cluster's accounting was ever read: jobs that no node spoke of are not in here."
            f" {_UNREAD}"
        )
    elif its.run_count_without_slurm_gpus:
        yield (
            f"Of {_counted(its.run_count_without_slurm_gpus, 'run')} Slurm's accounting counts no GPUs"
            " (AccountingStorageTRES lacks gres/gpu, or the job had shares of one): jobs of this kind that no"
            " node spoke of are not in here"
        )
    unknown = fleet_coverage(its.coverage).gpu_count_unknown_time
    if unknown:
        verb = "was" if unknown == 1 else "were"
        yield f"{_counted(unknown, 'GPU')} {verb} held for an unknown time: in no GPU-hours"


def _coverage_line(
    names: tuple[str, str], rows: Sequence[CoveredRuns], digits: int, *, total: bool = False
) -> Line:
    its = fleet_coverage(rows)
    cells = (
        *names,
        str(its.run_count),
        str(its.run_count_with_ofu),
        hours(its.gpu_hours_with_ofu, digits=digits),
        hours(its.gpu_hours_without, digits=digits),
        percent(its.share_ratio),
    )
    return Line(cells=cells, total=total)


def _runs(title: str, runs: Sequence[ReconciledRun], why: Any, width: int, most: int | None) -> str:
    if not runs:
        return ""
    lines = [f"{title}: {len(runs)}"]
    shown = runs if most is None else runs[:most]
    for run in shown:
        restart = f" (restart {run.restart_count})" if run.restart_count else ""
        held = "" if run.allocated_seconds is None else f", {hours(gpu_hours(run.allocated_seconds))} GPU-h"
        who = f"{display_job_id(run)}{restart} {name(run.user)}, {name(run.partition)}{held}"
        lines += [f"  {line}" for line in wrapped(f"{who}: {why(run)}", width - 2)]
    if len(shown) < len(runs):
        lines.append(f"  … and {len(runs) - len(shown)} more (--all)")
    return "".join(f"{line}\n" for line in lines)


def _nodes(nodes: Sequence[ReportingNode], zone: tzinfo, width: int) -> str:
    silent = [node for node in nodes if node.heard_count == 0]
    if not silent:
        return ""
    lines = [f"Nodes that reported on none of their runs in this window: {len(silent)} of {len(nodes)}"]
    for node in silent:
        last = (
            "never reported"
            if node.last_heard_epoch_s is None
            else f"last on a job that ended {moment_of(node.last_heard_epoch_s, zone)}"
        )
        text = f"{name(node.node_name)}: {_counted(node.silent_count, 'run')}, {last}"
        lines += [f"  {line}" for line in wrapped(text, width - 2)]
    return "".join(f"{line}\n" for line in lines)


def _cluster(cluster: str, its: Reconciliation, now_epoch_s: float, zone: tzinfo) -> dict[str, Any]:
    silence = {node.node_name: node for node in its.nodes}

    def runs(found: Sequence[ReconciledRun], why: Any) -> list[dict[str, Any]]:
        return [
            {**_plain(asdict(run)), "display_job_id": display_job_id(run), "why": why(run)} for run in found
        ]

    def never(run: ReconciledRun) -> str:
        return why_never_seen(run, silence, now_epoch_s, zone)

    return {
        "cluster": safe(cluster),
        "coverage": [_plain(asdict(row)) for row in its.coverage],
        "never_seen": runs(its.silent, never),
        "incomplete": runs(its.incomplete, never),
        "unaccounted": runs(
            its.unaccounted, lambda run: why_unaccounted(run, accounting_known=its.accounting_known)
        ),
        "endless": runs(its.endless, _why_endless),
        "nodes": [_plain(asdict(node)) for node in its.nodes],
        "accounting_known": its.accounting_known,
        "run_count_without_slurm_gpus": its.run_count_without_slurm_gpus,
    }


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: safe(value) for key, value in row.items()}


def _counted(number: float, noun: str) -> str:
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def _listed(names: Iterable[str]) -> str:
    """Some names, and how many more."""
    found = [name(text) for text in names]
    more = f" and {len(found) - 3} more nodes" if len(found) > 3 else ""
    return ", ".join(found[:3]) + more
