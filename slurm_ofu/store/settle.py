"""What follows from records and rows once they are written: the runs of one job id brought in order."""

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from slurm_ofu.store.accounting import rows_of_job, set_links
from slurm_ofu.store.assumed import StoredNode, silent_nodes, unheard_nodes
from slurm_ofu.store.backfilled import backfilled_nodes, bring_home
from slurm_ofu.store.bands import keep_bands
from slurm_ofu.store.completing import (
    COLUMN_NAMES,
    RunColumns,
    ToldFacts,
    as_row,
    completed_columns,
    running_columns,
    told_columns,
)
from slurm_ofu.store.facts import FACT_NAMES, Facts
from slurm_ofu.store.linking import Pairs, ToldRun, link
from slurm_ofu.store.lives import Life, NodeShare, StoredRow, lives_of, node_shares
from slurm_ofu.store.nodes import settle_nodes, stored_nodes
from slurm_ofu.store.runs import NEXT_INCARNATION, NodeNames

JobKey = tuple[str, int]  # cluster, job id

_DELETE_RUN: Final = "DELETE FROM run WHERE run_id = ?"
_RUNS: Final = f"""
SELECT r.run_id, r.restart_count, r.restart_certain, r.incarnation,
    EXISTS (SELECT 1 FROM run_node AS n WHERE n.run_id = r.run_id AND n.interim = 1),
    {", ".join(f"r.{name}" for name in COLUMN_NAMES)},
    t.start_epoch_s, t.end_epoch_s, {", ".join(f"t.{name}" for name in FACT_NAMES)}
FROM run AS r LEFT JOIN run_told AS t ON t.run_id = r.run_id WHERE r.cluster = ? AND r.job_id = ?
ORDER BY r.run_id
"""
_CREATE_SILENT: Final = """
INSERT INTO run (cluster, job_id, restart_count, incarnation, restart_certain, end_epoch_s, heard,
    first_heard_epoch_s, updated_epoch_s)
VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?)
"""
_SET_COLUMNS: Final = f"""
UPDATE run SET {", ".join(f"{name} = ?" for name in COLUMN_NAMES)}, updated_epoch_s = ? WHERE run_id = ?
"""
_SET_INCARNATION: Final = "UPDATE run SET incarnation = ? WHERE run_id = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One run as it is stored. ``told`` is None where Slurm's accounting alone knows it. ``interim``: the
    final word of one of its nodes has not come."""

    run_id: int
    restart_count: int
    restart_certain: bool
    incarnation: int
    interim: bool
    columns: RunColumns
    told: ToldFacts | None


def settle(
    opened: sqlite3.Connection,
    jobs: Mapping[JobKey, Collection[int]],
    node_names: NodeNames,
    now_epoch_s: float,
) -> None:
    """Bring these job ids in order; of each, the runs that a record has changed."""
    changed: set[int] = set()
    for job, touched in sorted(jobs.items()):
        changed |= _settle_job(opened, job, touched, node_names, now_epoch_s)
    keep_bands(opened, changed)


def _settle_job(
    opened: sqlite3.Connection, job: JobKey, touched: Collection[int], node_names: NodeNames, now: float
) -> set[int]:
    """The runs that something has changed of."""
    runs, rows = _runs_of_job(opened, job), rows_of_job(opened, *job)
    nodes = {run_id: stored_nodes(opened, run_id) for run_id in sorted(touched)}
    gone = {run.run_id for run in runs if run.told is not None and not _heard(nodes.get(run.run_id))}
    runs = [run for run in runs if run.run_id not in gone]
    lives = lives_of(rows)
    pairs = link(lives, [_told_run(run, run.told) for run in runs if run.told is not None])
    shares = {life.first.submit_epoch_s: node_shares(life, node_names) for life in lives if life.final}
    moved: set[int] = set()
    if rows:
        runs, dissolved = _settle_silent(opened, job, lives, runs, pairs, shares, now)
        gone |= dissolved
        moved = bring_home(opened, backfilled_nodes(opened, job), lives, pairs)
    opened.executemany(_DELETE_RUN, [(run_id,) for run_id in sorted(gone)])
    touched = {*touched, *moved}
    if rows:
        _settle_links(opened, rows, pairs, gone)
    settled = []
    updated: set[int] = set()
    for run in runs:
        life = pairs.get(run.run_id)
        final = life if life is not None and life.final else None
        columns = _columns(run, life)
        settled.append((run, columns))
        changed = columns != run.columns or run.run_id in touched
        if rows or run.run_id in touched:
            read = run.run_id in nodes and run.run_id not in moved
            its = nodes[run.run_id] if read else stored_nodes(opened, run.run_id)
            changed |= _settle_nodes(opened, run, its, final, shares, node_names)
        if changed:
            opened.execute(_SET_COLUMNS, (*as_row(columns), now, run.run_id))
            updated.add(run.run_id)
    _number(opened, settled)
    return updated


def _heard(nodes: Mapping[str, StoredNode] | None) -> bool:
    """Whether any of a run's nodes spoke itself; a run that nothing was done to (``None``) has such."""
    return nodes is None or any(not (node.gpu_count_assumed or node.backfilled) for node in nodes.values())


