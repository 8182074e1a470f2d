"""What `sacct --json=v0.0.42` prints, parsed: real documents, the shapes that bite, and damaged ones."""

from __future__ import annotations

import copy
import json
import os
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_ofu.errors import AccountingError
from slurm_ofu.slurm.accounting_json import parse_json
from slurm_ofu.values import AccountingRow

#: Machines are slow and shared.
QUICK = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
DATA = Path(__file__).parents[1] / "data" / "accounting"
FILES = {
    version: (DATA / f"sacct-{version}.json").read_text(encoding="utf-8") for version in ("24.11", "26.05")
}
VARIABLE = "OFU_TEST_SLURM_JSON"
UNSET = {"set": False, "infinite": False, "number": 0}


def rows(text: str) -> list[AccountingRow]:
    """The rows of a document."""
    return [row for row, _ in parse_json(text)]


def changed(**values: Any) -> AccountingRow:
    """The row of a real job of which some values, named with dots, were changed."""
    document = json.loads(FILES["24.11"])
    [job] = [job for job in document["jobs"] if job["name"].startswith("new")]
    for name, value in values.items():
        *path, last = name.split("__")
        at = job
        for step in path:
            at = at[step]
        at[last] = value
    [row] = rows(json.dumps({**document, "jobs": [job]}))
    return row


@pytest.mark.parametrize("version", FILES)
def test_real_documents(version: str) -> None:
    """Every kind of job in a real document is the row that text would give."""
    found = [
        (row.state, row.exit_code, row.array_task_id, row.het_offset, row.gpu_count, row.restart_count)
        for row in rows(FILES[version])
    ]
    expected = {
        ("COMPLETED", "0:0", None, None, None, 0),
        ("COMPLETED", "0:0", 0, None, 1, 0),
        ("COMPLETED", "0:0", None, 1, 1, 0),
        ("FAILED", "3:0", None, None, None, 0),
        ("CANCELLED", "0:0", None, None, None, 0),
        ("RUNNING", "0:0", None, None, 1, 0),
        ("REQUEUED", "0:0", None, None, 1, 0),
        ("COMPLETED", "0:0", None, None, 1, 1),
        ("RESIZING", "0:0", None, None, 6, 0),
        ("COMPLETED", "0:0", None, None, 2, 0),
        ("PENDING", "0:0", None, None, None, 0),
    }
    assert expected == set(found)
    assert 11 == len(found)


@pytest.mark.parametrize("version", FILES)
def test_times(version: str) -> None:
    """No end, no start: None, whether it is written as 0 or as 4294967294; suspended time is apart."""
    by_state = {row.state: row for row in rows(FILES[version])}
    running, cancelled, pending = (by_state[state] for state in ("RUNNING", "CANCELLED", "PENDING"))
    assert (None, 3) == (running.end_epoch_s, running.suspended_seconds)
    assert (None, 0) == (cancelled.start_epoch_s, cancelled.elapsed_seconds)
    assert cancelled.end_epoch_s is not None
    assert (None, None) == (pending.start_epoch_s, pending.end_epoch_s)
    assert (None, None, None) == (pending.node_list, pending.node_count, pending.alloc_tres)


def test_text() -> None:
    """Texts come as they are, TRES as text sacct prints them, without those that have no value."""
    row = rows(FILES["24.11"])[0]
    assert ("new\nline|x\x1fy", 'c\nd|é?"q" t\t') == (row.job_name, row.comment)
    assert ("System `Q` ", "admin`x") == (row.system_comment, row.admin_comment)
    assert "billing=1,cpu=1,mem=100M,node=1" == row.alloc_tres


@pytest.mark.parametrize(
    ("current", "state"),
    [
        (["COMPLETED"], "COMPLETED"),
        ("COMPLETED", "COMPLETED"),
        (["RUNNING", "COMPLETING"], "RUNNING"),
        (["PENDING", "REQUEUED"], "REQUEUED"),
        (["PENDING", "RESIZING"], "RESIZING"),
        (["NODE_FAIL"], "NODE_FAIL"),
    ],
)
def test_states(current: Any, state: str) -> None:
    """The state is the base state, but for the two flags that text shows in its stead."""
    assert state == changed(state__current=current).state


