"""The sampler's own systemd scope: with a real systemd that sees nothing of this machine, and without any."""

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from slurm_ofu.hooks.process import OwnScope
from tests.services.isolated_systemd import IsolatedSystemd, cgroup_mounts, missing_requirements, poll

ROOT = Path(__file__).parents[2]
ANY_FOLDER = Path("/proc")
NOBODY = 65534

#: A process that asks for its own scope, without any environment, and keeps writing down what it is told.
SAMPLER = f"""
import json, os, signal, sys, time
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from slurm_ofu.hooks.process import OwnScope
name, file, on_sigterm, limit = sys.argv[1:]
signal.signal(signal.SIGTERM, getattr(signal, on_sigterm))
os.environ.clear()
started = time.monotonic()
scope = OwnScope(name, limit_seconds=int(limit))
took = time.monotonic() - started
while True:
    cgroups = Path("/proc/self/cgroup").read_text().split()
    said = dict(pid=os.getpid(), took=took, outcome=scope.outcome(), cgroups=cgroups)
    Path(file + ".new").write_text(json.dumps(said))
    os.rename(file + ".new", file)
    time.sleep(0.05)
"""

#: A job's way through the real hooks in a service that is stopped, as slurmd may be, while the job runs.
RUN = f"""
import sys, time, json
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from tests.hooks.node import Node
folder = Path("/run/node")
folder.mkdir(exist_ok=True)
node = Node(folder)
if sys.argv[1] == "prolog":
    Path("/run/prolog").write_text(str(node.prolog().code))
    time.sleep(60)
node.sampling(node.covered_seconds() + 0.5)
node.epilog()
stored = dict(gpus=node.stored(), nodes=node.rows("SELECT * FROM run_node"))
Path("/run/stored.new").write_text(json.dumps(stored, default=str))
Path("/run/stored.new").rename("/run/stored")
"""


def needed(reason: str | None) -> None:
    """Skip what cannot run here, or fail when OFU_TEST_REQUIRE_ALL=1 forbids skips."""
    if reason and os.environ.get("OFU_TEST_REQUIRE_ALL") == "1":
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


@pytest.fixture
def root() -> None:
    needed(None if os.geteuid() == 0 else "only root is asked to leave for a scope")


@contextmanager
def running(hierarchy: str, folder: Path) -> Iterator[IsolatedSystemd]:
    """A real systemd that keeps its units in this hierarchy of cgroups."""
    its = IsolatedSystemd(hierarchy, folder)
    try:
        its.start()
        yield its
    finally:
        its.close()


@pytest.fixture(scope="module")
def systemd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IsolatedSystemd]:
    """A real systemd with version 2 cgroups."""
    needed(missing_requirements("unified"))
    with running("unified", tmp_path_factory.mktemp("systemd")) as its:
        yield its


def last_word(outcome: str) -> str:
    """The outcome, if it will stay so."""
    return "" if outcome == "asked for a scope" else outcome


class Asking:
    """A process that asks for a scope, started by the main process of a service as slurmd starts prologs."""

    def __init__(
        self, systemd: IsolatedSystemd, name: str, *, on_sigterm: str = "SIG_DFL", limit: int = 20
    ) -> None:
        self.systemd, self.service = systemd, f"slurmd-{time.monotonic_ns()}.service"
        self.file = systemd.file(f"/run/{self.service}.json")
        command = [sys.executable, "-c", SAMPLER, name, f"/run/{self.service}.json", on_sigterm, str(limit)]
        systemd.start_service(self.service, ["/bin/sh", "-c", '"$@" & wait', "slurmd", *command])

    def said(self) -> dict[str, Any]:
        """What it wrote last."""
        poll("a first word", self.file.exists)
        words: dict[str, Any] = json.loads(self.file.read_text())
        return words

    def settled(self) -> str:
        """Its last word on where it runs."""
        return poll("an outcome", lambda: last_word(str(self.said()["outcome"])))

    def unit_of_cgroup(self) -> set[str]:
        """The unit that the kernel has it in, one for each hierarchy that systemd works in."""
        return {name for line in self.said()["cgroups"] if "." in (name := line.rpartition("/")[2])}

    def alive(self) -> bool:
        """Whether it runs still."""
        return self.systemd.call("kill", "-0", str(self.said()["pid"]))[0] == 0


def scopes(systemd: IsolatedSystemd, pattern: str) -> str:
    """The scopes that systemd remembers, also failed ones."""
    return systemd.run("systemctl", "list-units", "--all", "--plain", "--no-legend", f"{pattern}.scope")


# --------------------------------------------------------------- with a real systemd


