"""The rows of tables run and run_told as records fill them, inside the writer's transaction."""

import sqlite3
from collections.abc import Callable
from typing import Final

from slurm_ofu.store.facts import FACT_NAMES, Facts, as_row, joined
from slurm_ofu.store.identity import StoredRun, Told, epilog_run
from slurm_ofu.store.rows import Quality, quality_of

NodeNames = Callable[[str], tuple[str, ...]]

# Runs that no node told of have no row in run_told.
_RUNS_OF_JOB: Final = """
SELECT r.run_id, r.restart_count, r.restart_certain, r.incarnation, t.sluid, t.uid,
    t.start_epoch_s, t.end_epoch_s,
    EXISTS (SELECT 1 FROM run_node AS n WHERE n.run_id = r.run_id AND n.interim = 1)
FROM run AS r JOIN run_told AS t ON t.run_id = r.run_id WHERE r.cluster = ? AND r.job_id = ?
"""
NEXT_INCARNATION: Final = """
SELECT COALESCE(MAX(incarnation) + 1, 0) FROM run WHERE cluster = ? AND job_id = ? AND restart_count = ?
"""
_CREATE: Final = """
INSERT INTO run (cluster, job_id, restart_count, incarnation, restart_certain, end_epoch_s,
    first_heard_epoch_s, updated_epoch_s)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_CREATE_TOLD: Final = f"""
INSERT INTO run_told (run_id, end_epoch_s, {", ".join(FACT_NAMES)})
VALUES (?, ?, {", ".join("?" * len(FACT_NAMES))})
"""
_FACTS: Final = f"SELECT {', '.join(FACT_NAMES)} FROM run_told WHERE run_id = ?"
_SET_FACTS: Final = f"UPDATE run_told SET {', '.join(f'{name} = ?' for name in FACT_NAMES)} WHERE run_id = ?"
# The span of a run is that of the nodes whose word its identity rests on.
_NODES_HEARD: Final = """
FROM run AS r JOIN run_node AS n ON n.run_id = r.run_id WHERE r.run_id = run_told.run_id
    AND n.gpu_count_assumed = 0 AND n.backfilled = 0 AND (n.epilog_restart_count IS NULL) = r.restart_certain
"""
_SET_SPAN: Final = f"""
UPDATE run_told SET
    start_epoch_s = (SELECT MIN(n.start_epoch_s) {_NODES_HEARD}),
    end_epoch_s = COALESCE((SELECT MAX(n.end_epoch_s) {_NODES_HEARD}), end_epoch_s)
WHERE run_id = ?
"""
_EPILOG_NODES: Final = """
SELECT n.run_id, n.node_name, n.epilog_restart_count, n.epilog_sluid, t.uid, n.end_epoch_s
FROM run AS r JOIN run_told AS t ON t.run_id = r.run_id JOIN run_node AS n ON n.run_id = r.run_id
WHERE r.cluster = ? AND r.job_id = ? AND n.epilog_restart_count IS NOT NULL
"""
_NODE: Final = """
SELECT gpu_count_assumed, backfilled, interim, epilog_restart_count, reason, end_epoch_s, fingerprint
FROM run_node WHERE run_id = ? AND node_name = ?
"""
_NODE_COVERED: Final = "SELECT covered_seconds FROM run_gpu WHERE run_id = ? AND node_name = ?"
DELETE_NODE: Final = "DELETE FROM run_node WHERE run_id = ? AND node_name = ?"
MOVE_NODE: Final = "UPDATE run_node SET run_id = ? WHERE run_id = ? AND node_name = ?"


def runs_of_job(opened: sqlite3.Connection, cluster: str, job_id: int) -> list[StoredRun]:
    """Every run, of every life of a job id, that a node told of."""
    return [
        StoredRun(
            run_id=run_id,
            restart_count=restart_count,
            restart_certain=bool(certain),
            incarnation=incarnation,
            sluid=sluid,
            uid=uid,
            start_epoch_s=start,
            end_epoch_s=end,
            goes_on=bool(goes_on),
        )
        for run_id, restart_count, certain, incarnation, sluid, uid, start, end, goes_on in opened.execute(
            _RUNS_OF_JOB, (cluster, job_id)
        ).fetchall()
    ]


def create_run(
    opened: sqlite3.Connection,
    *,
    cluster: str,
    job_id: int,
    told: Told,
    certain: bool,
    facts: Facts,
    now_epoch_s: float,
) -> int:
    """A new run, and its run_id. What table run says of the job follows when it is settled."""
    key = (cluster, job_id, told.restart_count)
    incarnation = opened.execute(NEXT_INCARNATION, key).fetchone()[0]
    row = (*key, incarnation, int(certain), told.end_epoch_s, now_epoch_s, now_epoch_s)
    run_id = opened.execute(_CREATE, row).lastrowid
    assert run_id is not None
    opened.execute(_CREATE_TOLD, (run_id, told.end_epoch_s, *as_row(facts)))
    return run_id


def join_facts(opened: sqlite3.Connection, run_id: int, facts: Facts, node_names: NodeNames) -> None:
    """Add what one more record tells of the job."""
    stored = Facts(*opened.execute(_FACTS, (run_id,)).fetchone())
    both = joined(stored, facts, node_names)
    if both != stored:
        opened.execute(_SET_FACTS, (*as_row(both), run_id))


def set_span(opened: sqlite3.Connection, run_id: int) -> None:
    """Take start and end of a run from its nodes."""
    opened.execute(_SET_SPAN, (run_id,))


def stored_quality(opened: sqlite3.Connection, run_id: int, node_name: str) -> tuple[bool, Quality | None]:
    """Whether there is a row of this node, and the quality of what is stored of it; ``None``: not heard."""
    row = opened.execute(_NODE, (run_id, node_name)).fetchone()
    if row is None or row[0]:
        return row is not None, None
    _, backfilled, interim, epilog_restart_count, reason, end, fingerprint = row
    return True, quality_of(
        backfilled=bool(backfilled),
        interim=bool(interim),
        certain=epilog_restart_count is None,
        reason=reason,
        covered_seconds=[covered for (covered,) in opened.execute(_NODE_COVERED, (run_id, node_name))],
        end_epoch_s=end,
        fingerprint=fingerprint,
    )


def rehome(opened: sqlite3.Connection, cluster: str, job_id: int) -> set[int]:
    """Move nodes of which only an epilog spoke to the certain run they belong to; the runs touched."""
    touched: set[int] = set()
    nodes = opened.execute(_EPILOG_NODES, (cluster, job_id)).fetchall()
    runs = runs_of_job(opened, cluster, job_id) if nodes else []
    for run_id, node_name, restart_count, sluid, uid, end in nodes:
        told = Told(restart_count=restart_count, sluid=sluid, uid=uid, start_epoch_s=end, end_epoch_s=end)
        home = epilog_run(told, runs)
        if home is not None and home.run_id != run_id:
            _move(opened, node_name, run_id, home.run_id)
            touched |= {run_id, home.run_id}
    return touched


def _move(opened: sqlite3.Connection, node_name: str, from_id: int, to_id: int) -> None:
    """Move a node with its GPUs, unless its new run knows better of it."""
    _, there = stored_quality(opened, to_id, node_name)
    _, here = stored_quality(opened, from_id, node_name)
    if there is not None and here is not None and there >= here:
        opened.execute(DELETE_NODE, (from_id, node_name))
    else:
        opened.execute(DELETE_NODE, (to_id, node_name))
        opened.execute(MOVE_NODE, (to_id, from_id, node_name))
