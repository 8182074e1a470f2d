"""ofu-admin audit on months of a real database: what became slower, what states too much, which GPU lags."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from slurm_ofu.cli.admin import main
from slurm_ofu.values import AccountingRow, Claim, GpuTotals, NodeRecord
from tests.audits.rows import START, gpu, idle_gpu
from tests.cli.conftest import configuration
from tests.store.accounting_rows import make_row
from tests.store.databases import make_store
from tests.store.records import make_job, make_record

DAY = 86_400
Audit = Callable[..., Result]
Told = tuple[NodeRecord, AccountingRow]


def told(job_id: int, days: float, *gpus: GpuTotals, user: str, name: str = "x", **more: Any) -> Told:
    """A run of ten hours, by its node and by Slurm, so many days after the window's first."""
    start, node = int(START + days * DAY), more.pop("node", f"n{job_id}")
    claim, array = more.pop("claim", None), more.pop("array", (None, None))
    job = replace(make_job(job_id=job_id, user=user, node_list=node), claim=claim)
    its = [replace(one, uuid=f"GPU-{node}-{one.position}") for one in gpus]
    record = make_record(job, node=node, gpus=its, start=start, end=start + 36_000, allocated=36_000.0)
    row = make_row(
        job_id=job_id, start=start, end=start + 36_000, user=user, node_list=node, gpu_count=len(gpus)
    )
    return record, replace(row, job_name=name, array_job_id=array[0], array_task_id=array[1])


def family(first: int, user: str, name: str, *levels: tuple[float, float, int]) -> Iterator[Told]:
    """Runs a day apart at a level of OFU: from which day on, how high, how many."""
    job_id = first
    for begin, level, count in levels:
        for number in range(count):
            ofu = level + 0.005 * (number % 3)
            yield told(job_id, begin + number, gpu(ofu=ofu), user=user, name=f"{name}-{job_id - first:02}")
            job_id += 1


def stated(value: float) -> Claim:
    """What a job says of itself."""
    return Claim(kind="mfu", value=value, text=f"mfu={value}")


def everything() -> Iterator[Told]:
    """Two families, the two cases of claims, a slow GPU in ten jobs of four users, and an array."""
    yield from family(100, "ada", "\x1b]0;own\x07llama", (-8.0, 0.40, 9), (1.0, 0.16, 3))
    yield from family(200, "bob", "bert", (-20.0, 0.40, 8), (-11.0, 0.16, 3), (0.5, 0.40, 5))
    yield told(300, 1.0, gpu(ofu=0.2558), user="moe", claim=stated(0.5427))
    yield told(301, 1.0, gpu(ofu=0.1556), user="mamba", claim=stated(0.2451))
    for number in range(10):
        slow = gpu(2, ofu=0.4, tensor_ref_seconds=0.3 * 36_000)
        yield told(400 + number, number / 2, gpu(0), gpu(1), slow, gpu(3), user=f"hw{number % 4}", node="bad")
    for task in range(30):
        yield told(1000 + task, 1.0, idle_gpu(), user="arry", array=(1000, task))


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of a database with all of these."""
    folder = tmp_path_factory.mktemp("patterns")
    store = make_store(folder / "ofu.db")
    records, rows = zip(*everything(), strict=True)
    store.write(records)
    store.take_accounting(rows)
    return configuration(folder, store.path)


@pytest.fixture
def audit(config: Path) -> Audit:
    """Runs ofu-admin audit on the week that begins with START."""

    def run(*arguments: str) -> Result:
        window = ("-S", f"uts{START:.0f}", "-E", f"uts{START + 7 * DAY:.0f}")
        command = ["audit", *arguments, *window, "--config", str(config)]
        return CliRunner().invoke(main, command, prog_name="ofu-admin", env={"COLUMNS": "100"})

    return run


def words(done: Result) -> str:
    """What it says, whatever the line ends."""
    assert 0 == done.exit_code
    assert "\x1b" not in done.stdout
    return " ".join(done.stdout.split())


def test_a_drop_and_a_recovery(audit: Audit) -> None:
    """Each with its factor, its date and the runs of both sides, from before the window's edge where it must;
    names that a terminal would obey are shown and not obeyed."""
    said = words(audit("regressions"))
    assert (
        "Slower 1. \ufffd]0;own\ufffdllama, ada, partition gpu, 1 × NVIDIA H100 80GB HBM3: OFU down by a"
        " factor of 2.5 (median run) since 2025-06-16 17:15:00 CEST (UTC+02:00), 17.8 GPU-hours lost"
    ) in said
    assert "OFU 40.5 % ±0.1 (coverage 100 %) in 9 runs, then OFU 16.5 % ±0.1 (coverage 100 %) in 3" in said
    assert "jobs after: 109, 110, 111 jobs before: 104, 105, 106, 107, 108" in said
    assert "Fast again 1. bert, bob," in said
    assert "OFU up again since 2025-06-16 05:15:00 CEST" in said
    assert "since it is up again OFU 40.4 % ±0.1 (coverage 100 %) in 5 runs" in said


def test_the_two_cases_of_claims(audit: Audit) -> None:
    """54.27 % stated at 25.58 %, 24.51 % at 15.56 %, and what is likely; text and JSON say the same."""
    said = words(audit("claims"))
    assert "states 54.3 %, 2.12 times the measured 25.6 % ±0.2 (coverage 100 %)" in said
    assert "states 24.5 %, 1.58 times the measured 15.6 % ±0.2 (coverage 100 %)" in said
    (claims,) = json.loads(audit("claims", "--json").stdout)["audits"]
    assert [("300", 2.12), ("301", 1.58)] == [
        (entry["subject"], round(entry["figures"]["stated_over_measured"], 2)) for entry in claims["entries"]
    ]
    assert all("moe_or_hybrid" in entry["figures"]["likely_causes"] for entry in claims["entries"])


def test_a_slow_gpu(audit: Audit) -> None:
    """Which, by what, in how many jobs of whom, and its siblings are not listed."""
    said = words(audit("hardware"))
    assert "1. bad:2 (NVIDIA H100 80GB HBM3): its clock is 25.0 % below that of the others" in said
    assert "in 10 of 10 jobs of 4 users (by chance: less than once in 1,000,000); GPU-bad-2" in said
    assert " 2. " not in said


def test_an_array_leaves_room(audit: Audit) -> None:
    """Thirty idle tasks are one entry, in every output."""
    assert (
        "1. 30 tasks of array 1000, arry (physics), partition gpu, x: 300.0 of 300.0 GPU-hours idle"
        in words(audit("idle"))
    )
    (idle,) = json.loads(audit("idle", "--json").stdout)["audits"]
    assert [("1000", 30, 300.0)] == [
        (entry["subject"], entry["figures"]["run_count"], entry["weight_gpu_hours"])
        for entry in idle["entries"]
    ]
