"""What is told about every kind of job, by every way of asking that works here, on a real cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from typing import Any

import pytest

from slurm_ofu.protocols import Accounting
from slurm_ofu.values import AccountingRow
from tests.services.fixtures import ClusterFactory, slurm_cluster_factory
from tests.services.slurm_cluster import SlurmCluster
from tests.services.slurm_daemons import slurm_version
from tests.services.unix_users import ALICE, BOB, CAROL
from tests.slurm.accounting_jobs import INVALID, TEXTS, ids_of, now, reader, run_them
from tests.slurm.accounting_stage import Stage, columns, key, one, touches, ways

__all__ = ["slurm_cluster_factory"]

pytestmark = [pytest.mark.contract, pytest.mark.slurm, pytest.mark.timeout(600)]
#: What exit code 137 becomes where 128 is taken off from 128 on: sacct's text up to 24.11, pyslurm.
TAKEN_OFF = "9:0"
Question = Callable[[Accounting], Iterable[AccountingRow]]


@pytest.fixture(scope="module")
def stage(slurm_cluster_factory: ClusterFactory) -> Iterator[Stage]:
    """Runs the jobs once; finds out which ways are usable."""
    cluster = slurm_cluster_factory(nodes=4)
    jobs = run_them(cluster)
    yield Stage(cluster, jobs, *ways(cluster))


@pytest.mark.slurm_versions("sacct's text can be asked about every job")
def test_usable_ways(stage: Stage) -> None:
    """Text works on every version, JSON from 24.11 on; a way that does not work says why."""
    json_works = slurm_version() >= (24, 11)
    assert ["sacct", *["sacct-json"][:json_works]] == [
        way.name for way in stage.ways if way.name != "pyslurm"
    ]
    assert all(f"{name}: not usable because" in said for name, said in stage.unusable.items())


@pytest.mark.slurm_versions("every way of asking gives the same rows")
def test_same_rows(stage: Stage) -> None:
    """Every way gives the same rows, but for what it says that it cannot give."""
    for way in stage.ways:
        assert_same_rows(stage, way)


@pytest.mark.slurm_versions("sacct's JSON gives the same rows", since="24.11")
def test_json(stage: Stage) -> None:
    """sacct's JSON, whose shape can be pinned from 24.11 on, gives the rows of text."""
    [way] = [way for way in stage.ways if way.name == "sacct-json"]
    assert_same_rows(stage, way)


@pytest.mark.slurm_versions("pyslurm gives the same rows")
def test_pyslurm(stage: Stage) -> None:
    """pyslurm, where it is installed, gives the rows of text: former lives and segments, too."""
    if "pyslurm" in stage.unusable:
        pytest.skip(stage.unusable["pyslurm"])
    [way] = [way for way in stage.ways if way.name == "pyslurm"]
    assert_same_rows(stage, way)
    for job_id in (stage.jobs.requeued, stage.jobs.resized):
        assert 2 == len(list(way.rows_of(stage.name, [job_id])))


def assert_same_rows(stage: Stage, way: Accounting) -> None:
    """Of a window and of jobs, the same rows as those of text, less what the way cannot give."""
    end = now(stage.cluster)
    questions: list[Question] = [
        lambda way: way.rows(end - 7200, end),
        lambda way: way.rows_of(stage.name, ids_of(stage.jobs)),
    ]
    for question in questions:
        expected = [as_told(way, row) for row in question(reader(stage.cluster))]
        assert sorted_rows(expected) == sorted_rows(as_told(way, row) for row in question(way))


def as_told(way: Accounting, row: AccountingRow) -> AccountingRow:
    """A row as this way can tell it; a running job's time moves on between two questions."""
    unknown: dict[str, Any] = dict.fromkeys(getattr(way, "lacks", ()))
    if row.end_epoch_s is None:
        unknown["elapsed_seconds"] = 0
    if row.exit_code == "137:0":
        unknown["exit_code"] = TAKEN_OFF
    return replace(row, **unknown)


def sorted_rows(rows: Any) -> list[dict[str, Any]]:
    """Rows in a fixed order."""
    return sorted(map(asdict, rows), key=lambda row: (row["cluster"], row["job_id"], row["submit_epoch_s"]))


