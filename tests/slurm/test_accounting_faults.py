"""A sacct that misbehaves, in every way that we could think of: an AccountingError, never a wrong row."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_ofu.errors import AccountingError, AccountingUnusable
from slurm_ofu.slurm.accounting_catalogue import open_accounting_source
from slurm_ofu.slurm.accounting_pyslurm import PyslurmAccounting
from slurm_ofu.slurm.sacct import Sacct
from slurm_ofu.slurm.sacct_json import SacctJson
from slurm_ofu.values import AccountingConfig, AccountingSource
from tests.services.processes import poll
from tests.slurm.fake_slurm import HELPFORMAT, fake

WINDOW = (1_700_000_000, 1_700_003_600)
SOON = 0.6


def ids(sacct: Sacct) -> list[int]:
    """The jobs of the window."""
    return [row.job_id for row in sacct.rows(*WINDOW)]


def ended(folder: Path) -> Callable[[], bool]:
    """Whether the process that wrote its id into `pid` is gone."""
    process_id = int((folder / "pid").read_text())
    return lambda: not Path(f"/proc/{process_id}").exists()


def test_good(tmp_path: Path) -> None:
    """The stand-in itself is read: what fails below fails for what it does."""
    assert [1, 2] == ids(Sacct(fake(tmp_path, "row 1; row 2")))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "row 1; echo 'sacct: error: slurmdbd went' >&2; exit 1",
            r"failed \(exit code 1\): sacct: error: slurm",
        ),
        ("row 1; kill -9 $$", r"failed \(signal 9\)"),
        ("echo 'sacct: error: Connection refused' >&2; exit 1", "slurmdbd or its database does not answer"),
        ("echo 'sacct: error: Unable to connect to database' >&2; exit 221", "does not answer"),
        ("exit 7", "exit code 7.*without a word"),
        ("echo 'sacct: error: Unknown error 1317' >&2", "Unknown error 1317"),
        ("echo 'sacct: error: cannot'", "cannot be read"),
        ("echo Welcome to this cluster; row 1", "cannot be read"),
        ("row 1; echo", "cannot be read"),
        ("row 1; row 2 | head -c 100", "ends inside a row"),
        ("row 1; head -c 100000 /dev/urandom", "cannot be read"),
        ("cat /dev/zero", "does not end"),
        ("row 1; sleep 60", "no answer for 0.6 s"),
        ("sleep 60", "no answer for 0.6 s"),
        ("exec >&-; sleep 60", "no answer for 0.6 s"),
        ("exec >&- 2>&-; sleep 60", "did not end"),
    ],
)
def test_broken(tmp_path: Path, body: str, said: str) -> None:
    """Whatever it does, at whatever point: an AccountingError that says what happened, and it is ended."""
    config = fake(tmp_path, f"echo $$ >{tmp_path}/pid\n{body}")
    with pytest.raises(AccountingError, match=said) as raised:
        ids(Sacct(config, silence_seconds=SOON))
    assert AccountingError is type(raised.value)
    poll(ended(tmp_path), 30, "the child to be gone")


def test_rows_before_the_fault(tmp_path: Path) -> None:
    """Rows come while sacct runs; a fault afterwards is raised where the next row was asked for."""
    found = Sacct(fake(tmp_path, "row 1; sleep 0.2; row 2; exit 1")).rows(*WINDOW)
    assert [1, 2] == [next(found).job_id, next(found).job_id]
    with pytest.raises(AccountingError):
        next(found)


def test_complaints_beside_rows(tmp_path: Path) -> None:
    """Complaints on stderr do not spoil rows when sacct ends well, however many they are."""
    body = "yes 'sacct: error: some setting is deprecated' | head -c 300000 >&2; row 1"
    assert [1] == ids(Sacct(fake(tmp_path, body)))


def test_endless_complaints(tmp_path: Path) -> None:
    """Complaints are not output: a sacct that only complains is ended in time, and little of it is kept."""
    with pytest.raises(AccountingError, match=r"no answer for 0\.6 s: ended; it said: y") as raised:
        ids(Sacct(fake(tmp_path, "exec yes >&2"), silence_seconds=SOON))
    assert len(str(raised.value)) < 700


def test_consumer_stops(tmp_path: Path) -> None:
    """When nobody wants more rows, sacct is ended at once, with all that it started."""
    body = f"sleep 1000 & echo $! >{tmp_path}/pid; n=0; while :; do row $n; n=$((n+1)); done"
    found = Sacct(fake(tmp_path, body)).rows(*WINDOW)
    assert 0 == next(found).job_id
    found.close()  # type: ignore[attr-defined]
    poll(ended(tmp_path), 30, "the child's child to be gone")


def test_slow_consumer(tmp_path: Path) -> None:
    """Time that we take is not sacct's silence."""
    found = Sacct(fake(tmp_path, "row 1; row 2"), silence_seconds=SOON).rows(*WINDOW)
    first = next(found)
    time.sleep(2 * SOON)
    assert [1, 2] == [first.job_id, *(row.job_id for row in found)]


