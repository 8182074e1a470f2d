"""Nodes that did not speak themselves: backfilled out of what others had stored.

Such a node belongs to a life in Slurm's accounting, not to a run that nodes told of: it stays with whichever
run is that life, and gives way to whatever the node itself says, whenever that comes.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from slurm_ofu.store.accounting import rows_of_job
from slurm_ofu.store.linking import Pairs
from slurm_ofu.store.lives import Life, lives_of
from slurm_ofu.store.runs import DELETE_NODE, MOVE_NODE, stored_quality
from slurm_ofu.values import NodeRecord

_NODES: Final = """
SELECT n.run_id, n.node_name, n.start_epoch_s, n.end_epoch_s
FROM run AS r JOIN run_node AS n ON n.run_id = r.run_id
WHERE r.cluster = ? AND r.job_id = ? AND n.backfilled = 1 ORDER BY n.run_id, n.node_name
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfilledNode:
    """Where one such node is, and when it had the job, by Slurm's accounting."""

    run_id: int
    node_name: str
    start_epoch_s: float | None
    end_epoch_s: float


def home_of(opened: sqlite3.Connection, record: NodeRecord) -> int | None:
    """The run that a backfilled record is about; ``None``: Slurm's accounting knows none that is over."""
    key = record.job.key
    life = _life_of(lives_of(rows_of_job(opened, key.cluster, key.job_id)), record)
    return None if life is None else life.segments[0].run_id


def backfilled_nodes(opened: sqlite3.Connection, job: tuple[str, int]) -> list[BackfilledNode]:
    """Those of every run of a job id."""
    return [
        BackfilledNode(run_id=run_id, node_name=name, start_epoch_s=start, end_epoch_s=end)
        for run_id, name, start, end in opened.execute(_NODES, job).fetchall()
    ]


def bring_home(
    opened: sqlite3.Connection, nodes: Iterable[BackfilledNode], lives: Sequence[Life], pairs: Pairs
) -> set[int]:
    """Put each node where its life is now, unless that run knows better of it. The runs touched."""
    run_ids = {id(life): run_id for run_id, life in pairs.items()}
    touched: set[int] = set()
    for node in nodes:
        life = _life_of(lives, node)
        home = None if life is None else run_ids.get(id(life))
        if home == node.run_id:
            continue
        touched |= {node.run_id} if home is None else {node.run_id, home}
        here = (node.run_id, node.node_name)
        if home is None or _is_known(opened, home, here):
            opened.execute(DELETE_NODE, here)
        else:
            opened.execute(DELETE_NODE, (home, node.node_name))
            opened.execute(MOVE_NODE, (home, *here))
    return touched


def _is_known(opened: sqlite3.Connection, home: int, here: tuple[int, str]) -> bool:
    _, there = stored_quality(opened, home, here[1])
    _, its = stored_quality(opened, *here)
    return there is not None and its is not None and there >= its


def _life_of(lives: Iterable[Life], node: NodeRecord | BackfilledNode) -> Life | None:
    """Slurm's times are the node's own, so one lies within the other to the second."""
    start = node.end_epoch_s if node.start_epoch_s is None else node.start_epoch_s
    for life in lives:
        end = life.end_epoch_s
        if end is not None and life.start_epoch_s <= start and node.end_epoch_s <= end:
            return life
    return None
