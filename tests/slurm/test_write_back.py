"""Writing into a comment field of Slurm's accounting, on a real cluster."""

from __future__ import annotations

import os
import pwd
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_ofu.errors import AccountingError, AccountingUnusable, OfuError
from slurm_ofu.records.token import has_newer_token, with_token
from slurm_ofu.slurm.comments import Composing, Step, Target, address, hindrance
from slurm_ofu.slurm.write_back import CommentWriter
from slurm_ofu.values import AccountingConfig
from tests.services.fixtures import ClusterFactory, slurm_cluster_factory
from tests.services.slurm_cluster import SlurmCluster
from tests.services.slurm_daemons import slurm_version
from tests.services.unix_users import ALICE, BOB

__all__ = ["slurm_cluster_factory"]
pytestmark = [
    pytest.mark.slurm,
    pytest.mark.slurm_versions("what sacctmgr carries over, and of which rows"),
    pytest.mark.timeout(600),
]

COMPOSING = Composing(with_token=with_token, has_newer_token=has_newer_token)
TOKEN = "ofu1:ofu=0.41237;tpa=0.44821;clk=0.92;cov=0.9812;gpuh=12.5;err=0.1;gpus=8;est=cycles"
OTHER_TOKEN = "ofu1:cov=0;gpuh=12.5;gpus=8;why=not_delivered"
FIELDS = ("JobID", "JobIDRaw", "Cluster", "State", "Submit", "SystemComment", "AdminComment", "Comment")
SMALL = ("--mem=1", "-o", "/dev/null")


@pytest.fixture(scope="module")
def cluster(slurm_cluster_factory: ClusterFactory) -> SlurmCluster:
    """Two nodes; root may write into accounting."""
    return slurm_cluster_factory(nodes=2, extra_conf="SchedulerParameters=bf_interval=1,requeue_delay=0")


def config_of(cluster: SlurmCluster) -> AccountingConfig:
    """How the cluster's accounting is asked."""
    return AccountingConfig(slurm_conf=str(cluster.layout.slurm_conf))


def writer_of(cluster: SlurmCluster, field: str = "SystemComment") -> CommentWriter:
    """A writer into the cluster's accounting."""
    return CommentWriter(config_of(cluster), field, COMPOSING)


def targets_of(cluster: SlurmCluster, job_id: int, token: str = TOKEN) -> list[Target]:
    """A target for each accounted row of a job id, the rows of former lives included."""
    rows = cluster.job_rows(job_id, fields=FIELDS)
    return [target_of(row, number, token) for number, row in enumerate(rows, start=1)]


def target_of(row: dict[str, str], run_id: int, token: str) -> Target:
    """A row as a target."""
    task = re.fullmatch(r"(\d+)_(\d+)", row["JobID"])
    component = re.fullmatch(r"(\d+)\+(\d+)", row["JobID"])
    return Target(
        run_id=run_id,
        cluster=row["Cluster"],
        job_id=int(row["JobIDRaw"]),
        submit_epoch_s=int(row["Submit"]),
        token=token,
        array_job_id=int(task[1]) if task else None,
        array_task_id=int(task[2]) if task else None,
        het_job_id=int(component[1]) if component else None,
        het_offset=int(component[2]) if component else None,
    )


def comments(cluster: SlurmCluster, job_id: int, field: str = "SystemComment") -> dict[str, str]:
    """The field of every latest row, by displayed id."""
    return {row["JobID"]: row[field] for row in cluster.job_rows(job_id, duplicates=False, fields=FIELDS)}


def set_field(cluster: SlurmCluster, jobid: str, text: str, field: str = "SystemComment") -> None:
    """As an administrator would, with SQL, since sacctmgr may not carry the text over."""
    column = {"SystemComment": "system_comment", "AdminComment": "admin_comment", "Comment": "derived_es"}
    quoted = text.replace("\\", "\\\\").replace("'", "''")
    cluster.run(
        *("mariadb", "--no-defaults", f"--socket={cluster.layout.database_socket}"),
        *("--default-character-set=utf8mb4", "slurm_acct", "-e"),
        f"UPDATE {cluster.settings.cluster_name}_job_table SET {column[field]}='{quoted}'"
        f" WHERE id_job={jobid} ORDER BY time_submit DESC LIMIT 1",
    )