@pytest.mark.parametrize(
    ("helpformat", "kind", "said"),
    [
        ("echo JobID JobIDRaw Account", AccountingUnusable, "names no Cluster, State"),
        ("echo 'sacct: unrecognized option' >&2; exit 1", AccountingError, "unrecognized option"),
        ("echo 'sacct: error: Connection refused' >&2; exit 1", AccountingError, "does not answer"),
        ("head -c 1000 /dev/urandom", AccountingUnusable, "names no JobID"),
        ("sleep 60", AccountingError, "no answer within 0.6 s"),
    ],
)
def test_helpformat(tmp_path: Path, helpformat: str, kind: type[AccountingError], said: str) -> None:
    """A sacct whose columns cannot be had is no sacct."""
    config = fake(tmp_path, "row 1", helpformat=helpformat)
    with pytest.raises(AccountingError, match=said) as raised:
        ids(Sacct(config, silence_seconds=SOON))
    assert kind is type(raised.value)


def test_columns_are_asked_once(tmp_path: Path) -> None:
    """The columns are asked for once, and again only after a fault: Slurm may have been exchanged."""
    counted = f"echo x >>{tmp_path}/asked; {HELPFORMAT}"
    config = fake(tmp_path, f"[ -e {tmp_path}/fault ] && exit 1; row 1", helpformat=counted)
    sacct = Sacct(config)
    assert [[1], [1]] == [ids(sacct), ids(sacct)]
    assert 1 == len((tmp_path / "asked").read_text().split())
    (tmp_path / "fault").touch()
    with pytest.raises(AccountingError):
        ids(sacct)
    (tmp_path / "fault").unlink()
    assert [1] == ids(sacct)
    assert 2 == len((tmp_path / "asked").read_text().split())


def test_no_sacct(tmp_path: Path) -> None:
    """Without sacct, or one that may not be run, it is unusable; the message names the setting."""
    for way in (Sacct, SacctJson):
        with pytest.raises(
            AccountingUnusable, match=f"{tmp_path}/sacct cannot be run: No such file.*bin_dir"
        ):
            list(way(AccountingConfig(bin_dir=str(tmp_path))).rows(*WINDOW))
    (tmp_path / "sacct").write_text("#!/bin/sh\n")
    with pytest.raises(AccountingUnusable, match="Permission denied"):
        ids(Sacct(AccountingConfig(bin_dir=str(tmp_path))))


def test_questions(tmp_path: Path) -> None:
    """All users, allocations, duplicates, epochs; a delimiter of its own for each call; local or named."""
    config = fake(tmp_path, f'echo "$@" >>{tmp_path}/asked; row 1')
    sacct = Sacct(config)
    ids(sacct)
    list(sacct.rows(*WINDOW, clusters=("c1", "c2")))
    list(sacct.rows_of("c1", [1, 3, 1]))
    lines = (tmp_path / "asked").read_text().splitlines()
    assert ["--local", "-Mc1", "-Mc2", "-Mc1"] == [line.split()[0] for line in lines]
    assert all(line.split()[1:7] == ["-a", "-X", "-D", "-n", "-P", "--noconvert"] for line in lines)
    assert ["-Suts1700000000 -Euts1700003600"] * 3 + ["-j1,3"] == [
        line.rpartition(",JobIDRaw ")[2] for line in lines
    ]
    delimiters = [re.findall(r"--delimiter=(\x1f\S{8}) ", line) for line in lines]
    assert 4 == len({one for [one] in delimiters})


