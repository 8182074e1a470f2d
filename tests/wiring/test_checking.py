"""What ``ofu-node check`` has to say about a node."""

import contextlib
import json
import os
import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_ofu.store.filesystems import closed_directory
from slurm_ofu.store.schema import APPLICATION_ID, SCHEMA_VERSION
from slurm_ofu.wiring import checking
from slurm_ofu.wiring.checking import check
from slurm_ofu.wiring.checking_python import readers_python
from slurm_ofu.wiring.database import prepare_database
from slurm_ofu.wiring.installing import EPILOG, PROLOG, Places, default_python, install
from tests.hooks.node import STEADY
from tests.wiring.left_behind import config_for


class Node:
    """A node with everything in place, and two GPUs whose minor numbers are 0 and 1."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "slurm-ofu.toml"
        self.conf = folder / "slurm.conf"
        self.prolog = folder / "prolog.d" / PROLOG
        self.epilog = folder / "epilog.d" / EPILOG
        self.database = folder / "ofu.db"
        source = folder / "source.json"
        source.write_text(json.dumps({"gpu_model": "NVIDIA H100 80GB HBM3", "gpus": 2, "default": STEADY}))
        self.text = (
            f'[node]\nspool_dir = "{folder}/spool"\n[sampler]\nsource = "synthetic://{source}"\n'
            f'[delivery]\nto = "sqlite://{self.database}"\n'
            f'[database]\nurl = "sqlite://{self.database}"\ngroup = ""\n'
        )
        self.config.write_text(self.text)
        self.slurm("NodeName=n[1-2] Gres=gpu:2")
        install(
            Places(
                config=self.config,
                prolog_dir=self.prolog.parent,
                epilog_dir=self.epilog.parent,
                systemd_dir=None,
                python=default_python(),
            )
        )

    def slurm(self, *lines: str, prolog: str | None = None) -> None:
        """Write slurm.conf."""
        hooks = (f"Prolog={prolog or self.prolog.parent}/*", f"Epilog={self.epilog.parent}/*")
        self.conf.write_text("\n".join((*hooks, "PrologFlags=Alloc", *lines, "")))

    def said(self, verdict: str = "bad", node: str | None = "n1") -> list[str]:
        """Every finding with one verdict."""
        findings = check(str(self.config), slurm_conf=str(self.conf), node=node)
        return [f"{its.what}: {its.text}" for its in findings if its.verdict == verdict]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def replaced(path: Path, pattern: str, by: str) -> None:
    path.write_text(re.sub(pattern, by, path.read_text(), flags=re.MULTILINE))


def test_a_node_in_order_has_nothing_bad(node: Node) -> None:
    """Everything in place: no bad line, and both GPUs by position."""
    assert [] == node.said()
    assert ["GPU 0", "GPU 1"] == [line[:5] for line in node.said("ok") if line.startswith("GPU")]


def slow_python(node: Node) -> None:
    """An interpreter without this package."""
    python = node.folder / "python"
    python.write_text("#!/bin/sh\necho No module named slurm_ofu >&2; exit 1\n")
    python.chmod(0o755)
    replaced(node.prolog, "^ofu_python=.*", f"ofu_python='{python}'")


HOOK_FAULTS: list[tuple[Callable[[Node], object], str]] = [
    (lambda node: node.prolog.chmod(0o644), f"prolog: .*{PROLOG}: is not executable"),
    (lambda node: node.epilog.chmod(0o600), f"epilog: .*{EPILOG}: is not executable"),
    (lambda node: replaced(node.prolog, "^ofu_python=.*", "ofu_python='/absent'"), "/absent does not exist"),
    (lambda node: replaced(node.epilog, "^ofu_python=.*", "ofu_python='/etc/passwd'"), "is not executable"),
    (slow_python, "cannot import slurm_ofu.hooks.sample: No module named slurm_ofu"),
    (
        lambda node: replaced(node.epilog, "slurm-ofu.toml", "x.toml"),
        "reads .*/x.toml, not .*/slurm-ofu.toml",
    ),
    (lambda node: node.prolog.write_text("#!/bin/sh\n"), "is no hook of slurm-ofu"),
    (lambda node: node.prolog.unlink(), "runs no slurm-ofu hook"),
]


@pytest.mark.parametrize(("fault", "expected"), HOOK_FAULTS)
def test_a_hook_that_would_not_work(node: Node, fault: Callable[[Node], object], expected: str) -> None:
    """A hook that cannot run, starts what cannot run, or reads another configuration is one bad line."""
    fault(node)
    (line,) = node.said()
    assert re.search(expected, line)


@pytest.mark.parametrize(("called", "faults"), [("here", 0), ("elsewhere", 1)])
def test_a_hook_that_a_script_calls(node: Node, called: str, faults: int) -> None:
    """A site's own script may call our hook, by a path that exists."""
    folder = node.folder / "site.d"
    folder.mkdir()
    script = folder / "all"
    path = node.prolog if called == "here" else node.folder / called / PROLOG
    script.write_text(f"#!/bin/sh\n'{path}' || exit 0\n")
    script.chmod(0o755)
    node.slurm("NodeName=n1 Gres=gpu:2", prolog=str(folder))
    assert faults == len(node.said())