def test_revoked() -> None:
    """A revoked sibling is no row."""
    document = json.loads(FILES["26.05"])
    document["jobs"][0]["state"]["current"] = ["PENDING", "REVOKED"]
    assert 10 == len(rows(json.dumps(document)))


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [
        ({"set": True, "infinite": False, "number": 5}, 300),
        ({"set": False, "infinite": True, "number": 0}, None),
        (UNSET, None),
        (None, None),
        (5, 300),
    ],
)
def test_numbers(limit: Any, seconds: int | None) -> None:
    """A number may be plain, or say that it is not set or infinite."""
    assert seconds == changed(time__limit=limit).time_limit_seconds


def test_traps() -> None:
    """Energy −2 is no TRES, planned −3600 nothing to us; without gres/gpu no count of GPUs is known."""
    tres = [
        {"type": "cpu", "name": "", "id": 1, "count": 4},
        {"type": "energy", "name": "", "id": 3, "count": -2},
        {"type": "mem", "name": "", "id": 2, "count": 2048},
        {"type": "fs", "name": "disk", "id": 6, "count": 7},
    ]
    row = changed(tres__allocated=tres, time__planned={"set": True, "infinite": False, "number": -3600})
    assert ("cpu=4,fs/disk=7,mem=2048M", None) == (row.alloc_tres, row.gpu_count)
    gpus = [{"type": "gres", "name": f"gpu{kind}", "id": 9, "count": 8} for kind in (":h100", "")]
    assert 8 == changed(tres__allocated=gpus).gpu_count


def test_signal() -> None:
    """A signal stands behind the exit code."""
    killed = {
        "status": ["SIGNALED"],
        "return_code": UNSET,
        "signal": {"id": {"set": True, "infinite": False, "number": 9}, "name": "KILL"},
    }
    assert "0:9" == changed(exit_code=killed).exit_code


def damaged(at: Any, path: list[int], value: Any) -> None:
    """Put a value somewhere into a document."""
    for left, number in zip(range(len(path) - 1, -1, -1), path, strict=True):
        if not isinstance(at, dict | list) or not at:
            return
        names: list[Any] = list(at) if isinstance(at, dict) else list(range(len(at)))
        name = names[number % len(names)]
        if left == 0:
            at[name] = value
        at = at[name]


VALUES = st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=5))


@pytest.mark.property
@QUICK
@given(
    path=st.lists(st.integers(0, 60), min_size=1, max_size=7),
    value=st.one_of(VALUES, st.lists(VALUES, max_size=3)),
)
def test_damaged_documents(path: list[int], value: Any) -> None:
    """Any value anywhere in a document: rows or an AccountingError."""
    document = copy.deepcopy(PARSED)
    damaged(document, path, value)
    with suppress(AccountingError):
        for row in rows(json.dumps(document)):
            assert all(abs(value) < 2**63 for value in astuple(row) if isinstance(value, int))
            assert all(value != "" for value in astuple(row))


PARSED = json.loads(FILES["26.05"])


@pytest.mark.property
@QUICK
@given(text=st.text(max_size=40))
def test_any_text(text: str) -> None:
    """Any text: rows or an AccountingError."""
    with suppress(AccountingError):
        assert isinstance(rows(text), list)


def test_documents_of_others() -> None:
    """Real answers of other clusters' slurmdbd, where a folder of them is at hand, are one row each."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        pytest.skip(f"{VARIABLE} names no folder of slurmdbd's answers")
    files = sorted(Path(folder).rglob("*.json"))
    assert files
    for file in files:
        found = rows(file.read_text(encoding="utf-8"))
        assert len(found) <= 1, file
        for row in found:
            assert row.elapsed_seconds >= 0, file
            assert row.end_epoch_s is None or row.end_epoch_s > 1_600_000_000, file
            assert row.gpu_count is None or row.gpu_count > 0, file
