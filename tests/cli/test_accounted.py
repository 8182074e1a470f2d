"""ofu-report on runs that Slurm's accounting tells of: arrays, heterogeneous jobs, claims, silent jobs."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from slurm_ofu.cli.report import report
from slurm_ofu.slurm.claim import claim_of
from slurm_ofu.store.write import SqliteStore
from slurm_ofu.values import AccountingRow, NodeRecord
from tests.cli.conftest import configuration
from tests.store.accounting_rows import make_row
from tests.store.records import expand, make_gpu, make_job, make_record

TASKS = range(25)
Ask = Callable[..., Result]


def records() -> Iterator[NodeRecord]:
    """What nodes told: of plain jobs with comments, an array of 25 tasks, both parts of a het job."""
    for job_id, comment in ((7, "mfu=41%"), (8, "tflops=247.35"), (9, "hello")):
        claim = claim_of(comment)
        job = replace(make_job(job_id=job_id), comment=comment)
        claimed = None if claim is None else replace(claim, peak_tflops=989.4)
        yield make_record(replace(job, claim=claimed), gpus=[make_gpu()])
    for job_id in (11, *(100 + task for task in TASKS), 200, 201):
        yield make_record(make_job(job_id=job_id), gpus=[make_gpu()])


def rows() -> Iterator[AccountingRow]:
    """What Slurm's accounting says: of all but job 9, and of 300, which no node spoke of."""
    yield replace(make_row(job_id=7, comment="mfu=41%"), state="RESIZING", end_epoch_s=None)
    yield make_row(job_id=8, comment="tflops=247.35")
    yield make_row(job_id=11, comment="tflops=247.35")
    for task in TASKS:
        yield replace(make_row(job_id=100 + task), array_job_id=100, array_task_id=task)
    for offset in (0, 1):
        part = make_row(job_id=200 + offset, suspended=720, gpu_count=3)
        yield replace(part, het_job_id=200, het_offset=offset)
    yield make_row(job_id=300, gpu_count=4)


@pytest.fixture(scope="module")
def accounted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of a database with all of that."""
    directory = tmp_path_factory.mktemp("accounted")
    store = SqliteStore(
        directory / "ofu.db",
        group=None,
        world_readable=True,
        wait_seconds=30.0,
        expand_hostlist=expand,
        claim_of=partial(claim_of, source="accounting"),
    )
    store.write(list(records()))
    store.take_accounting(list(rows()))
    return configuration(directory, directory / "ofu.db")


@pytest.fixture
def ask(accounted: Path) -> Ask:
    """Runs ofu-report with these arguments on that database."""

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(
            report, ["--config", str(accounted), *arguments], prog_name="ofu-report", env=dict(os.environ)
        )

    return run


def titles(result: Result) -> list[str]:
    """Which jobs the pages are about."""
    return [line.split()[1] for line in result.stdout.splitlines() if line.startswith("Job ")]


def words(result: Result) -> str:
    """A page with single blanks."""
    return " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("ids", "shown"),
    [
        ("100_4", ["100_4"]),
        ("104", ["100_4"]),
        ("100_[3,1-2]", ["100_1", "100_2", "100_3"]),
        ("200+1,8", ["200+1", "8"]),
        ("201", ["200+1"]),
        ("200", ["200+0", "200+1"]),
        ("100_24,200,100_0", ["100_24", "200+0", "200+1", "100_0"]),
    ],
)
def test_pages_by_any_id(ask: Ask, ids: str, shown: list[str]) -> None:
    """Tasks and components are found by the ids that Slurm shows, by raw ones, and with their whole job; in
    the order asked for, called as Slurm calls them."""
    result = ask("-j", ids)
    assert (shown, "") == (titles(result), result.stderr)


def test_missing_ids_are_named_as_asked(ask: Ask) -> None:
    """Of ids without a run those are named, in their own words; of an array's tasks only the missing."""
    result = ask("-j", "100_[23-26],300+1,10,100_2")
    assert ["100_23", "100_24", "100_2"] == titles(result)
    assert result.stderr.startswith("no jobs match: job 100_[25-26],300+1,10 (all times); a job appears")