def test_many_ids(tmp_path: Path) -> None:
    """Ids go in batches; what an id brings besides itself is left out, each row comes once."""
    config = fake(tmp_path, f'for last; do :; done; echo "$last" >>{tmp_path}/asked; row 1; row 150; row 450')
    found = [row.job_id for row in Sacct(config).rows_of("c1", range(100, 600))]
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [200, 200, 100] == [line.count(",") + 1 for line in asked]
    assert [150, 450] == found


def test_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """sacct sees UTC, epochs, the configured slurm.conf and a plain locale, and none of its own variables."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    for name in ("SACCT_FORMAT", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT", "LC_TIME", "SLURM_DEBUG_FLAGS"):
        monkeypatch.setenv(name, "nonsense")
    monkeypatch.setenv("SLURM_JWT", "kept")
    ids(Sacct(fake(tmp_path, f"env >{tmp_path}/env; row 1")))
    seen = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines() if "=" in line)
    assert ("UTC", "%s", "C.UTF-8", "kept") == (
        seen["TZ"],
        seen["SLURM_TIME_FORMAT"],
        seen["LC_ALL"],
        seen["SLURM_JWT"],
    )
    assert str(tmp_path / "slurm.conf") == seen["SLURM_CONF"]
    assert not {"SACCT_FORMAT", "SLURM_CLUSTERS", "LC_TIME", "SLURM_DEBUG_FLAGS"} & set(seen)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "echo \"sacct: option '--json' doesn't allow an argument\" >&2; exit 1",
            "no data parser v0.0.42.*allow an",
        ),
        ("echo Possible data_parser plugins:; echo data_parser/v0.0.40", "it offers .*v0.0.40"),
    ],
)
def test_json_not_offered(tmp_path: Path, body: str, said: str) -> None:
    """Where sacct does not offer the pinned shape of JSON it is not usable, and that is not asked twice."""
    with pytest.raises(AccountingUnusable, match=f"sacct-json: not usable because .*{said}"):
        list(SacctJson(fake(tmp_path, body)).rows(*WINDOW))


def test_json_offer_unknown(tmp_path: Path) -> None:
    """A fault while the offer is asked for is a fault of the moment, not a sacct without JSON."""
    body = "echo 'sacct: error: Immediate execution impossible, insufficient priority' >&2; exit 1"
    with pytest.raises(AccountingError, match="insufficient priority") as raised:
        list(SacctJson(fake(tmp_path, body)).rows(*WINDOW))
    assert AccountingError is type(raised.value)


OFFER = 'case "$*" in *--json=list*) echo data_parser/v0.0.42; exit;; esac\n'


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("exit 0", "exit code 0"),
        ("echo 'sacct: error: Connection refused' >&2; exit 1", "does not answer"),
        ("echo '{'", "no list of jobs"),
        ("echo '[1]'", "no list of jobs"),
        ("echo '{\"jobs\": 7}'", "no list of jobs"),
        ("echo '{\"jobs\": [7]}'", "cannot be read"),
        ('echo \'{"jobs": [{"job_id": 1}]}\'', "cannot be read"),
        ('echo \'{"jobs": [], "errors": [{"description": "bad"}]}\'', "bad"),
        ("yes '[[[[[[[[[[[[[[[[' | head -c 200000", "no list of jobs"),
        ("yes", "printed more than 64 MiB"),
        ("sleep 60", "no answer within 0.6 s"),
    ],
)
def test_json_broken(tmp_path: Path, body: str, said: str) -> None:
    """JSON that is none, or not of that shape, or too much: an AccountingError."""
    seconds = SOON if "sleep" in body else 60
    with pytest.raises(AccountingError, match=said) as raised:
        list(SacctJson(fake(tmp_path, OFFER + body), timeout_seconds=seconds).rows(*WINDOW))
    assert AccountingError is type(raised.value)


def test_json_window(tmp_path: Path) -> None:
    """More than a day at once is refused, with what to use instead."""
    with pytest.raises(AccountingUnusable, match=r'for 25 hours at once, at most for 24.*source = "sacct"'):
        list(SacctJson(fake(tmp_path, OFFER)).rows(1_700_000_000, 1_700_090_000))


PYSLURM = """
import os, time
def slurm_init(conf): pass
class db:
    class JobFilter:
        def __init__(self, **condition): pass
    class Jobs:
        @staticmethod
        def load(condition):"""


@pytest.mark.parametrize(
    ("module", "kind", "said"),
    [
        ("import nonono", AccountingUnusable, "not usable because ModuleNotFoundError"),
        ("raise RuntimeError('requires Slurm 25.11')", AccountingUnusable, "requires Slurm 25.11"),
        ("import os; os._exit(1)", AccountingUnusable, r"it ended its process \(1\)"),
        ("import os; os._exit(0)", AccountingUnusable, r"it ended its process \(0\)"),
        ("import os; os.kill(os.getpid(), 11)", AccountingUnusable, r"it ended its process \(-11\)"),
        ("x = 1", AccountingUnusable, "has no attribute 'slurm_init'"),
        ("import time; time.sleep(60)", AccountingError, "no answer for"),
        ("def slurm_init(conf): pass", AccountingUnusable, "has no attribute 'db'"),
        (f"{PYSLURM} os.abort()", AccountingError, "signal 6"),
        (f"{PYSLURM} os._exit(0)", AccountingError, "exit code 0.*without a word"),
        (f"{PYSLURM} raise OSError('Connection refused')", AccountingError, "database does not answer"),
        (f"{PYSLURM} return {{0: 0}}", AccountingError, "has no attribute 'state'"),
        (f"{PYSLURM} time.sleep(60)", AccountingError, "no answer for 5 s"),
        (f"{PYSLURM} os.write(3, b'junk')", AccountingError, "no attribute 'values'"),
    ],
)
def test_pyslurm_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, kind: type[AccountingError], said: str
) -> None:
    """A pyslurm that is absent, of another version, hangs, or crashes its process: never ours."""
    (tmp_path / "pyslurm.py").write_text(module)
    (tmp_path / "slurm.conf").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    way = PyslurmAccounting(AccountingConfig(slurm_conf=str(tmp_path / "slurm.conf")), silence_seconds=5)
    with pytest.raises(AccountingError, match=said) as raised:
        list(way.rows(*WINDOW))
    assert kind is type(raised.value)


def test_pyslurm_without_slurm_conf(tmp_path: Path) -> None:
    """Without a slurm.conf pyslurm is not even tried: libslurm would look for one for a minute and exit."""
    with pytest.raises(
        AccountingUnusable, match=f"pyslurm: not usable because there is no {tmp_path}/nonono"
    ):
        list(PyslurmAccounting(AccountingConfig(slurm_conf=str(tmp_path / "nonono"))).rows(*WINDOW))


def test_catalogue() -> None:
    """Each configured name opens its way, "auto" that of sacct; "none" says what there is."""
    sources: tuple[AccountingSource, ...] = ("auto", "sacct", "sacct-json", "pyslurm")
    names = [open_accounting_source(AccountingConfig(source=source)).name for source in sources]
    assert ["sacct", "sacct", "sacct-json", "pyslurm"] == names
    with pytest.raises(
        AccountingUnusable, match=r'source = "none".*"auto" or "sacct".*"sacct-json".*"pyslurm"'
    ):
        open_accounting_source(AccountingConfig(source="none"))


def test_nothing_of_it_is_imported_early() -> None:
    """Opening accounting imports neither pyslurm nor the ways that are not asked for."""
    script = (
        "import sys; from slurm_ofu.wiring.accounting import open_accounting;"
        " from slurm_ofu.values import Config; open_accounting(Config(path='x'));"
        " print(sorted(m for m in sys.modules if 'pyslurm' in m or 'json' in m and 'slurm' in m))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "[]\n" == done.stdout
