"""Jobs that go on are in the database, through the real hook scripts, and no sampler is held up by that."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_ofu.hooks.publishing import Publishing
from slurm_ofu.samples.ticks import Rounds
from tests.hooks.node import Node, poll

RUNS = """
SELECT running, state, interim, run_node.reason, exit_code, run_node.end_epoch_s AS end_epoch_s
FROM run JOIN run_node USING (run_id)
"""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node whose runs speak several times a second, and whose processes end with the test."""
    its = Node(tmp_path)
    its.write_config(interim_seconds=0.2)
    yield its
    its.close()


def so_far(node: Node) -> dict[str, Any]:
    """What the database says of the only run, once it says that it runs."""
    rows = poll("an interim record", lambda: [row for row in node.rows(RUNS) if row["running"]])
    [row] = rows
    return row


def test_a_job_is_seen_while_it_runs(node: Node) -> None:
    """Again and again, with what was measured; after its end it is one finished run, and nothing is left."""
    node.prolog()
    first = so_far(node)
    assert ("RUNNING", 1, None) == (first["state"], first["interim"], first["exit_code"])
    poll("a later one", lambda: so_far(node)["end_epoch_s"] > first["end_epoch_s"])
    query = (
        "SELECT tensor_ref_seconds / covered_seconds AS ofu, reason FROM run_gpu WHERE covered_seconds > 1"
    )
    gpus = poll("a second measured", lambda: node.rows(query))
    assert [pytest.approx(0.5, abs=0.01)] * 2 == [gpu["ofu"] for gpu in gpus]
    assert {"ok"} == {gpu["reason"] for gpu in gpus}
    assert [] == list(node.spool.glob("outbox/*"))
    node.epilog()
    [row] = poll("its end", lambda: [row for row in node.rows(RUNS) if not row["running"]])
    assert (0, "0:0", "ok") == (row["interim"], row["exit_code"], row["reason"])
    node.gone()
    assert node.is_settled()


def test_where_they_are_off_nothing_is_said(node: Node) -> None:
    """interim_seconds = 0: a run is heard of at its end."""
    node.write_config(interim_seconds=0)
    node.prolog()
    node.sampling(1.0)
    assert not node.database.exists()
    node.epilog()
    assert ["ok"] * 2 == [gpu["reason"] for gpu in node.stored()]


@pytest.mark.parametrize(("comment", "reason"), [("ofu=off", "opted_out"), (None, "no_source")])
def test_a_job_without_figures_is_seen_too(node: Node, comment: str | None, reason: str) -> None:
    """It says why there are none, while it runs and at its end."""
    node.source.unlink()
    node.prolog(SLURM_JOB_COMMENT=comment)
    first = so_far(node)
    assert reason == first["reason"]
    poll("a later one", lambda: so_far(node)["end_epoch_s"] > first["end_epoch_s"])
    node.epilog()
    poll("its end", lambda: [row for row in node.rows(RUNS) if not row["running"]])
    assert [reason] * 2 == [gpu["reason"] for gpu in node.stored()]
    node.gone()


# ------------------------------------------------------------------- the sampler's side


class Children:
    """A command that notes how it is called, and then does as a script says."""

    def __init__(self, folder: Path, script: str) -> None:
        self.log = folder / "log"
        self.publishing = Publishing(
            ("/bin/sh", "-c", f'echo "$$ $*" >>{self.log}; {script}', "sh"), Rounds(next_ns=0, every_ns=100)
        )

    def calls(self) -> list[list[str]]:
        """The words of each call: pid first."""
        return [line.split() for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def after(self, count: int) -> None:
        """Look until so many have been started, and then, at no later time, until the last is over."""
        now = 0
        deadline = time.monotonic() + 60
        while len(self.calls()) < count or Path(f"/proc/{self.calls()[-1][0]}").exists():
            assert time.monotonic() < deadline, self.calls()
            self.publishing.look(now)
            now += 100 if len(self.calls()) < count else 0
            time.sleep(0.005)


def test_what_is_the_matter_is_said_once(tmp_path: Path) -> None:
    """After one that could not be handed on, the next ones are tried and keep quiet."""
    children = Children(tmp_path, "exit 1")
    children.after(3)
    assert ["no", "yes", "yes"] == [words[-1] for words in children.calls()[:3]]


def test_what_is_refused_is_not_tried_again(tmp_path: Path) -> None:
    """A record that is never taken is the run's last interim one."""
    children = Children(tmp_path, "exit 2")
    children.after(1)
    for now in range(1000, 2000, 100):
        children.publishing.look(now)
    assert (1, None) == (len(children.calls()), children.publishing.next_ns)


def test_two_of_a_run_are_never_under_way(tmp_path: Path) -> None:
    """One that hangs is not joined by the next; it is killed at the run's end, with all that it started."""
    children = Children(tmp_path, "sleep 1000 & sleep 1000")
    children.publishing.look(0)
    poll("the first", children.calls)
    for now in range(100, 1000, 100):
        children.publishing.look(now)
    [[pid, *_]] = children.calls()
    group = os.getpgid(int(pid))
    children.publishing.stop()
    assert not Path(f"/proc/{pid}").exists()
    poll("its group to be gone", lambda: not _members(group))
    children.publishing.look(5000)
    assert 1 == len(children.calls())


def _members(group: int) -> list[str]:
    """Processes of a group that are not dead."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] not in "ZX":
            found.append(path.parent.name)
    return found