def test_a_whole_array_is_a_table(ask: Ask) -> None:
    """More than twenty runs are a line each with their pooled total, as is said; to a program they stay
    pages."""
    result = ask("-j", "100")
    assert "25 runs, hence a line each (pages for up to 20)\n" == result.stderr
    lines = result.stdout.splitlines()
    assert ["100_0", "100_24", "TOTAL"] == [lines[number].split()[0] for number in (3, 27, 29)]
    document = json.loads(ask("-j", "100", "--json").stdout)
    assert [f"100_{task}" for task in TASKS] == [row["display_job_id"] for row in document["rows"]]
    assert ([100], 1) == (document["query"]["job_ids"], len(document["rows"][24]["gpus"]))


def test_twenty_runs_are_pages(ask: Ask) -> None:
    """Up to twenty runs have a page each."""
    assert 20 == len(titles(ask("-j", "100_[0-19]")))


def test_tasks_in_flat_forms(ask: Ask) -> None:
    """-P and --csv have both the raw id and the one that Slurm shows."""
    header, line = ask("-j", "100_4", "-P").stdout.splitlines()
    fields = dict(zip(header.split("|"), line.split("|"), strict=True))
    assert ("104", "100_4", "100", "4", "true") == tuple(
        fields[name] for name in ("job_id", "display_job_id", "array_job_id", "array_task_id", "accounted")
    )


def test_suspended_time_and_other_gpu_counts(ask: Ask) -> None:
    """Slurm's elapsed time is shown without what was suspended, and its GPU count where it is another."""
    page = words(ask("-j", "200+1"))
    assert "elapsed 00:48:00; suspended 00:12:00, not counted OFU" in page
    assert "GPUs: 1 by the prologs, Slurm accounted 3" in page


def test_a_claim_and_a_doubt(ask: Ask) -> None:
    """A page shows the job's claim beside its OFU, or why what looks like one in its comment is none."""
    doubt = "Claimed a claim in the comment was not understood: mfu=41%; write mfu=0.41"
    assert doubt in words(ask("-j", "7"))
    page = words(ask("-j", "8"))
    assert "Claimed 247.35 TFLOP/s per GPU, 25.0 % of the peak (tflops=247.35 in the job's comment)" in page
    assert "is 197.9 TFLOP/s per GPU; stated is 1.25 times that, +5.0 percentage points" in page
    assert "Claimed" not in words(ask("-j", "9"))


def test_a_claim_that_only_accounting_knows_is_compared_too(ask: Ask) -> None:
    """It gets the peak of the run's GPUs when it is shown, on the page, in JSON and in columns."""
    page = words(ask("-j", "11"))
    assert "Claimed 247.35 TFLOP/s per GPU, 25.0 % of the peak" in page
    assert "OFU × 989.4 TFLOP/s" in page
    row = json.loads(ask("-j", "11", "--json").stdout)["rows"][0]
    assert ("accounting", 989.4, None) == tuple(
        row["claim"][name] for name in ("source", "peak_tflops", "not_compared")
    )
    header, line = ask("-j", "11", "-P").stdout.splitlines()
    fields = dict(zip(header.split("|"), line.split("|"), strict=True))
    assert "989.4" == fields["claim_peak_tflops"]


def test_a_claim_in_machine_forms(ask: Ask) -> None:
    """JSON has a claim as an object, CSV as columns."""
    row = json.loads(ask("-j", "8", "--json").stdout)["rows"][0]
    assert ("tflops", 247.35, 5.0) == tuple(row["claim"][name] for name in ("kind", "value", "difference_pp"))
    header, line = ask("-j", "8", "-P").stdout.splitlines()
    fields = dict(zip(header.split("|"), line.split("|"), strict=True))
    assert ("tflops", "247.35", "epilog", "5.0") == tuple(
        fields[f"claim_{name}"] for name in ("kind", "value", "source", "difference_pp")
    )


def test_a_job_that_no_node_spoke_of(ask: Ask) -> None:
    """A job known from accounting alone is on a page, and n/a rather than zero."""
    page = words(ask("-j", "300"))
    assert "GPUs 4 by Slurm's accounting" in page
    assert "Silent no node ever reported on this job." in page
    assert "OFU n/a (not_delivered)" in page


@pytest.mark.parametrize("job_id", ["7", "9"])
def test_what_accounting_has_not_said_yet(ask: Ask, job_id: str) -> None:
    """A job that Slurm's accounting was not read of, or that is not over there, has no final state."""
    assert "State unknown: Slurm's accounting not read yet, exit code 0:0" in words(ask("-j", job_id))
    assert None is json.loads(ask("-j", job_id, "--json").stdout)["rows"][0]["state"]