def finished_job(cluster: SlurmCluster, *options: str) -> Target:
    """A job that is over, and nothing in its field."""
    job = cluster.sbatch("true", *SMALL, *options, user=ALICE)
    cluster.wait_accounted(job)
    [target] = targets_of(cluster, job)
    return target


def finished_array(cluster: SlurmCluster, tasks: int) -> int:
    """An array that is over, with all its tasks in accounting under their own names."""
    job = cluster.sbatch("true", f"--array=0-{tasks - 1}", *SMALL, user=ALICE)
    wait_completed(cluster, job, [f"{job}_{task}" for task in range(tasks)])
    return job


def pause(cluster: SlurmCluster) -> None:
    """Let the clock go on by whole seconds, in which Slurm counts."""
    begin = time.time()
    cluster.wait_for(lambda: time.time() > begin + 3, 60, "three seconds")


def wait_completed(cluster: SlurmCluster, job_id: int, shown: list[str]) -> None:
    """Wait until accounting has exactly these rows of a job id, all of them final: names may come late."""
    expected = sorted((one, "COMPLETED") for one in shown)

    def accounted() -> bool:
        rows = cluster.job_rows(job_id, fields=FIELDS)
        return sorted((row["JobID"], row["State"]) for row in rows) == expected

    cluster.wait_for(accounted, 180, f"{shown} in accounting", interval=0.5)


def kinds(steps: list[Step]) -> list[str]:
    """What became of each."""
    return [one.kind for one in steps]


def as_user(name: str, function: Callable[[], object]) -> str:
    """What a function raises when a user calls it; "" where it raises nothing."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = "the child died"
        try:
            who = pwd.getpwnam(name)
            os.setgroups([])
            os.setgid(who.pw_gid)
            os.setuid(who.pw_uid)
            function()
            said = ""
        except OfuError as error:
            said = f"{type(error).__name__}: {error}"
        finally:
            os.write(writing, said.encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


def test_a_token_is_written_and_read_back(cluster: SlurmCluster) -> None:
    """What is reported as written is what sacct shows; again it writes nothing; a new token replaces it."""
    target = finished_job(cluster)
    assert ["written"] == kinds(writer_of(cluster).write([target]))
    assert {str(target.job_id): TOKEN} == comments(cluster, target.job_id)
    assert ["written"] == kinds(writer_of(cluster).plan([target]))
    late = replace(target, token=OTHER_TOKEN)
    assert ["write"] == kinds(writer_of(cluster).plan([late]))
    assert ["written"] == kinds(writer_of(cluster).write([late]))
    assert {str(target.job_id): OTHER_TOKEN} == comments(cluster, target.job_id)


@pytest.mark.parametrize("field", ["SystemComment", "AdminComment", "Comment"])
def test_only_the_configured_field_is_touched(cluster: SlurmCluster, field: str) -> None:
    """The other comment fields stay empty."""
    target = finished_job(cluster)
    assert ["written"] == kinds(writer_of(cluster, field).write([target]))
    [row] = cluster.job_rows(target.job_id, fields=FIELDS)
    names = ("SystemComment", "AdminComment", "Comment")
    assert {name: TOKEN if name == field else "" for name in names} == {name: row[name] for name in names}


def test_each_task_of_an_array_gets_its_own(cluster: SlurmCluster) -> None:
    """Also the task whose raw id is the array's: writing to it changes no other."""
    job = finished_array(cluster, 4)
    targets = [
        replace(target, token=f"{TOKEN};task={target.array_task_id}") for target in targets_of(cluster, job)
    ]
    assert job in [target.job_id for target in targets]
    bearer = [target for target in targets if target.job_id == job]
    assert ["written"] == kinds(writer_of(cluster).write(bearer))
    assert 1 == sum(bool(text) for text in comments(cluster, job).values())
    assert ["written"] * 4 == kinds(writer_of(cluster).write(targets))
    assert {f"{job}_{task}": f"{TOKEN};task={task}" for task in range(4)} == comments(cluster, job)


