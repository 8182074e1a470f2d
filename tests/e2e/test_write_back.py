"""From the accounting database into Slurm's accounting, by command and by duty, on a real cluster.

The jobs are real ones; what their nodes would have recorded of them is stored as if it had been delivered.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from slurm_ofu.cli.report import report
from slurm_ofu.config import load_config
from slurm_ofu.figures import figures
from slurm_ofu.records.token import find_token, sums_of
from slurm_ofu.slurm.sacct import Sacct
from slurm_ofu.store.write import SqliteStore
from slurm_ofu.values import AccountingConfig, AccountingRow, NodeRecord, SamplerHealth
from slurm_ofu.wiring.writing_back import write_back_due
from tests.services.fixtures import ClusterFactory
from tests.services.slurm_cluster import SlurmCluster
from tests.services.unix_users import ALICE, BOB
from tests.store.databases import query
from tests.store.records import make_gpu, make_job

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.slurm_versions("OFU is written into Slurm's accounting, and only where it harms nothing"),
    pytest.mark.timeout(600),
]

GPU = ("--gres=gpu:1", "--mem=1", "-o", "/dev/null")
ADMIN = "from slurm_ofu.cli.admin import main; main(prog_name='ofu-admin')"


@pytest.fixture(scope="module")
def cluster(slurm_cluster_factory: ClusterFactory) -> SlurmCluster:
    """Two nodes of four GPUs."""
    return slurm_cluster_factory(nodes=2)


@dataclass
class Desk:
    """An accounting database beside the cluster, and what is done there."""

    cluster: SlurmCluster
    folder: Path

    def __post_init__(self) -> None:
        self.config = self.folder / "slurm-ofu.toml"
        self.store = SqliteStore(
            self.folder / "ofu.db",
            group=None,
            world_readable=True,
            wait_seconds=30.0,
            expand_hostlist=lambda text: tuple(text.split(",")),
        )
        self.configure()

    def configure(self, *, enabled: bool = True, bin_dir: str = "/usr/bin", more: str = "") -> None:
        """Write the configuration."""
        self.config.write_text(
            f'[database]\nurl = "sqlite://{self.store.path}"\ngroup = ""\n'
            f'[accounting]\nbin_dir = "{bin_dir}"\nslurm_conf = "{self.cluster.layout.slurm_conf}"\n'
            f"[write_back]\nenabled = {str(enabled).lower()}\nwait_seconds = 0.001\n{more}\n"
        )

    def rows(self, job_ids: Iterable[int]) -> list[AccountingRow]:
        """What Slurm says of these jobs, tasks and components included."""
        accounting = Sacct(AccountingConfig(slurm_conf=str(self.cluster.layout.slurm_conf)))
        shown = [row for job_id in job_ids for row in self.cluster.job_rows(job_id)]
        raw = sorted({int(row["JobIDRaw"]) for row in shown})
        return list(accounting.rows_of(self.cluster.settings.cluster_name, raw))

    def take(self, *job_ids: int) -> list[AccountingRow]:
        """Store what a node would have recorded of each life of these jobs, and Slurm's rows of them."""
        rows = self.rows(job_ids)
        lives: dict[int, int] = {}
        for row in rows:
            if row.start_epoch_s is not None:
                lives[row.job_id] = lives.get(row.job_id, -1) + 1
                self.store.write([record_of(row, lives[row.job_id])])
        self.store.take_accounting(rows)
        return rows

    def command(
        self, *options: str, user: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """``ofu-admin write-back``."""
        return self.cluster.run(
            *(sys.executable, "-c", ADMIN, "write-back", *options),
            user=user,
            check=check,
            timeout=300,
            env={"OFU_CONFIG": str(self.config), "PYTHONPATH": str(Path(__file__).parents[2]), "TZ": "UTC"},
        )

    def report(self, *options: str, user: str = "root") -> str:
        """What ``ofu-report`` prints to a user."""

        def report_text() -> str:
            done = CliRunner().invoke(report, ["--config", str(self.config), *options])
            assert done.exit_code == 0, done.output
            return done.stdout

        return called_as(user, report_text)

    def change_row(self, job_id: int, assignment: str) -> None:
        """Change a job's row behind Slurm's back."""
        self.cluster.run(
            *("mariadb", "--no-defaults", f"--socket={self.cluster.layout.database_socket}", "slurm_acct"),
            "-e",
            f"UPDATE {self.cluster.settings.cluster_name}_job_table SET {assignment} WHERE id_job={job_id}",
        )

    def comments(self, job_id: int) -> dict[str, str]:
        """SystemComment of every row, former lives included, by displayed id and state."""
        rows = self.cluster.job_rows(job_id, fields=("JobID", "State", "SystemComment"))
        return {f"{row['JobID']} {row['State'].split()[0]}": row["SystemComment"] for row in rows}

    def notes(self) -> list[tuple[str, str | None]]:
        """What the database notes of each run."""
        return query(self.store.path, "SELECT status, message FROM write_back ORDER BY run_id")


@pytest.fixture
def desk(cluster: SlurmCluster) -> Iterator[Desk]:
    """A fresh database, in a folder that users can enter: pytest's own are its user's alone."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Desk(cluster, Path(name))


def record_of(row: AccountingRow, restart_count: int, *, node: str | None = None) -> NodeRecord:
    """One measured GPU over the whole of a life, with an OFU of its own."""
    start = float(row.start_epoch_s or 0)
    end = float(row.end_epoch_s or start + 1)
    seconds = max(1.0, end - start)
    gpu = make_gpu(allocated=seconds, covered=seconds, tensor_ref=None, error=None)
    job = make_job(
        cluster=row.cluster,
        job_id=row.job_id,
        restart_count=restart_count,
        user=row.user,
        uid=row.uid,
        account=row.account,
        partition=row.partition,
        node_list=row.node_list,
        node_count=row.node_count,
    )
    return NodeRecord(
        job=job,
        node_name=node or row.node_list or "n1",
        reason="ok",
        start_epoch_s=start,
        end_epoch_s=end,
        allocated_seconds=seconds,
        exit_code="0:0",
        gpus=(
            replace(
                gpu,
                tensor_active_seconds=0.5 * seconds,
                tensor_ref_seconds=ofu_of(row.job_id) * seconds,
                tensor_ref_error_seconds=0.001 * seconds,
                sm_active_seconds=0.9 * seconds,
                reference_clock_mhz=1830.0,
            ),
        ),
        health=SamplerHealth(),
        software_version="test",
    )


def ofu_of(job_id: int) -> float:
    """A figure of its own for each raw job id."""
    return round(0.3 + job_id / 10_000, 4)


def ofu_in(text: str) -> float | None:
    """The OFU that a comment tells."""
    token = find_token(text)
    sums = None if token is None else sums_of(token)
    ofu = None if sums is None else figures(sums).ofu_ratio
    return None if ofu is None else round(ofu, 4)


def finished(cluster: SlurmCluster, *options: str) -> int:
    """A GPU job that is over."""
    job = cluster.sbatch("sleep 2", *GPU, *options, user=ALICE)
    cluster.wait_accounted(job)
    return job


def pause(cluster: SlurmCluster) -> None:
    """Let the clock go on by whole seconds, in which Slurm counts."""
    begin = time.time()
    cluster.wait_for(lambda: time.time() > begin + 3, 60, "three seconds")


def completed(cluster: SlurmCluster, job_id: int, shown: list[str]) -> None:
    """Wait until accounting has these rows under their own names."""

    def there() -> bool:
        rows = cluster.job_rows(job_id)
        return sorted((row["JobID"], row["State"]) for row in rows) == [
            (name, "COMPLETED") for name in sorted(shown)
        ]

    cluster.wait_for(there, 120, f"{shown} in accounting", interval=0.5)


def test_tasks_components_and_plain_jobs_get_their_own_figure(desk: Desk) -> None:
    """sacct shows each one's OFU, whatever it is called; a second call finds nothing to write."""
    cluster = desk.cluster
    plain = finished(cluster)
    array = cluster.sbatch("sleep 2", *GPU, "--array=0-2", user=ALICE)
    het = cluster.sbatch("sleep 2", *GPU, ":", "--gres=gpu:1", "--mem=1", user=ALICE)
    completed(cluster, array, [f"{array}_{task}" for task in range(3)])
    completed(cluster, het, [f"{het}+0", f"{het}+1"])
    desk.take(plain, array, het)
    assert "6 written\n" == desk.command().stdout
    for job in (plain, array, het):
        rows = cluster.job_rows(job, fields=("JobIDRaw", "SystemComment"))
        expected = {int(row["JobIDRaw"]): ofu_of(int(row["JobIDRaw"])) for row in rows}
        assert expected == {int(row["JobIDRaw"]): ofu_in(row["SystemComment"]) for row in rows}
    assert "nothing to write\n" == desk.command().stdout
    assert [("written", None)] * 6 == desk.notes()


def test_of_a_requeued_job_the_last_life_alone_is_written(desk: Desk) -> None:
    """The former life keeps its empty field; the database holds both."""
    cluster = desk.cluster
    job = cluster.sbatch("sleep 300", *GPU, user=ALICE)
    cluster.wait_state(job, "RUNNING")
    cluster.run("scontrol", "requeue", str(job))
    cluster.wait_for(lambda: len(cluster.job_rows(job)) == 2, 60, "a second row")
    pause(cluster)  # slurmd takes a credential of the second in which it revoked the last one for revoked
    cluster.run("scontrol", "update", f"jobid={job}", "StartTime=now", check=False)
    cluster.wait_state(job, "RUNNING", timeout=120)
    pause(cluster)  # a life of no whole second has no OFU
    cluster.run("scancel", str(job))
    cluster.wait_accounted(job)
    rows = desk.take(job)
    assert "1 written\n" == desk.command().stdout, rows
    found = desk.comments(job)
    assert "" == found[f"{job} REQUEUED"]
    assert ofu_in(found[f"{job} CANCELLED"]) is not None


def test_a_life_that_nobody_told_us_of_supersedes(desk: Desk) -> None:
    """Where Slurm has a later life than the database, nothing is written, and that is noted."""
    job = finished(desk.cluster)
    [row] = desk.take(job)
    again = row.submit_epoch_s + 1
    desk.change_row(job, f"time_submit={again}")
    assert "1 superseded\n" == desk.command().stdout
    assert {""} == set(desk.comments(job).values())
    assert "nothing to write\n" == desk.command().stdout


def test_a_late_node_changes_the_token_alone(desk: Desk) -> None:
    """Its record makes the run due again: the token is replaced, an administrator's words around it stay."""
    job = finished(desk.cluster)
    [row] = desk.take(job)
    desk.command()
    [before] = desk.comments(job).values()
    sacctmgr = ("sacctmgr", "-i", "modify", "job", "where", f"jobid={job}", "set")
    desk.cluster.run(*sacctmgr, f"SystemComment=rt#1 {before} see mail")
    late = record_of(row, 0, node="late")
    desk.store.write([replace(late, gpus=tuple(replace(gpu, tensor_ref_seconds=0.0) for gpu in late.gpus))])
    assert "1 written\n" == desk.command().stdout
    [after] = desk.comments(job).values()
    assert re.fullmatch(r"rt#1 ofu1:\S+ see mail", after)
    assert (ofu_in(before) or 0) > (ofu_in(after) or 0) > 0
    desk.store.write([late])
    desk.command()
    desk.store.take_accounting([row])  # nothing new
    assert "nothing to write\n" == desk.command().stdout


def test_what_others_wrote_is_left_alone_and_counted(desk: Desk) -> None:
    """JSON of another tool would not survive sacctmgr: it stays, and the summary says so."""
    job = finished(desk.cluster)
    text = '{"JS1": "H4sIAAA"}'
    desk.change_row(job, f"system_comment='{text}'")
    desk.take(job)
    assert "1 left alone\n" == desk.command().stdout
    assert [text] == list(desk.comments(job).values())
    [(status, message)] = desk.notes()
    assert ("left_alone", True) == (status, "quotes" in (message or ""))
    assert "nothing to write\n" == desk.command().stdout


def test_it_is_off_unless_switched_on_and_shows_what_it_would_do(desk: Desk) -> None:
    """Neither command nor duty writes; a dry run names job and text, and writes nothing."""
    job = finished(desk.cluster)
    desk.take(job)
    desk.configure(enabled=False)
    assert write_back_due(load_config(str(desk.config)), time.time()) is None
    done = desk.command(check=False)
    assert (1, "") == (done.returncode, done.stdout)
    assert "[write_back] enabled is false" in done.stderr
    shown = desk.command("--dry-run").stdout
    assert re.fullmatch(rf"\S+:{job}  write  ofu1:ofu=\S+\n", shown)
    assert {""} == set(desk.comments(job).values())
    assert [] == desk.notes()
    assert "nothing to write\n" == desk.command("-n", "-S", "now+1hour").stdout
    assert "nothing to write\n" == desk.command("-n", "-E", "now-1hour").stdout


def test_while_slurmdbd_is_away_nothing_is_lost(desk: Desk) -> None:
    """The command says so, the run stays due without a failure being counted, and is written afterwards."""
    job = finished(desk.cluster)
    desk.take(job)
    desk.cluster.stop_daemon("slurmdbd")
    try:
        done = desk.command(check=False)
        assert 1 == done.returncode
        assert "slurmdbd or its database does not answer" in done.stderr
        assert [] == desk.notes()
    finally:
        desk.cluster.start_daemon("slurmdbd")
    desk.cluster.wait_for(
        lambda: desk.command(check=False).stdout == "1 written\n", 60, "the token to be written", interval=1
    )
    assert [ofu_of(job)] == [ofu_in(text) for text in desk.comments(job).values()]


def test_a_user_cannot_do_it_and_is_told_who_can(desk: Desk) -> None:
    """One clear message with the command that gives the right; nothing is written or noted."""
    job = finished(desk.cluster)
    desk.take(job)
    hand_to(BOB, desk.folder)
    done = run_as(BOB, desk)
    assert "does not let ofu-bob change SystemComment" in done
    assert f"sacctmgr modify user {BOB} set adminlevel=operator" in done
    assert {""} == set(desk.comments(job).values())
    assert [] == desk.notes()
    desk.cluster.run("sacctmgr", "-i", "modify", "user", BOB, "set", "adminlevel=operator")
    try:
        assert "1 written" == run_as(BOB, desk)
    finally:
        desk.cluster.run("sacctmgr", "-i", "modify", "user", BOB, "set", "adminlevel=none")


def test_two_writers_at_once_write_once(desk: Desk) -> None:
    """The second is told that somebody is at it; every token is written, and none twice."""
    array = desk.cluster.sbatch("sleep 2", *GPU, "--array=0-5", user=ALICE)
    completed(desk.cluster, array, [f"{array}_{task}" for task in range(6)])
    desk.take(array)
    slow, log, go = (desk.folder / name for name in ("slow", "calls", "go"))
    wait = f'while [ ! -e "{go}" ]; do /bin/sleep 0.1; done'
    wrapper(slow, f'echo call >> "{log}"; {wait}; exec /usr/bin/sacctmgr "$@"')
    desk.configure(bin_dir=str(slow))
    argv = [sys.executable, "-c", ADMIN, "write-back", "--config", str(desk.config)]
    first = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    desk.cluster.wait_for(log.exists, 60, "the first to call sacctmgr")
    second = desk.command(check=False)
    go.touch()
    assert (4, True) == (second.returncode, "another process is writing back" in second.stderr)
    assert "6 written\n" == first.communicate(timeout=120)[0]
    assert 1 == log.read_text().count("call")
    assert 6 == len([text for text in desk.comments(array).values() if ofu_in(text) is not None])


@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_in_the_middle_it_goes_on(desk: Desk, moment: str) -> None:
    """Killed before sacctmgr wrote or before that was noted: the next call leaves every token written."""
    array = desk.cluster.sbatch("sleep 2", *GPU, "--array=0-3", user=ALICE)
    completed(desk.cluster, array, [f"{array}_{task}" for task in range(4)])
    desk.take(array)
    deadly = desk.folder / "deadly"
    kill, write = "kill -9 $PPID", '/usr/bin/sacctmgr "$@" >/dev/null 2>&1'
    wrapper(deadly, f"{write}; {kill}" if moment == "after" else kill)
    desk.configure(bin_dir=str(deadly))
    assert -9 == desk.command(check=False).returncode
    written = [text for text in desk.comments(array).values() if ofu_in(text) is not None]
    assert (4 if moment == "after" else 0) == len(written)
    assert [] == desk.notes()
    desk.configure()
    assert "4 written\n" == desk.command().stdout
    assert [("written", None)] * 4 == desk.notes()
    assert 4 == len([text for text in desk.comments(array).values() if ofu_in(text) is not None])


def test_what_sacctmgr_does_not_do_is_a_failure_that_is_tried_again(desk: Desk) -> None:
    """A command that claims success proves nothing: the field is read back."""
    job = finished(desk.cluster)
    desk.take(job)
    lying = desk.folder / "lying"
    wrapper(lying, "cat >/dev/null; echo ' Modified jobs...'")
    desk.configure(bin_dir=str(lying))
    done = desk.command(check=False)
    assert 1 == done.returncode
    assert done.stdout.startswith("1 failed (SystemComment holds '' after writing 'ofu1:")
    [(status, message)] = desk.notes()
    assert ("failed", True) == (status, "after writing" in (message or ""))
    assert "nothing to write\n" == desk.command().stdout  # its pause
    query_and_commit(desk.store.path, "UPDATE write_back SET next_epoch_s = 0.0")
    desk.configure()
    assert "1 written\n" == desk.command().stdout


def test_the_rate_is_kept(desk: Desk) -> None:
    """No more jobs in a minute than configured, by whoever asks; the rest waits, the latest go first."""
    array = desk.cluster.sbatch("sleep 2", *GPU, "--array=0-4", user=ALICE)
    completed(desk.cluster, array, [f"{array}_{task}" for task in range(5)])
    desk.take(array)
    desk.configure(more="jobs_per_minute = 2")
    config, now = load_config(str(desk.config)), time.time() + 1
    assert "2 written, 3 waiting" == write_back_due(config, now)
    assert "3 waiting" == write_back_due(config, now + 30)
    assert "2 written, 1 waiting" == write_back_due(config, now + 61)
    assert "1 written" == write_back_due(config, now + 122)
    assert write_back_due(config, now + 183) is None


def test_reports_need_no_database(desk: Desk) -> None:
    """ofu-report --from-slurm says of the same jobs what the database says, once that is gone."""
    cluster = desk.cluster
    plain = finished(cluster)
    array = cluster.sbatch("sleep 2", *GPU, "--array=0-1", user=BOB)
    completed(cluster, array, [f"{array}_{task}" for task in range(2)])
    desk.take(plain, array)
    desk.command()
    unwritten = finished(cluster)
    asked = ("-j", f"{plain},{array}")
    expected = [json.loads(desk.report(*asked, "--json", "--by", by)) for by in ("job", "user", "account")]
    desk.store.path.unlink()
    found = [
        json.loads(desk.report("--from-slurm", *asked, "--json", "--by", by))
        for by in ("job", "user", "account")
    ]
    for one, other in zip(expected, found, strict=True):
        names = ("job_id", "array_task_id", "user", "account", "state", "gpu_count", "reason")
        assert [[row.get(name) for name in names] for row in one["rows"]] == [
            [row.get(name) for name in names] for row in other["rows"]
        ]
        for name in ("ofu_ratio", "gpu_hours", "coverage_ratio", "ofu_error_pp", "tpa_mean_ratio"):
            assert one["total"][name] == pytest.approx(other["total"][name], rel=1e-2)
    page = desk.report("--from-slurm", "-j", f"{array}_1")
    assert f"Job {array}_1 on cluster" in page
    assert "from Slurm's accounting" in page
    lines = desk.report("--from-slurm", "-a", "-P", "-S", "now-1hour")
    named = f"{cluster.settings.cluster_name}|{unwritten}|"
    assert ["no_token"] == [
        "no_token" if "no_token" in line else line for line in lines.splitlines() if line.startswith(named)
    ], lines


def test_users_see_what_sacct_lets_them_see(desk: Desk) -> None:
    """Where a site hides jobs of others, --from-slurm hides them too; one's own are there."""
    cluster = desk.cluster
    mine, others = finished(cluster), cluster.sbatch("sleep 2", *GPU, user=BOB)
    cluster.wait_accounted(others)
    desk.take(mine, others)
    desk.command()
    hand_to(ALICE, desk.folder)
    asked = ("--from-slurm", "-P", "-n", "-a", "--by", "user", "-j", f"{mine},{others}")
    assert {ALICE, BOB} == {line.split("|")[0] for line in desk.report(*asked, user=ALICE).splitlines()}
    settings = cluster.layout.etc / "slurmdbd.conf"
    before = settings.read_text()
    cluster.stop_daemon("slurmdbd")
    settings.write_text(before + "PrivateData=jobs\n")
    cluster.start_daemon("slurmdbd")
    try:
        users = {line.split("|")[0] for line in desk.report(*asked, user=ALICE).splitlines()}
        assert {ALICE} == users & {ALICE, BOB}
        assert {ALICE, BOB} == {line.split("|")[0] for line in desk.report(*asked).splitlines()}
    finally:
        cluster.stop_daemon("slurmdbd")
        settings.write_text(before)
        cluster.start_daemon("slurmdbd")


def wrapper(folder: Path, on_modify: str) -> None:
    """A bin_dir whose sacctmgr does this when it is to modify, and else what the real one does."""
    folder.mkdir()
    (folder / "sacct").symlink_to("/usr/bin/sacct")
    script = folder / "sacctmgr"
    script.write_text(
        f'#!/bin/sh\nif [ "$1" = -i ]; then {on_modify}; else exec /usr/bin/sacctmgr "$@"; fi\n'
    )
    script.chmod(0o755)


def hand_to(user: str, folder: Path) -> None:
    """Give a folder with all in it to a user."""
    who = pwd.getpwnam(user)
    for path in (folder, *folder.iterdir()):
        os.chown(path, who.pw_uid, who.pw_gid)


def run_as(user: str, desk: Desk) -> str:
    """What the duty says when that user does it."""

    def duty() -> str:
        return str(write_back_due(load_config(str(desk.config)), time.time() + 1))

    return called_as(user, duty)


def called_as(user: str, function: Callable[[], str]) -> str:
    """What a function says when a user calls it, or what it raises."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = "the child died"
        try:
            who = pwd.getpwnam(user)
            os.setgroups([])
            os.setgid(who.pw_gid)
            os.setuid(who.pw_uid)
            said = function()
        except Exception as error:  # noqa: BLE001 - the child's boundary
            said = f"{type(error).__name__}: {error}"
        finally:
            os.write(writing, said.encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


def query_and_commit(path: Path, sql: str) -> None:
    """One statement."""
    with sqlite3.connect(path) as opened:
        opened.execute(sql)
