"""ofu-admin backfill: what it says, its exit codes, and that it may be killed anywhere."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from slurm_ofu.cli.admin import main
from tests.slurm.fake_slurm import fake
from tests.standins.faulty_proxy import FaultyProxy, Heard, Said
from tests.standins.stored_samples import KINDS, Gpu, Server, require, steady
from tests.store.databases import query

T = 1_750_003_200
HOUR = 3600
JOBS, NODES = 30, 5  # a job every two minutes on each node
ADMIN = (sys.executable, "-c", "from slurm_ofu.cli.admin import main; main(prog_name='ofu-admin')")
#: One row of sacct: job id, start, end, node, GPUs; $D is the delimiter.
JOB = """
job() {
    printf '%s' "$1" "$D" "$1" "$D" c1 "$D" COMPLETED "$D" 0:0 "$D" "$2" "$D" "$2" "$D" "$2" "$D" "$3" "$D" \\
        $(($3 - $2)) "$D" 00:00:00 "$D" 60 "$D" 1 "$D" "$4" "$D" "gres/gpu=$5" "$D" \\
        alice "$D" 1000 "$D" astro "$D" gpu "$D" normal "$D" 0 "$D" "s$1" "$D" name "$D" "$D" "$D" "$D" "$1"
    echo
}
"""
CONTENT = (
    "SELECT r.job_id, n.node_name, n.reason, n.backfilled, n.fingerprint FROM run AS r"
    " JOIN run_node AS n ON n.run_id = r.run_id ORDER BY 1, 2",
    "SELECT r.job_id, g.covered_seconds, g.tensor_ref_seconds FROM run AS r JOIN run_gpu AS g"
    " ON g.run_id = r.run_id ORDER BY 1, 2",
)


def jobs_of(nodes: int) -> str:
    """What the fake sacct prints: jobs one after the other on each node."""
    lines = [
        f"job {1000 * node + at} {T + 120 * at} {T + 120 * at + 110} node{node} 1"
        for node in range(1, nodes + 1)
        for at in range(JOBS)
    ]
    return JOB + "\n".join(lines) + "\n"


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real server with two hours of five nodes' samples."""
    require(request.param)
    gpus = [Gpu(f"node{node}", 0, steady(0.1 * node)) for node in range(1, NODES + 1)]
    series = [one for gpu in gpus for one in gpu.series(T - HOUR, T + 2 * HOUR, 30.0, offset=7.0)]
    stored = Server(request.param, tmp_path_factory.mktemp("stored") / "server", series)
    yield stored
    stored.close()