def test_each_component_of_a_heterogeneous_job_gets_its_own(cluster: SlurmCluster) -> None:
    """Also the leader, whose raw id is that of the whole job."""
    job = cluster.sbatch("true", *SMALL, ":", "--mem=1", user=ALICE)
    wait_completed(cluster, job, [f"{job}+0", f"{job}+1"])
    targets = [
        replace(target, token=f"{TOKEN};part={target.het_offset}") for target in targets_of(cluster, job)
    ]
    leader = [target for target in targets if target.job_id == job]
    assert ["written"] == kinds(writer_of(cluster).write(leader))
    assert {f"{job}+0": f"{TOKEN};part=0", f"{job}+1": ""} == comments(cluster, job)
    assert ["written"] * 2 == kinds(writer_of(cluster).write(targets))
    assert {f"{job}+{part}": f"{TOKEN};part={part}" for part in range(2)} == comments(cluster, job)


def test_of_a_requeued_job_only_the_last_life_is_written(cluster: SlurmCluster) -> None:
    """A former life is superseded, before and after the last one was written, and its row stays as it was."""
    job = cluster.sbatch("sleep 300", *SMALL, user=ALICE)
    cluster.wait_state(job, "RUNNING")
    cluster.run("scontrol", "requeue", str(job))
    cluster.wait_for(lambda: len(cluster.job_rows(job, fields=FIELDS)) == 2, 60, "a second row")
    pause(cluster)  # slurmd takes a credential of the second in which it revoked the last one for revoked
    cluster.run("scontrol", "update", f"jobid={job}", "StartTime=now", check=False)
    cluster.wait_state(job, "RUNNING", timeout=90)
    first, second = targets_of(cluster, job)
    assert ["superseded"] == kinds(writer_of(cluster).write([first]))
    assert ["failed"] == kinds(writer_of(cluster).write([second]))  # it runs
    cluster.run("scancel", str(job))
    cluster.wait_accounted(job)
    assert ["superseded", "written"] == kinds(writer_of(cluster).write([first, second]))
    assert ["", TOKEN] == [row["SystemComment"] for row in cluster.job_rows(job, fields=FIELDS)]


def test_of_a_resized_job_the_last_segment_is_written(cluster: SlurmCluster) -> None:
    """Its segments are rows of one run: sacctmgr writes into all, unless they hold different texts."""
    job = cluster.sbatch("sleep 300", "-N2", *SMALL, user=ALICE)
    cluster.wait_state(job, "RUNNING")
    pause(cluster)  # a resize in the second of the submission has the same key in slurmdbd
    cluster.run("scontrol", "update", f"jobid={job}", "NumNodes=1")
    cluster.wait_for(lambda: len(cluster.job_rows(job, fields=FIELDS)) == 2, 60, "a second row")
    cluster.run("scancel", str(job))
    cluster.wait_accounted(job)
    *_, last = targets_of(cluster, job)
    set_field(cluster, str(job), "rt#1")
    assert ["left_alone"] == kinds(writer_of(cluster).write([last]))
    assert ["", "rt#1"] == [row["SystemComment"] for row in cluster.job_rows(job, fields=FIELDS)]
    set_field(cluster, str(job), "")
    assert ["written"] == kinds(writer_of(cluster).write([last]))
    assert [TOKEN, TOKEN] == [row["SystemComment"] for row in cluster.job_rows(job, fields=FIELDS)]