@pytest.mark.slurm_versions("accounting says of a job what the controller says")
def test_rows_say_what_slurmctld_says(stage: Stage) -> None:
    """What is told of finished jobs is what `scontrol show job` says, exactly."""
    jobs = stage.jobs
    plain = [
        jobs.suspended,
        jobs.failed,
        jobs.killed,
        jobs.untyped,
        jobs.uneven,
        jobs.limited,
        jobs.exclusive,
    ]
    for job_id in plain:
        expected = told_by_slurmctld(stage.cluster, job_id)
        assert stage.same(expected) == {
            name: shown(one(rows)) for name, rows in stage.rows_of(job_id).items()
        }


def shown(row: AccountingRow) -> dict[str, Any]:
    """What slurmctld says too."""
    return {
        "id": row.job_id,
        "user": f"{row.user}",
        "account": row.account,
        "partition": row.partition,
        "qos": row.qos,
        "name": row.job_name,
        "state": row.state,
        "exit": row.exit_code,
        "submit": row.submit_epoch_s,
        "start": row.start_epoch_s,
        "end": row.end_epoch_s,
        "elapsed": row.elapsed_seconds,
        "nodes": row.node_list,
        "count": row.node_count,
        "limit": row.time_limit_seconds,
    }


def told_by_slurmctld(cluster: SlurmCluster, job_id: int) -> dict[str, Any]:
    """The same from `scontrol show job`, which asks another daemon."""
    argv = ("scontrol", "show", "job", "-o", str(job_id))
    said = cluster.run(*argv, env={"SLURM_TIME_FORMAT": "%s", "TZ": "UTC"}).stdout
    value = dict(re.findall(r"(\w+)=(\S*)", said))
    hours, minutes, seconds = map(int, value["RunTime"].split(":"))
    limit = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", value["TimeLimit"])
    return {
        "id": int(value["JobId"]),
        "user": value["UserId"].partition("(")[0],
        "account": value["Account"],
        "partition": value["Partition"],
        "qos": value["QOS"],
        "name": value["JobName"],
        "state": value["JobState"],
        "exit": value["ExitCode"],
        "submit": int(value["SubmitTime"]),
        "start": int(value["StartTime"]),
        "end": int(value["EndTime"]),
        "elapsed": hours * 3600 + minutes * 60 + seconds,
        "nodes": value["NodeList"],
        "count": int(value["NumNodes"].partition("-")[0]),
        "limit": limit
        and sum(int(n or 0) * s for n, s in zip(limit.groups(), (86400, 3600, 60, 1), strict=True)),
    }


@pytest.mark.slurm_versions("GPUs of a job are counted once, typed or not, exclusive or not")
def test_gpu_counts(stage: Stage) -> None:
    """GPUs over all nodes, typed ones not twice, all of an exclusive node; None where none is named."""
    jobs = stage.jobs
    for job_id, expected in (
        (jobs.untyped, 2),
        (jobs.typed, 1),
        (jobs.uneven, 3),
        (jobs.three_nodes, 6),
        (jobs.exclusive, 4),
        (jobs.limited, None),
    ):
        answers = {name: [row.gpu_count for row in rows] for name, rows in stage.rows_of(job_id).items()}
        assert stage.same([expected]) == answers


@pytest.mark.slurm_versions("array tasks and heterogeneous components are rows of their own")
def test_arrays_and_components(stage: Stage) -> None:
    """Each task and component has its raw id and place; one asked for by raw id comes alone."""
    jobs, ids = stage.jobs, ids_of(stage.jobs)
    named = columns("array_job_id", "array_task_id", "het_job_id", "het_offset", "gpu_count")
    members: dict[str, list[AccountingRow]] = {
        way.name: [row for row in way.rows_of(stage.name, ids) if row.array_job_id or row.het_job_id]
        for way in stage.ways
    }
    expected: set[tuple[int | None, ...]] = {(jobs.array, task, None, None, 1) for task in range(3)}
    expected |= {(None, None, jobs.het, 0, 1), (None, None, jobs.het, 1, 2)}
    assert stage.same(expected) == {name: set(named(rows)) for name, rows in members.items()}
    for job_id in {row.job_id for row in members["sacct"]}:
        alone = {name: [row.job_id for row in rows] for name, rows in stage.rows_of(job_id).items()}
        assert stage.same([job_id]) == alone
    waiting = {name: named(rows) for name, rows in stage.rows_of(jobs.waiting_array).items()}
    assert stage.same([(jobs.waiting_array, None, None, None, None)]) == waiting