def test_more_device_files_than_gpus(node: Node) -> None:
    """Every position that gres.conf gives and no GPU has is an unmapped line of its own."""
    (node.folder / "gres.conf").write_text("Name=gpu File=/dev/nvidia[0-3]\n")
    lines = node.said()
    assert "gres.conf: File= gives this node 4 GPUs, 2 are seen" == lines[0]
    assert [("GPU 2", True), ("GPU 3", True)] == [(line[:5], "unmapped" in line) for line in lines[1:]]


def test_a_host_name_that_slurm_does_not_know(node: Node) -> None:
    """A host that is no NodeName needs --node; where nodes come by themselves it may be right."""
    assert "say this node's name in Slurm with --node" in "".join(node.said(node=None))
    node.slurm("NodeName=n1 Gres=gpu:2", "MaxNodeCount=9")
    assert [] == node.said(node="n7")
    assert "dynamic" in "".join(node.said("note", node="n7"))


def corrupted(path: Path) -> None:
    """A database with its pages' middle overwritten."""
    prepare_database(config_for(path.parent, database=f"sqlite://{path}", database_group=None))
    data = bytearray(path.read_bytes())
    data[4096:40000] = b"\xff" * (40000 - 4096)
    path.write_bytes(data)


def newer(path: Path) -> None:
    """A database that a later version made."""
    with contextlib.closing(sqlite3.connect(path)) as opened:
        opened.execute("CREATE TABLE x (y)")
        opened.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        opened.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (corrupted, "malformed|damaged"),
        (newer, "made by a newer slurm-ofu"),
        (lambda path: path.write_text("no database at all, whatever it says"), "not a database"),
        (lambda path: path.mkdir(), "is not a file"),
    ],
)
def test_a_database_that_cannot_be_used(node: Node, make: Callable[[Path], object], expected: str) -> None:
    """A database that exists and that no record could be stored in is bad."""
    make(node.database)
    (line,) = node.said()
    assert re.search(f"^database: .*({expected})", line)


def test_a_database_that_is_fine(node: Node) -> None:
    """A database in order says its schema, and the look at it changes nothing."""
    prepare_database(config_for(node.folder, database=f"sqlite://{node.database}", database_group=None))
    before = node.database.read_bytes()
    assert f"database: {node.database}: schema {SCHEMA_VERSION}" in node.said("ok")
    assert before == node.database.read_bytes()


def test_delivery_to_another_database_than_reports_read(node: Node) -> None:
    """Records that go where no report looks are bad."""
    node.config.write_text(node.text.replace(f'to = "sqlite://{node.database}"', 'to = "sqlite:///tmp/x.db"'))
    (line,) = node.said()
    assert "records go to /tmp/x.db, but ofu-report reads" in line


def test_no_configuration_at_all(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a file at the default place the defaults are used, which is a note."""
    absent = str(node.folder / "absent.toml")
    monkeypatch.delenv("OFU_CONFIG", raising=False)
    monkeypatch.setattr("slurm_ofu.config.DEFAULT_PATH", absent)
    findings = checking.check(None, slurm_conf=str(node.conf), node="n1")
    assert ("note", f"{absent}: not there: defaults are used") in [
        (its.verdict, its.text) for its in findings
    ]


def test_a_broken_configuration_names_the_key_and_the_rest_goes_on(node: Node) -> None:
    """A wrong key is named, and slurm.conf is looked at all the same."""
    node.config.write_text(node.text.replace("source =", "sourze ="))
    (line,) = node.said()
    assert re.search(r"config: .*\[sampler\] key sourze is not known; did you mean source\?", line)
    assert any(line.startswith("prolog") for line in node.said("ok"))


def test_rejected_records_are_bad(node: Node) -> None:
    """A record that its receiver refused is told, with its name."""
    (node.folder / "spool/outbox/1.0.5.rejected").write_text("")
    (line,) = node.said()
    assert "rejected: 1 records" in line
    assert "1.0.5.rejected" in line


def test_a_spool_in_a_shared_directory(node: Node) -> None:
    """Nobody is told to change the mode of /tmp."""
    (node.folder / "spool").chmod(0o1777)
    (line,) = node.said()
    assert line.endswith("use a directory of its own, owned by root, mode 0700")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A directory that everybody may enter; pytest's own are its user's alone."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.parametrize(
    ("mode", "group", "is_open"),
    [
        (0o700, None, False),
        (0o711, None, True),
        (0o750, None, False),
        (0o750, "own", True),
        (0o701, "own", False),
        (0o701, "other", True),
    ],
)
def test_who_can_enter(open_folder: Path, mode: int, group: str | None, is_open: bool) -> None:
    """The first directory that the group, or everybody, cannot enter is the one that is named."""
    closed = open_folder / "closed"
    (closed / "inside").mkdir(parents=True)
    closed.chmod(mode)
    own = closed.stat().st_gid
    group_id = None if group is None else own if group == "own" else own + 1
    assert (None if is_open else closed) == closed_directory(closed / "inside/file", group_id)


def test_an_installation_that_users_cannot_reach(open_folder: Path) -> None:
    """A package below a directory like /root is a note: nobody else could run ofu-report."""
    (open_folder / "root").mkdir(mode=0o700)
    (finding,) = readers_python((os.devnull, str(open_folder / "root/bin/python")))
    assert ("note", True) == (finding.verdict, f"cannot enter {open_folder}/root" in finding.text)