def test_moves_into_its_own_scope(systemd: IsolatedSystemd) -> None:
    """The process leaves its service's cgroup for a scope of its own, and knows it."""
    asking = Asking(systemd, "slurm-ofu-1.0.4711")
    assert "own scope" == asking.settled()
    assert {"slurm-ofu-1.0.4711.scope"} == asking.unit_of_cgroup()
    assert 0.5 > asking.said()["took"]
    systemd.run("systemctl", "stop", "slurm-ofu-1.0.4711.scope")


def test_moves_with_version_1_cgroups(tmp_path: Path) -> None:
    """Where systemd keeps its units in a hierarchy of version 1, the process moves alike."""
    if "legacy" not in cgroup_mounts():
        pytest.skip("this machine has no version 1 hierarchy of systemd's")
    needed(missing_requirements("legacy"))
    with running("legacy", tmp_path) as systemd:
        asking = Asking(systemd, "slurm-ofu-1.0.4711")
        assert "own scope" == asking.settled()
        assert {"slurm-ofu-1.0.4711.scope"} == asking.unit_of_cgroup()


def test_survives_the_end_of_the_service(systemd: IsolatedSystemd) -> None:
    """Stopping the service takes what stayed in its cgroup and leaves what moved into a scope."""
    moved, stayed = Asking(systemd, "slurm-ofu-2.0.1"), Asking(systemd, "not a name")
    assert ("own scope", "stayed: busctl exited 1") == (moved.settled(), stayed.settled())
    systemd.run("systemctl", "stop", moved.service, stayed.service)
    assert (True, False) == (moved.alive(), stayed.alive())
    systemd.run("systemctl", "stop", "slurm-ofu-2.0.1.scope")


def test_the_scope_ends_with_the_process(systemd: IsolatedSystemd) -> None:
    """A process that ends, even by SIGKILL, leaves no unit behind."""
    asking = Asking(systemd, "slurm-ofu-3.0.1")
    assert "own scope" == asking.settled()
    systemd.run("kill", "-KILL", str(asking.said()["pid"]))
    poll("no scope", lambda: not scopes(systemd, "slurm-ofu-3.0.1"))


def test_a_shutdown_is_not_held_up(systemd: IsolatedSystemd) -> None:
    """A process that ignores its scope's end is killed within seconds and leaves no failed unit."""
    asking = Asking(systemd, "slurm-ofu-4.0.1", on_sigterm="SIG_IGN")
    assert "own scope" == asking.settled()
    started = time.monotonic()
    systemd.call("systemctl", "stop", "slurm-ofu-4.0.1.scope")
    assert 10 > time.monotonic() - started
    assert not asking.alive()
    poll("no scope", lambda: not scopes(systemd, "slurm-ofu-4.0.1"))


def test_a_name_that_is_taken(systemd: IsolatedSystemd) -> None:
    """Who asks for a scope that another process has stays where it is, and the other one keeps it."""
    first = Asking(systemd, "slurm-ofu-5.0.1")
    assert "own scope" == first.settled()
    second = Asking(systemd, "slurm-ofu-5.0.1")
    assert "stayed: busctl exited 1" == second.settled()
    assert ({"slurm-ofu-5.0.1.scope"}, {second.service}) == (first.unit_of_cgroup(), second.unit_of_cgroup())
    systemd.run("systemctl", "stop", "slurm-ofu-5.0.1.scope", second.service)


def test_without_a_system_bus(systemd: IsolatedSystemd) -> None:
    """Where systemd runs but no system bus does, the process stays."""
    systemd.run("systemctl", "stop", "dbus.socket", "dbus.service")
    try:
        asking = Asking(systemd, "slurm-ofu-6.0.1")
        assert "stayed: busctl exited 1" == asking.settled()
        assert {asking.service} == asking.unit_of_cgroup()
        systemd.run("systemctl", "stop", asking.service)
    finally:
        systemd.run("systemctl", "start", "dbus.socket", "dbus.service")
        poll("the system bus", systemd.is_on_the_bus)


def test_a_system_bus_that_hangs(systemd: IsolatedSystemd) -> None:
    """A system bus that does not answer in time is given up, and no process waits for it any longer."""
    bus = systemd.run("systemctl", "show", "--value", "--property=MainPID", "dbus.service")
    systemd.run("kill", "-STOP", bus)
    try:
        asking = Asking(systemd, "slurm-ofu-8.0.1", limit=1)
        assert "stayed: busctl took over 1 s" == asking.settled()
        group = systemd.run("systemctl", "show", "--value", "--property=ControlGroup", asking.service)
        members = systemd.run("cat", f"/sys/fs/cgroup{group}/cgroup.procs").split()
        assert str(asking.said()["pid"]) in members
        assert 2 == len(members)  # and the service's main process
    finally:
        systemd.run("kill", "-CONT", bus)
    systemd.run("systemctl", "stop", asking.service)