@pytest.mark.slurm_versions("a requeued job is two rows, the former life first")
def test_requeued(stage: Stage) -> None:
    """Both lives, the former first, each with its own submission; from 24.11 on with its restart count."""
    for name, rows in stage.rows_of(stage.jobs.requeued).items():
        counts = [0, 1] if slurm_version() >= (24, 11) else [None, None]
        assert (name, "REQUEUED") == (name, rows[0].state)
        assert (name, counts) == (name, [row.restart_count for row in rows])
        former, later = rows
        assert former.end_epoch_s is not None
        assert former.submit_epoch_s < former.end_epoch_s <= later.submit_epoch_s


@pytest.mark.slurm_versions("a resized job is two rows, one for each size")
def test_resized(stage: Stage) -> None:
    """Both segments, the first one's end the second one's submission, with the GPUs of each."""
    for name, rows in stage.rows_of(stage.jobs.resized).items():
        sizes = columns("state", "node_count", "gpu_count")(rows)
        assert (name, [("RESIZING", 3, 6), ("COMPLETED", 1, 2)]) == (name, sizes)
        first, second = rows
        assert first.end_epoch_s == second.submit_epoch_s
        start = first.start_epoch_s if slurm_version() < (24, 11) else second.submit_epoch_s
        assert start == second.start_epoch_s
        assert second.end_epoch_s is not None
        assert start is not None
        assert second.end_epoch_s - start == second.elapsed_seconds


@pytest.mark.slurm_versions("suspended time is not elapsed time")
def test_suspended(stage: Stage) -> None:
    """Suspended time lies between start and end and is not in the elapsed time."""
    for row in map(one, stage.rows_of(stage.jobs.suspended).values()):
        assert row.start_epoch_s is not None
        assert row.end_epoch_s is not None
        assert row.suspended_seconds >= 2
        assert row.end_epoch_s - row.start_epoch_s == row.elapsed_seconds + row.suspended_seconds


@pytest.mark.slurm_versions("a job that never started has neither start nor nodes")
def test_never_started(stage: Stage) -> None:
    """Cancelled before it started: an end, but no start, no nodes, no time and no GPUs."""
    seen = columns("state", "start_epoch_s", "elapsed_seconds", "node_list", "node_count", "alloc_tres")
    for job_id in (stage.jobs.cancelled_pending, stage.jobs.cancelled_held):
        answers = {name: seen(rows) for name, rows in stage.rows_of(job_id).items()}
        assert stage.same([("CANCELLED", None, 0, None, None, None)]) == answers
    end = now(stage.cluster)
    for way in stage.ways:
        found = {row.job_id for row in way.rows(end - 7200, end)}
        expected = {stage.jobs.cancelled_pending}  # the held one never was eligible
        assert (way.name, expected) == (
            way.name,
            found & {stage.jobs.cancelled_pending, stage.jobs.cancelled_held},
        )


@pytest.mark.slurm_versions("a running job has no end")
def test_running(stage: Stage) -> None:
    """A running job has a start and no end, and is in every window that touches it, and in none before."""
    for way in stage.ways:
        row = one(list(way.rows_of(stage.name, [stage.jobs.running])))
        assert ("RUNNING", None) == (row.state, row.end_epoch_s)
        start = row.start_epoch_s
        assert start is not None
        for window, expected in (
            ((start - 60, start), 0),
            ((start, start + 1), 1),
            ((start + 1, start + 60), 1),
        ):
            found = [one.job_id for one in way.rows(*window) if one.job_id == row.job_id]
            assert (way.name, window, expected) == (way.name, window, len(found))


