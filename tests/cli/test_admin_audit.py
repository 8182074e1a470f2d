"""ofu-admin audit on a real database: what is asked, what comes out, and with which exit code."""

import csv
import io
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click import Context
from click.testing import CliRunner, Result

from slurm_ofu.cli.admin import main
from slurm_ofu.cli.admin_audit import audit_command
from slurm_ofu.values import AUDIT_NAMES, GpuTotals, NodeRecord
from tests.audits.rows import START, fp64_gpu, gpu, idle_gpu, silent_gpu
from tests.cli.conftest import configuration
from tests.store.databases import make_store
from tests.store.records import as_interim, make_job, make_record

Audit = Callable[..., Result]
WINDOW = ("-S", "2025-06-14", "-E", "2025-06-17")


def record(
    job_id: int, user: str, gpus: Sequence[GpuTotals], *, hours: float = 10.0, **job: Any
) -> NodeRecord:
    """A run that began with the window's first."""
    end = START + hours * 3600
    return make_record(
        make_job(job_id=job_id, user=user, node_list=f"n{job_id}", **job),
        gpus=gpus,
        start=START,
        end=end,
        allocated=hours * 3600,
        node=f"n{job_id}",
    )


RUNS = [
    record(1, "alice", [silent_gpu(hours=10)]),
    record(2, "bob", [idle_gpu(position) for position in range(8)]),
    record(3, "carol", [idle_gpu(hours=24, idle_hours=24 - 5 / 60)], hours=24),
    record(4, "dave", [fp64_gpu(position) for position in range(4)]),
    record(5, "erin", [*(gpu(position) for position in range(5)), *(idle_gpu(at) for at in (5, 6, 7))]),
    record(6, "=frank", [gpu(position, ofu=0.03) for position in range(8)], account="chem\x1b[31mistry"),
    record(7, "alice", [gpu(ofu=0.0, reason="suspect")]),
    record(8, "alice", [silent_gpu(reason="profiling_locked")], partition="long"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of a database with these runs, in June 2025."""
    folder = tmp_path_factory.mktemp("audit")
    store = make_store(folder / "ofu.db")
    store.write(RUNS)
    return configuration(folder, store.path)


@pytest.fixture
def audit(site: Path) -> Audit:
    """Runs ofu-admin audit with these arguments on that database, in that month."""

    def run(*arguments: str, config: Path = site, window: Sequence[str] = WINDOW) -> Result:
        return CliRunner().invoke(
            main, ["audit", *arguments, *window, "--config", str(config)], prog_name="ofu-admin"
        )

    return run


def subjects(done: Result, audit: str, kind: str) -> list[str]:
    """Whom or what a JSON answer lists."""
    (result,) = [one for one in json.loads(done.stdout)["audits"] if one["audit"] == audit]
    return [entry["subject"] for entry in result["entries"] if entry["kind"] == kind]


def test_a_whole_answer(audit: Audit) -> None:
    """Who was judged and who was not, what came out with its evidence, what to do, by which thresholds."""
    done = audit("waste")
    assert (0, "") == (done.exit_code, done.stderr)
    expected = """\
Audit waste: users and accounts with a low OFU, by the GPU-hours that they lost
2025-06-14 00:00:00 to 2025-06-17 00:00:00 CEST (UTC+02:00)
4 runs judged; not judged: 2 not measured, 1 busy without tensor cores, 1 with counters that
contradict each other
Over all: OFU 8.5 % ±0.1 (coverage 100 %); 207.9 of 264.0 GPU-hours lost by 4 users

Users
  1. bob: 80.0 GPU-hours lost, OFU 0.0 % ±0.2 (coverage 100 %), goal 40 %
     most GPU-hours of 6 users; 80.0 GPU-hours in 1 run judged; 100 % of the loss is idle time
     worst jobs: 2
"""
    assert expected == done.stdout[: len(expected)]
    assert done.stdout.endswith(
        "Thresholds ([audits] of the configuration): OFU below 10 %; lost is what is below 40 %; at least"
        " 1.0\n"
        "GPU-hours at stake; runs of at least 10.0 min, measured for at least 80 %.\n"
    )


def test_nobody_is_listed_for_what_is_missing_or_no_waste(audit: Audit) -> None:
    """Without figures, with doubtful ones, or with work without tensor cores nobody is in any list."""
    done = audit("waste", "idle", "unused", "--json", "--minimum-gpu-hours", "0")
    assert ["bob", "=frank", "carol"] == subjects(done, "waste", "user")
    assert ["2", "3"] == subjects(done, "idle", "ended")
    assert ["erin"] == subjects(done, "unused", "user")


@pytest.mark.parametrize(("minutes_ago", "expected"), [(5, "Running now"), (90, "1 not heard of lately")])
def test_what_is_idle_now(tmp_path: Path, minutes_ago: int, expected: str) -> None:
    """A run of eight GPUs that has been idle for an hour is listed while it goes on; where its latest figures
    are older than that, nothing is said of now."""
    store = make_store(tmp_path / "ofu.db")
    eight = [idle_gpu(position, idle_hours=1.0) for position in range(8)]
    end = time.time() - 60 * minutes_ago
    job = make_job(job_id=9, user="gus")
    store.write([as_interim(make_record(job, gpus=eight, start=end - 36_000, end=end, allocated=36_000.0))])
    config = configuration(tmp_path, store.path)
    done = CliRunner().invoke(main, ["audit", "idle", "--config", str(config)], prog_name="ofu-admin")
    assert 0 == done.exit_code
    assert expected in done.stdout
    listed = "job 9, gus (physics), partition gpu: all 8 GPUs idle for 1.0 h, 8.0 GPU-hours" in done.stdout
    assert (expected == "Running now") == listed


def test_every_audit_answers(audit: Audit) -> None:
    """all is every audit, each with its thresholds, none wider than 100 columns."""
    done = audit("all")
    assert 0 == done.exit_code
    titles = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("Audit ")]
    assert [f"{name}:" for name in AUDITS] == titles
    assert 7 == done.stdout.count("Thresholds ([audits]")
    assert 100 >= max(map(len, done.stdout.splitlines()))


AUDITS = ("waste", "idle", "unused", "regressions", "claims", "hardware", "coverage")


def test_the_list_is_cut_and_says_so(audit: Audit) -> None:
    """--top says how many of a kind are shown; what is left out is counted, and 0 shows all."""
    cut = audit("waste", "--top", "1").stdout
    assert "…and 2 more (--top 0 for all)\n" in cut
    assert "carol" not in cut
    assert "carol" in audit("waste", "--top", "0").stdout
    assert ["bob"] == subjects(audit("waste", "--top", "1", "--json"), "waste", "user")


@pytest.mark.parametrize(
    "option", [("--exclude-user", "bob"), ("-u", "carol,=frank"), ("--exclude-user", "dave,bob")]
)
def test_whom_to_look_at(audit: Audit, option: tuple[str, ...]) -> None:
    """Filters and exclusions take users out; the others' figures stay as they were."""
    every, asked = (
        {one["user"]: one for one in json.loads(done.stdout)["audits"][0]["entries"] if one["user"]}
        for done in (audit("waste", "--json"), audit("waste", "--json", *option))
    )
    assert ["=frank", "carol"] == list(asked)
    for user, entry in asked.items():
        assert every[user]["weight_gpu_hours"] == entry["weight_gpu_hours"]
        assert every[user]["runs"] == entry["runs"]


def test_exclusions_are_added_to_the_configurations(site: Path, audit: Audit, tmp_path: Path) -> None:
    """An option excludes besides what the site excludes; both are said."""
    config = tmp_path / "slurm-ofu.toml"
    config.write_text(site.read_text() + '[audits]\nexclude_users = ["carol"]\n')
    done = audit("waste", "--exclude-user", "bob", config=config)
    assert "Excluded: users carol, bob.\n" in done.stdout
    assert "2 excluded" in done.stdout


def test_a_check_says_what_would_be_looked_at(audit: Audit) -> None:
    """--check has the window, the runs, who is left out and why, and the thresholds; nobody is named, and
    it never fails."""
    done = audit("waste", "--check", "--fail-under", "1")
    assert (0, "") == (done.exit_code, done.stderr)
    for part in ("2025-06-14", "4 runs judged", "1 busy without tensor cores", "OFU below 10 %"):
        assert part in done.stdout
    assert "bob" not in done.stdout
    document = json.loads(audit("waste", "--check", "--json").stdout)
    assert [{"audit", "examined_count", "left_out"}] == [set(one) for one in document["audits"]]
    assert 0.1 == document["thresholds"]["waste_ofu_ratio"]


def test_a_check_names_exclusions_without_effect(audit: Audit) -> None:
    """One of whose user, account, QOS or partition no run of the window is may be misspelt."""
    done = audit("waste", "--check", "--exclude-user", "bob,bbo", "--exclude-partition", "lnog")
    assert 0 == done.exit_code
    assert "excluded, though no run of the window is of them: users bbo; partitions lnog\n" in done.stderr
    assert "" == audit("waste", "--exclude-user", "bbo").stderr


def test_audits_are_completed() -> None:
    """The shell offers the names, also after a comma."""
    (names,) = [param for param in audit_command.params if param.name == "names"]
    context = Context(audit_command)
    assert ["waste"] == [item.value for item in names.shell_complete(context, "w")]
    assert ["waste,claims", "waste,coverage"] == [
        item.value for item in names.shell_complete(context, "waste,c")
    ]
    assert [*AUDIT_NAMES, "all"] == [item.value for item in names.shell_complete(context, "")]


def test_json_says_units_window_and_thresholds(audit: Audit) -> None:
    """A program gets the schema's version, the window, a unit for every figure that is a number, and all
    entries with their runs."""
    document = json.loads(audit("all", "--json").stdout)
    assert (1, "2025-06-14T00:00:00+02:00") == (document["schema_version"], document["query"]["start"])
    units = document["units"]
    for result in document["audits"]:
        for entry in result["entries"]:
            for name, value in entry["figures"].items():
                assert isinstance(value, str) or value is None or name in units, name
    worst = document["audits"][0]["entries"][0]
    assert ("bob", [2]) == (worst["subject"], [run["job_id"] for run in worst["runs"]])


def test_csv_is_one_audit_and_safe(audit: Audit) -> None:
    """A spreadsheet gets one audit, a line for each entry, and no formula."""
    done = audit("waste", "--csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert ["bob", "'=frank", "carol"] == [row["subject"] for row in rows if row["kind"] == "user"]
    assert "2" == rows[0]["job_ids"]
    assert "\x1b" not in done.stdout
    two = audit("waste", "idle", "--csv")
    assert (1, "") == (two.exit_code, two.stdout)
    assert "--csv is of a single audit" in two.stderr


def test_no_control_character_reaches_a_terminal(audit: Audit) -> None:
    """Names are others' text: what a terminal would obey is replaced."""
    assert "\x1b" not in audit("waste").stdout
    assert "\x1b[1m" in audit("waste", "--color", "always").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("waste", "--fail-under", "0.08"), 0, ""),
        (("waste", "--fail-under", "0.09"), 10, "the pooled OFU, 8.5 %, is below 9.0 %"),
        (("all", "--fail-under", "0.09"), 10, "the pooled OFU, 8.5 %"),
        (("coverage", "--fail-under", "0.95"), 10, "the share of the GPU time with OFU"),
        (("coverage", "--fail-under", "0.8"), 0, ""),
        (
            ("waste", "-u", "alice", "--fail-under", "0.5"),
            0,
            "nothing to compare: the pooled OFU is not known",
        ),
        (("idle", "--fail-under", "0.5"), 1, "--fail-under judges waste"),
        (("waste", "--fail-under", "nan"), 1, "no number to compare with"),
        (("waste", "--fail-under", "40"), 1, "40 is no ratio: write one as in 0.5 for 50 %"),
        (("waste", "--fail-under", "1.1"), 10, "is below 110.0 %"),
        (("waste,idle", "-u", "alice"), 0, ""),
        (("waste,", "idle"), 1, "there is no audit ''"),
        (("waste", "--minimum-gpu-hours", "-1"), 1, "--minimum-gpu-hours"),
        (("waste", "--top", "-1"), 1, "--top"),
        ((), 1, "Missing argument"),
        (("wast",), 1, "there is no audit 'wast': did you mean waste?"),
        (("xyz",), 1, "they are waste, idle, unused, regressions, claims, hardware, coverage, all"),
        (("waste", "--json", "--csv"), 1, "exclude each other"),
        (("waste", "-u", "nobody"), 2, "no jobs match: user nobody"),
        (("waste", "--from-slurm"), 1, "waste cannot be had with --from-slurm"),
    ],
)
def test_exit_codes(audit: Audit, arguments: tuple[str, ...], code: int, said: str) -> None:
    """10 below --fail-under, never for a figure that is missing; 1 for what cannot be understood; 2 where
    no run matches."""
    done = audit(*arguments)
    assert code == done.exit_code
    assert said in done.stderr


def test_without_a_database(audit: Audit, tmp_path: Path) -> None:
    """Exit code 4 where there is no database, or no sacct for --from-slurm; what cannot be had is said."""
    config = configuration(tmp_path, tmp_path / "none.db")
    done = audit("waste", config=config)
    assert (4, "") == (done.exit_code, done.stdout)
    config.write_text(config.read_text() + '[accounting]\nbin_dir = "/nonexistent"\n')
    done = audit("all", "--from-slurm", config=config)
    assert (4, "") == (done.exit_code, done.stdout)
    assert "idle cannot be had with --from-slurm: what write-back leaves" in done.stderr