def test_the_real_sampler(systemd: IsolatedSystemd) -> None:
    """A prolog's sampler samples on when slurmd's service stops, and its record says where it ran."""
    systemd.start_service("slurmd.service", [sys.executable, "-c", RUN, "prolog"])
    poll("the prolog", lambda: systemd.file("/run/prolog").exists() and scopes(systemd, "slurm-ofu-7.*"))
    systemd.run("systemctl", "stop", "slurmd.service")
    systemd.start_service("slurmd-again.service", [sys.executable, "-c", RUN, "epilog"])
    poll("the record", systemd.file("/run/stored").exists)
    stored = json.loads(systemd.file("/run/stored").read_text())
    assert ["own scope"] == [row["placement"] for row in stored["nodes"]]
    assert ["ok", "ok"] == [row["reason"] for row in stored["gpus"]]
    poll("no scope", lambda: not scopes(systemd, "slurm-ofu-7.*"))


# --------------------------------------------------------------- without systemd


def fake_busctl(folder: Path, does: str) -> str:
    """A program in busctl's place that writes down its parent's process id first."""
    program = folder / "busctl"
    program.write_text(
        f"#!/bin/sh\necho $PPID >{folder}/asked.new\nmv {folder}/asked.new {folder}/asked\n{does}\n"
    )
    program.chmod(0o755)
    return str(program)


def settled(scope: OwnScope) -> str:
    """The last word on where the process runs."""
    return poll("an outcome", lambda: last_word(scope.outcome()))


def test_no_systemd(tmp_path: Path) -> None:
    """Where no systemd runs, nobody is asked."""
    busctl = fake_busctl(tmp_path, "exit 0")
    assert "stayed: no systemd here" == OwnScope("ofu", systemd=tmp_path / "absent", busctl=busctl).outcome()
    assert not (tmp_path / "asked").exists()


def test_not_root() -> None:
    """Who is not root does not ask systemd to let it go."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    try:
        assert "stayed: not root" == OwnScope("ofu", systemd=ANY_FOLDER).outcome()
    finally:
        os.seteuid(before)


@pytest.mark.usefixtures("root")
def test_busctl_fails(tmp_path: Path) -> None:
    """A refusal is told with busctl's exit code."""
    assert "stayed: busctl exited 3" == settled(
        OwnScope("ofu", systemd=ANY_FOLDER, busctl=fake_busctl(tmp_path, "exit 3"))
    )


@pytest.mark.usefixtures("root")
def test_no_busctl(tmp_path: Path) -> None:
    """Without busctl the process stays."""
    assert "stayed: busctl exited 127" == settled(
        OwnScope("ofu", systemd=ANY_FOLDER, busctl=str(tmp_path / "absent"))
    )


@pytest.mark.usefixtures("root")
def test_a_reply_is_not_a_move(tmp_path: Path) -> None:
    """As long as the kernel does not have the process in the scope, it does not claim to be there."""
    scope = OwnScope("ofu", systemd=ANY_FOLDER, busctl=fake_busctl(tmp_path, "exit 0"))
    child = int(poll("busctl", lambda: (tmp_path / "asked").exists() and (tmp_path / "asked").read_text()))
    poll("the end of busctl", lambda: scope.outcome() and not Path(f"/proc/{child}").exists())
    assert "asked for a scope" == scope.outcome()


@pytest.mark.usefixtures("root")
def test_nobody_waits(tmp_path: Path) -> None:
    """Asking takes no time, however long the answer takes, and what takes too long is given up."""
    started = time.monotonic()
    busctl = fake_busctl(tmp_path, "exec /bin/sleep 60")
    scope = OwnScope("ofu", systemd=ANY_FOLDER, busctl=busctl, limit_seconds=3)
    assert "asked for a scope" == scope.outcome()
    assert 2.5 > time.monotonic() - started
    assert "stayed: busctl took over 3 s" == settled(scope)


@pytest.mark.usefixtures("root")
def test_no_zombie(tmp_path: Path) -> None:
    """Asking for the outcome reaps the process that was asked."""
    scope = OwnScope("ofu", systemd=ANY_FOLDER, busctl=fake_busctl(tmp_path, "exit 1"))
    child = int(poll("busctl", lambda: (tmp_path / "asked").exists() and (tmp_path / "asked").read_text()))
    stat = Path(f"/proc/{child}/stat")
    poll("a zombie", lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z")
    assert "stayed: busctl exited 1" == scope.outcome()
    assert not stat.exists()
