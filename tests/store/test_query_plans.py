"""How SQLite goes about the reader's queries."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from slurm_ofu.store.queries import usage_query
from slurm_ofu.store.ranking import goal_by_partition
from slurm_ofu.store.selection import where
from slurm_ofu.values import Goals, Selection
from tests.store.databases import make_store

_THROUGH_ALL_SUMS = re.compile(r"SCAN (?:TABLE |SUBQUERY )?[gn]\b")
WINDOW = Selection(start_epoch_s=1.75e9, end_epoch_s=1.76e9)


@pytest.mark.parametrize(
    "selection",
    [
        Selection(),
        WINDOW,
        Selection(users=("ada",), start_epoch_s=1.75e9, end_epoch_s=1.76e9),
        Selection(users=("ada",)),
        Selection(partitions=("gpu",)),
        Selection(accounts=("physics",), states=("FAILED",)),
        Selection(job_ids=(42,)),
    ],
)
@pytest.mark.parametrize("group", ["run_id", "user_name"])
def test_each_run_finds_its_sums_by_an_index(tmp_path: Path, selection: Selection, group: str) -> None:
    """Whatever selects the runs, none goes through all runs' sums for its own: that takes the square of their
    number."""
    store = make_store(tmp_path / "ofu.db")
    clause, parameters = where(selection)
    goal, goals = goal_by_partition(Goals())
    query = "EXPLAIN QUERY PLAN " + usage_query(group, clause, goal)
    with closing(sqlite3.connect(store.path)) as opened:
        steps = [row[3] for row in opened.execute(query, parameters + goals)]
    assert [] == [step for step in steps if _THROUGH_ALL_SUMS.match(step)]