@pytest.mark.parametrize(
    "text", ["rt#123 bad node, see mail; cc: x=y", "a  b `c` | {d} ~ %s $e !f", "x" * 60_000, "where set"]
)
def test_others_text_is_kept_byte_for_byte(cluster: SlurmCluster, text: str) -> None:
    """Text, one blank, our token; a new token replaces the old one alone."""
    target = finished_job(cluster)
    set_field(cluster, str(target.job_id), text)
    assert ["written"] == kinds(writer_of(cluster).write([target]))
    assert {str(target.job_id): f"{text} {TOKEN}"} == comments(cluster, target.job_id)
    assert ["written"] == kinds(writer_of(cluster).write([replace(target, token=OTHER_TOKEN)]))
    assert {str(target.job_id): f"{text} {OTHER_TOKEN}"} == comments(cluster, target.job_id)


@pytest.mark.parametrize(
    "text",
    [
        '{"gpus": 4}',
        "it's",
        "tab\there",
        "two\nlines",
        "C:\\x",
        " leading",
        "größe",
        "x" * 65_500,
        "ofu2:ofu=0.4",
    ],
)
def test_what_would_be_changed_is_left_alone(cluster: SlurmCluster, text: str) -> None:
    """Where sacctmgr would not carry a text over, or a later slurm-ofu wrote it, nothing is written."""
    target = finished_job(cluster)
    set_field(cluster, str(target.job_id), text)
    before = cluster.job_rows(target.job_id, fields=("SystemComment",)) if "\n" not in text else None
    [done] = writer_of(cluster).write([target])
    assert "left_alone" == done.kind
    assert done.message
    if before is not None:
        assert before == cluster.job_rows(target.job_id, fields=("SystemComment",))


def test_capitals_are_kept_or_left_alone(cluster: SlurmCluster) -> None:
    """Before 23.02 sacctmgr writes capitals small: there such a text is left alone; later it is kept."""
    target = finished_job(cluster)
    set_field(cluster, str(target.job_id), "Bad Node RT#123")
    [done] = writer_of(cluster).write([target])
    keeps = slurm_version() >= (23, 2)
    assert ("written" if keeps else "left_alone") == done.kind
    expected = f"Bad Node RT#123 {TOKEN}" if keeps else "Bad Node RT#123"
    assert {str(target.job_id): expected} == comments(cluster, target.job_id)


def test_the_rule_of_what_is_carried_over_is_true(cluster: SlurmCluster) -> None:
    """Every printable character without a hindrance comes back as it was, at both ends and doubled."""
    job = finished_array(cluster, 100)
    characters = [chr(code) for code in range(33, 127)]
    texts = [f"{one}x{one}{one} y{one}" for one in characters]
    fine = [text for text in texts if hindrance(text, slurm_version()) is None]
    targets = targets_of(cluster, job)[: len(fine)]
    for target, text in zip(targets, fine, strict=True):
        target_text = replace(target, token=text)
        targets[targets.index(target)] = target_text
    plain = Composing(with_token=lambda _, token: token, has_newer_token=lambda _: False)
    steps = CommentWriter(config_of(cluster), "SystemComment", plain).write(targets)
    assert [] == [(one.text, one.message) for one in steps if one.kind != "written"]
    assert 65 <= len(fine)


def test_one_that_fails_does_not_hide_the_others(cluster: SlurmCluster) -> None:
    """A job that accounting does not know, between two that it does."""
    one, other = finished_job(cluster), finished_job(cluster)
    unknown = replace(one, job_id=999_999, run_id=999_999)
    assert ["written", "failed", "written"] == kinds(writer_of(cluster).write([one, unknown, other]))


def test_an_address_of_several_jobs_is_left_alone(cluster: SlurmCluster) -> None:
    """Job ids come back after years: where an old array has this job's number, jobid= would change both."""
    young, old = finished_job(cluster), finished_job(cluster)
    cluster.run(
        *("mariadb", "--no-defaults", f"--socket={cluster.layout.database_socket}", "slurm_acct", "-e"),
        f"UPDATE {cluster.settings.cluster_name}_job_table SET id_array_job={young.job_id}, id_array_task=0"
        f" WHERE id_job={old.job_id}",
    )
    both = {str(young.job_id), str(old.job_id)}  # slurmdbd may see what another wrote a moment later
    cluster.wait_for(
        lambda: both == {row["JobIDRaw"] for row in cluster.job_rows(young.job_id)}, 60, "both at one address"
    )
    [done] = writer_of(cluster).write([young])
    assert ("left_alone", True) == (done.kind, str(old.job_id) in (done.message or ""))
    cluster.run("sacctmgr", "-i", "modify", "job", "where", f"jobid={young.job_id}", "set", "SystemComment=x")
    assert {"x"} == set(comments(cluster, young.job_id).values())  # the danger is real