class Site:
    """A host with a sacct and a configuration."""

    def __init__(self, folder: Path, url: str, jobs: str) -> None:
        folder.mkdir(exist_ok=True)
        fake(folder, jobs)
        fake(folder, "echo c1", name="sacctmgr")
        (folder / "slurm.conf").touch()
        self.database = folder / "ofu.db"
        self.config = folder / "slurm-ofu.toml"
        self.config.write_text(
            f'[database]\nurl = "sqlite://{self.database}"\ngroup = ""\n'
            f'[accounting]\nbin_dir = "{folder}"\nslurm_conf = "{folder}/slurm.conf"\n'
            f'[prometheus]\nurl = "{url}"\n'
        )

    @property
    def arguments(self) -> tuple[str, ...]:
        """The whole day."""
        return ("backfill", "--config", str(self.config), "-S", f"uts{T - HOUR}", "-E", f"uts{T + 86_400}")

    def run(self, *more: str) -> Result:
        """In this process."""
        return CliRunner().invoke(main, [*self.arguments, *more], prog_name="ofu-admin", env=dict(os.environ))

    def start(self) -> subprocess.Popen[str]:
        """In one of its own."""
        return subprocess.Popen(
            [*ADMIN, *self.arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def content(self) -> list[list[tuple[object, ...]]]:
        """What came out, but for what depends on when."""
        return [query(self.database, sql) for sql in CONTENT]


@pytest.mark.contract
def test_what_is_done_is_said(server: Server, tmp_path: Path) -> None:
    """How many jobs, and what became of them; a second time nothing is left to do."""
    site = Site(
        tmp_path, server.url, jobs_of(1) + f"job 7 {T} {T + HOUR} elsewhere 1\njob 8 {T} {T + HOUR} node2 2\n"
    )
    tried = site.run("--dry-run")
    assert (0, True, "31 records would be stored, 6 queries") == (
        tried.exit_code,
        "c1:1000  node1  ok, whole_node, 1 GPUs, 100 % covered\n" in tried.stdout,
        tried.stdout.splitlines()[-1],
    )
    assert not site.database.exists()
    result = site.run()
    assert (0, "") == (result.exit_code, result.stderr)
    assert [
        "32 jobs with GPUs",
        "0 measured by their nodes",
        "0 backfilled before",
        "30 backfilled",
        "1 unmapped: which GPUs they had is not known",
        "1 without samples",
        "31 records stored, 6 queries",
    ] == result.stdout.splitlines()
    again = site.run()
    assert [
        "31 backfilled before",
        "1 without samples",
        "0 records stored, 4 queries",
    ] == again.stdout.splitlines()[2:]


@pytest.mark.contract
def test_killed_anywhere_it_goes_on(server: Server, tmp_path: Path) -> None:
    """After a SIGKILL in the middle what is stored is not asked for again, and all comes out as in one go."""
    whole = Site(tmp_path / "whole", server.url, jobs_of(NODES))
    assert 0 == whole.run().exit_code
    child: list[subprocess.Popen[str]] = []

    def kill_at_the_fourth_node(heard: Heard) -> None:
        if "node4" in heard.body and child:
            child.pop().send_signal(signal.SIGKILL)

    proxy = FaultyProxy(to=server.url, before=kill_at_the_fourth_node)
    site = Site(tmp_path / "killed", proxy.url, jobs_of(NODES))
    try:
        # Started before it is in the list: nothing is asked about node 4 until long after.
        process = site.start()
        child.append(process)
        assert -signal.SIGKILL == process.wait(timeout=120)
        [(stored,)] = query(site.database, "SELECT COUNT(*) FROM run_node WHERE backfilled = 1")
        assert 0 < stored < NODES * JOBS
        proxy.heard.clear()
        result = site.run()
    finally:
        proxy.close()
    assert (0, f"{stored} backfilled before") == (result.exit_code, result.stdout.splitlines()[2])
    asked = {
        f"node{node}" for node in range(1, NODES + 1) for one in proxy.heard if f"node{node}" in one.body
    }
    assert "node1" not in asked and {"node4", "node5"} <= asked
    assert whole.content() == site.content()


@pytest.mark.contract
def test_a_server_that_stumbles(server: Server, tmp_path: Path) -> None:
    """Answers that are none for a moment change nothing in what comes out."""
    whole = Site(tmp_path / "whole", server.url, jobs_of(1))
    assert 0 == whole.run().exit_code
    faults = [
        Said(status=422, body=b'{"status":"error","errorType":"execution","error":"too many samples"}'),
        *(Said(status=503, body=b"busy"), Said(hangs=True), Said(status=502, body=b"<html>")),
    ]
    proxy = FaultyProxy(to=server.url)

    def stumble(heard: Heard) -> None:
        fits = faults and (heard.method == "POST" or faults[-1].status != 422)
        if fits and (heard.method == "POST" or len(proxy.heard) % 2 == 0):
            proxy.script.append(faults.pop())

    proxy.before = stumble
    site = Site(tmp_path / "stumbling", proxy.url, jobs_of(1))
    try:
        result = site.run()
    finally:
        proxy.close()
    assert (0, []) == (result.exit_code, faults)
    assert whole.content() == site.content()


def test_jobs_that_have_only_just_ended(tmp_path: Path) -> None:
    """They are counted, and what becomes of them is said."""
    proxy = FaultyProxy([Said(body=b'{"status":"success","data":[]}')] * 4)
    now = int(time.time())
    site = Site(tmp_path, proxy.url, f"{JOB}\njob 7 {now - HOUR} {now - 5} node1 1\n")
    try:
        result = CliRunner().invoke(
            main, [*site.arguments[:3], "-S", f"uts{now - 2 * HOUR}"], prog_name="ofu-admin"
        )
    finally:
        proxy.close()
    assert (0, True) == (result.exit_code, "1 left for later: they have only just ended" in result.stdout)


def test_no_server_is_named(tmp_path: Path) -> None:
    """Neither by an option nor in the configuration: what to do is said."""
    site = Site(tmp_path, "", jobs_of(1))
    result = site.run()
    assert (1, True) == (result.exit_code, "--prometheus" in result.stderr)


def test_a_server_that_does_not_let_us(tmp_path: Path) -> None:
    """Exit code 1, and the password is not shown; --prometheus goes before the configuration."""
    proxy = FaultyProxy([Said(status=401, body=b"Unauthorized")])
    site = Site(tmp_path, "http://127.0.0.1:9", jobs_of(1))
    try:
        result = site.run("--prometheus", proxy.url.replace("http://", "http://me:secret@"))
    finally:
        proxy.close()
    assert (1, True, False) == (result.exit_code, "token_file" in result.stderr, "secret" in result.output)


def test_neither_accounting_nor_database(tmp_path: Path) -> None:
    """1 where Slurm's accounting does not answer, 4 where the database is none."""
    proxy = FaultyProxy([Said(body=b'{"status":"success","data":[]}')] * 2)
    site = Site(tmp_path, proxy.url, jobs_of(1))
    site.database.write_text("this is no database, and has never been one" * 100)
    try:
        assert 4 == site.run().exit_code
        (tmp_path / "sacct").unlink()
        site.database.unlink()
        result = site.run()
    finally:
        proxy.close()
    assert (1, True) == (result.exit_code, "bin_dir" in result.stderr)


def test_a_window_is_asked_for(tmp_path: Path) -> None:
    """Nobody backfills everything by mistake; and it does not run backwards."""
    site = Site(tmp_path, "http://127.0.0.1:9", jobs_of(1))
    result = CliRunner().invoke(main, ["backfill", "--config", str(site.config)], prog_name="ofu-admin")
    assert (1, True) == (result.exit_code, "--starttime" in result.stderr)
    assert 1 == site.run("-E", f"uts{T - 2 * HOUR}").exit_code


def test_no_bar_but_on_a_terminal(tmp_path: Path) -> None:
    """Nothing is drawn into a file."""
    proxy = FaultyProxy([Said(body=b'{"status":"success","data":[]}')] * 4)
    site = Site(tmp_path, proxy.url, jobs_of(1))
    try:
        process = site.start()
        said, errors = process.communicate(timeout=120)
    finally:
        proxy.close()
    assert (0, "", True) == (process.returncode, errors, "30 without samples" in said)


def test_a_bar_on_a_terminal(tmp_path: Path) -> None:
    """Whoever watches sees how far it is; what is printed is the same."""
    proxy = FaultyProxy([Said(body=b'{"status":"success","data":[]}')] * 4)
    site = Site(tmp_path, proxy.url, jobs_of(1))
    ours, terminal = os.openpty()
    try:
        process = subprocess.Popen(
            [*ADMIN, *site.arguments],
            stdout=subprocess.PIPE,
            stderr=terminal,
            text=True,
            env={**os.environ, "TERM": "xterm"},
        )
        said, _ = process.communicate(timeout=120)
        shown = os.read(ours, 100_000).decode()
    finally:
        proxy.close()
        os.close(ours)
        os.close(terminal)
    assert (0, True, True) == (process.returncode, "30/30" in shown, "30 without samples" in said)


def test_other_commands_do_not_load_what_only_this_one_needs() -> None:
    """urllib3 takes longer to load than all the rest."""
    code = "import slurm_ofu.cli.admin, sys; sys.exit('urllib3' in sys.modules)"
    assert 0 == subprocess.run([sys.executable, "-c", code], timeout=120, check=False).returncode