@pytest.mark.slurm_versions("states and exit codes are those of the job")
def test_ends(stage: Stage) -> None:
    """Exit codes and signals, one-word states, owners."""
    jobs = stage.jobs
    seen = columns("state", "exit_code", "user", "account")
    for job_id, state, exit_code, user, account in (
        (jobs.failed, "FAILED", "3:0", ALICE, "astro"),
        (jobs.killed, "FAILED", "0:9", ALICE, "astro"),
        (jobs.failed_137, "FAILED", "137:0", BOB, "astro"),
        (jobs.cancelled_running, "CANCELLED", "0:0", CAROL, "bio"),
        (jobs.untyped, "COMPLETED", "0:0", BOB, "astro"),
    ):
        for name, rows in stage.rows_of(job_id).items():
            takes_off = name == "pyslurm" or (name == "sacct" and slurm_version() <= (24, 11))
            told = TAKEN_OFF if exit_code == "137:0" and takes_off else exit_code
            assert (name, [(state, told, user, account)]) == (name, seen(rows))


@pytest.mark.slurm_versions("names and comments come back as they were given, whatever is in them")
def test_texts(stage: Stage) -> None:
    """Names and comments with newlines, delimiters and control characters come back byte for byte."""
    for way in stage.ways:
        rows = {row.job_id: row for row in way.rows_of(stage.name, stage.jobs.texts)}
        for text, job_id in zip(TEXTS, stage.jobs.texts, strict=True):
            stored = {
                text,
                text.replace('"', "`"),
            }  # Slurm itself rewrites double quotes, depending on version
            assert rows[job_id].job_name in stored, (way.name, text, rows[job_id].job_name)
            assert rows[job_id].comment in stored, (way.name, text, rows[job_id].comment)


@pytest.mark.slurm_versions("text that is not UTF-8 spoils no row")
def test_invalid_text(stage: Stage) -> None:
    """Bytes that are not UTF-8 become one replacement, Slurm's or ours; the row is whole."""
    for way in stage.ways:
        row = one(list(way.rows_of(stage.name, [stage.jobs.invalid])))
        assert ("COMPLETED", ALICE) == (row.state, row.user)
        for text in (row.job_name, row.comment):
            assert text is None or re.fullmatch("caf[?\ufffd]", text), (way.name, text, INVALID)


@pytest.mark.slurm_versions("comments of the system and of administrators are read")
def test_written_comments(stage: Stage) -> None:
    """What sacctmgr writes into SystemComment and AdminComment comes back."""
    job, token = stage.jobs.untyped, "ofu1:ofu=0.412;tpa=0.448"
    stage.cluster.run(
        "sacctmgr", "-i", "modify", "job", "where", f"jobid={job}", "set", f"SystemComment={token}"
    )
    stage.cluster.run(
        "sacctmgr", "-i", "modify", "job", "where", f"jobid={job}", "set", "AdminComment=js1:none"
    )
    seen = columns("system_comment", "admin_comment")
    assert stage.same([(token, "js1:none")]) == {n: seen(rows) for n, rows in stage.rows_of(job).items()}


@pytest.mark.slurm_versions("adjacent windows hold every row, and one that touches both in both")
def test_windows(stage: Stage) -> None:
    """A window holds exactly the rows of which a part lies in it; the oldest submission of a job is first."""
    end = now(stage.cluster)
    for way in stage.ways:
        everything = list(way.rows(end - 7200, end))
        keys = [(row.job_id, row.submit_epoch_s) for row in everything]
        assert len(keys) == len(set(keys))
        for job_id in {row.job_id for row in everything}:
            submissions = [row.submit_epoch_s for row in everything if row.job_id == job_id]
            assert sorted(submissions) == submissions
        started = [row for row in everything if row.start_epoch_s is not None]
        middle = sorted(max(row.start_epoch_s or 0, row.submit_epoch_s) for row in started)[len(started) // 2]
        for first, last in ((end - 7200, middle), (middle, middle + 2), (middle, end)):
            expected = {key(row) for row in started if touches(row, first, last)}
            found = {key(row) for row in way.rows(first, last) if row.start_epoch_s is not None}
            assert (way.name, expected) == (way.name, found)