def test_another_job_by_the_same_id_is_not_written(cluster: SlurmCluster) -> None:
    """The latest row must be our run: a submission that differs is another life or job."""
    target = finished_job(cluster)
    steps = writer_of(cluster).write([replace(target, submit_epoch_s=target.submit_epoch_s - 86_400)])
    assert ["superseded"] == kinds(steps)
    assert {str(target.job_id): ""} == comments(cluster, target.job_id)


@pytest.mark.parametrize("daemon", ["slurmdbd", "mariadbd"])
def test_accounting_away_and_back(cluster: SlurmCluster, daemon: str) -> None:
    """While it is away the writer says so; when it is back the same call writes."""
    target, writer = finished_job(cluster), writer_of(cluster)
    assert ["write"] == kinds(writer.plan([target]))
    cluster.stop_daemon(daemon)
    try:
        with pytest.raises(AccountingError, match="does not answer"):
            writer.write([target])
    finally:
        cluster.start_daemon(daemon)

    def written() -> bool:
        try:
            return kinds(writer.write([target])) == ["written"]
        except AccountingError:
            return False

    cluster.wait_for(written, 60, "the token to be written", interval=0.5)
    assert {str(target.job_id): TOKEN} == comments(cluster, target.job_id)


def test_who_may_not_write_is_told_what_to_run(cluster: SlurmCluster) -> None:
    """One message that names the user and the command; an operator may."""
    target, writer = finished_job(cluster), writer_of(cluster)
    said = as_user(BOB, lambda: writer.write([target]))
    assert said.startswith("AccountingUnusable: Slurm's accounting does not let ofu-bob")
    assert f"sacctmgr modify user {BOB} set adminlevel=operator" in said
    assert {str(target.job_id): ""} == comments(cluster, target.job_id)
    cluster.run("sacctmgr", "-i", "modify", "user", BOB, "set", "adminlevel=operator")
    try:
        assert "" == as_user(BOB, lambda: writer.write([target]))
    finally:
        cluster.run("sacctmgr", "-i", "modify", "user", BOB, "set", "adminlevel=none")
    assert {str(target.job_id): TOKEN} == comments(cluster, target.job_id)


def test_the_writers_own_key_bindings_do_not_reach_sacctmgr(
    cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sacctmgr reads its commands with readline, which obeys ~/.inputrc: letters may mean something there."""
    (tmp_path / ".inputrc").write_text('"f": "zz"\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("INPUTRC", raising=False)
    target = finished_job(cluster)
    assert ["written"] == kinds(writer_of(cluster).write([target]))
    assert {str(target.job_id): TOKEN} == comments(cluster, target.job_id)


def test_without_slurms_commands_it_says_where_they_were_looked_for(cluster: SlurmCluster) -> None:
    """A wrong bin_dir is an error that names it."""
    config = replace(config_of(cluster), bin_dir="/nonexistent")
    with pytest.raises(AccountingUnusable, match="/nonexistent"):
        CommentWriter(config, "SystemComment", COMPOSING).plan(targets_of(cluster, 1)[:1])


def test_addresses() -> None:
    """A task by its array, a component by its leader, any other job by its raw id."""
    plain = Target(run_id=1, cluster="c", job_id=7, submit_epoch_s=0, token=TOKEN)
    assert "7" == address(plain)
    assert "5_0" == address(replace(plain, array_job_id=5, array_task_id=0))
    assert "5+2" == address(replace(plain, het_job_id=5, het_offset=2))