def _runs_of_job(opened: sqlite3.Connection, job: JobKey) -> list[_Run]:
    runs = []
    for run_id, restart_count, certain, incarnation, interim, *values in opened.execute(
        _RUNS, job
    ).fetchall():
        columns, (start, end, *facts) = values[: len(COLUMN_NAMES)], values[len(COLUMN_NAMES) :]
        told = None if end is None else ToldFacts(start_epoch_s=start, end_epoch_s=end, facts=Facts(*facts))
        runs.append(
            _Run(
                run_id=run_id,
                restart_count=restart_count,
                restart_certain=bool(certain),
                incarnation=incarnation,
                interim=bool(interim),
                columns=RunColumns(**dict(zip(COLUMN_NAMES, columns, strict=True))),
                told=told,
            )
        )
    return runs


def _told_run(run: _Run, told: ToldFacts) -> ToldRun:
    return ToldRun(
        run_id=run.run_id,
        restart_count=run.restart_count,
        restart_certain=run.restart_certain,
        sluid=told.facts.sluid,
        uid=told.facts.uid,
        user=told.facts.user_name,
        start_epoch_s=told.start_epoch_s,
        end_epoch_s=told.end_epoch_s,
    )


def _settle_silent(
    opened: sqlite3.Connection,
    job: JobKey,
    lives: Sequence[Life],
    runs: Sequence[_Run],
    pairs: Pairs,
    shares: Mapping[int, Mapping[str, NodeShare]],
    now: float,
) -> tuple[list[_Run], set[int]]:
    """A run for each life that is over, had GPUs, and that no node spoke of; added to ``pairs``.

    All runs there are then, and the numbers of those that are to go.
    """
    linked = {id(life) for life in pairs.values()}
    unheard = [
        life
        for life in lives
        if life.final and life.gpu_count and id(life) not in linked and shares[life.first.submit_epoch_s]
    ]
    silent = {run.run_id: run for run in runs if run.told is None}
    kept = [run for run in runs if run.told is not None]
    new = []
    for life in unheard:
        run = silent.get(life.segments[0].run_id or 0)
        if run is not None and (run.restart_count, run.restart_certain) == _restart(life):
            kept.append(silent.pop(run.run_id))
            pairs[run.run_id] = life
        else:
            new.append(life)
    for life in new:
        run = _create_silent(opened, job, life, now)
        kept.append(run)
        pairs[run.run_id] = life
    return kept, set(silent)


def _settle_links(
    opened: sqlite3.Connection, rows: Sequence[StoredRow], pairs: Pairs, gone: Collection[int]
) -> None:
    """Note of each row which run it belongs to. The number of a run that is gone may be another's now."""
    linked = {id(one): run_id for run_id, life in pairs.items() for one in life.segments}
    before = {id(one): None if one.run_id in gone else one.run_id for one in rows}
    set_links(
        opened,
        [(one.row, linked.get(id(one))) for one in rows if before[id(one)] != linked.get(id(one))],
    )


def _restart(life: Life) -> tuple[int, bool]:
    """The restart count of a life, and whether Slurm says it."""
    count = life.first.restart_count
    return (life.number, False) if count is None else (count, True)


def _create_silent(opened: sqlite3.Connection, job: JobKey, life: Life, now: float) -> _Run:
    assert life.end_epoch_s is not None
    restart_count, certain = _restart(life)
    incarnation = opened.execute(NEXT_INCARNATION, (*job, restart_count)).fetchone()[0]
    end = float(life.end_epoch_s)
    row = (*job, restart_count, incarnation, int(certain), end, now, now)
    run_id = opened.execute(_CREATE_SILENT, row).lastrowid
    assert run_id is not None
    return _Run(
        run_id=run_id,
        restart_count=restart_count,
        restart_certain=certain,
        incarnation=incarnation,
        interim=False,
        columns=RunColumns(end_epoch_s=end),
        told=None,
    )


def _columns(run: _Run, life: Life | None) -> RunColumns:
    if life is not None and life.final:
        return completed_columns(run.told, life)
    assert run.told is not None
    return running_columns(run.told, life) if run.interim else told_columns(run.told)


def _settle_nodes(
    opened: sqlite3.Connection,
    run: _Run,
    stored: Mapping[str, StoredNode],
    life: Life | None,
    shares: Mapping[int, Mapping[str, NodeShare]],
    node_names: NodeNames,
) -> bool:
    its = {} if life is None else shares[life.first.submit_epoch_s]
    if run.told is None:
        silent = unheard_nodes(stored, its)
    else:
        text = run.told.facts.node_list
        listed = None if text is None else node_names(text)
        silent = silent_nodes(stored, listed, its, None if life is None else life.gpu_count)
    return settle_nodes(opened, run.run_id, stored, silent, its)


def _number(opened: sqlite3.Connection, runs: Sequence[tuple[_Run, RunColumns]]) -> None:
    """Number the incarnations of each restart count by their start, whichever was heard of first."""

    def order(one: tuple[_Run, RunColumns]) -> tuple[float, bool, str, int, bool, int]:
        run, its = one
        begin = its.end_epoch_s if its.start_epoch_s is None else its.start_epoch_s
        uid = -1 if its.uid is None else its.uid
        return begin, not run.restart_certain, its.sluid or "", uid, run.told is None, run.run_id

    by_count: dict[int, list[_Run]] = {}
    for run, _ in sorted(runs, key=order):
        by_count.setdefault(run.restart_count, []).append(run)
    for its in by_count.values():
        if [run.incarnation for run in its] == list(range(len(its))):
            continue
        above = max(run.incarnation for run in its) + 1
        for first in (above, 0):  # in two steps, since the key is unique at every moment
            opened.executemany(_SET_INCARNATION, [(first + at, run.run_id) for at, run in enumerate(its)])
