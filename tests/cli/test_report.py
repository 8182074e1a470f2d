"""ofu-report on a database that the real store wrote."""

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from slurm_ofu import __version__
from slurm_ofu.cli.report import report
from slurm_ofu.store.write import SqliteStore
from tests.cli.conftest import Ask, configuration
from tests.reports.examples import HOSTILE
from tests.store.records import expand, make_gpu, make_job, make_record

MISSING = (
    "no jobs match: job 7 (all times); a job appears here with its first record, at the latest when it has"
    " ended\n"
)
SINCE = ("-a", "-S", "2025-06-01")


def job_ids(text: str) -> list[str]:
    """The job ids of a -P answer with its header."""
    header, *lines = text.splitlines()
    column = header.split("|").index("job_id")
    return [line.split("|")[column] for line in lines]


def test_table(ask: Ask) -> None:
    """By default a line per run, coverage beside every OFU, a pooled total, window and zone on top."""
    result = ask(*SINCE, "-E", "2025-07-01", "-r", "gpu", "-u", "ada,bob", "-M", "alpha")
    assert (0, "") == (result.exit_code, result.stderr)
    assert (
        result.stdout
        == """\
OFU by job, user ada,bob; partition gpu; cluster alpha, 2025-06-01 00:00:00 to 2025-07-01 00:00:00
CEST (UTC+02:00)

JobID  Restarts  User  GPUs  GPU-h  Tensor   Clock  Coverage  OFU
1001          0  ada      8    8.0  22.9 %  87.5 %    48.6 %   20.0 % ±0.2 (not_delivered)
1002          0  bob      1    1.0     n/a     n/a     0.0 %  n/a (no_source)
1004          0  ada      1    1.0  22.9 %  87.5 %    97.2 %   20.0 % ±0.2
1004          1  ada      1    1.0  22.9 %  87.5 %    97.2 %   20.0 % ±0.2
---------------------------------------------------------------------------------------------
TOTAL                    11   11.0  22.9 %  87.5 %    53.0 %   20.0 % ±0.1 (not_delivered +1)

Notes
  not_delivered: the node was never heard from; its GPUs count as allocated
  no_source: no counter source on this GPU: NVML GPM (Hopper or later), DCGM or a dcgm-exporter
  ± is for the measured part only: where Coverage is below 95 % the rest may differ
  no room for Account, Partition: a wider terminal shows them, or --format
"""
    )


@pytest.mark.parametrize(
    ("by", "groups"),
    [
        ("user", ["ada", "bob"]),
        ("partition", ["gpu", "long"]),
        ("account", ["chem�[31mistry_x", "physics"]),
    ],
)
def test_groups(ask: Ask, by: str, groups: list[str]) -> None:
    """--by gives a line per user, partition or account."""
    result = ask(*SINCE, "--by", by, "-P", "-n")
    assert 0 == result.exit_code
    assert groups == [line.split("|")[0] for line in result.stdout.splitlines()]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("-u", "bob"), ["1002", "1003"]),
        (("-u", "bob", "--user", "ada"), ["1001", "1002", "1003", "1004", "1005", "1004"]),
        (("-r", "long"), ["1003"]),
        (("-A", "physics", "-u", "bob"), ["1002"]),
        (("-M", "beta"), ["1005"]),
        (("-E", "2025-06-02"), []),
        (("-S", "2025-06-15T18:30:00"), ["1004"]),
        (("-j", "1004,1002"), ["1002", "1004", "1004"]),
    ],
)
def test_selection(ask: Ask, options: tuple[str, ...], expected: list[str]) -> None:
    """Users, partitions, accounts, clusters, window and ids each narrow the answer."""
    result = ask(*SINCE, "-P", *options)
    assert (0 if expected else 2) == result.exit_code
    assert sorted(expected) == sorted(job_ids(result.stdout))


def test_pages(ask: Ask) -> None:
    """-j gives a page per run, in the order asked for, of any time; ids without a run are named on stderr."""
    result = ask("-j", "1004,7,1002")
    titles = [line for line in result.stdout.splitlines() if line.startswith("Job ")]
    assert [
        "Job 1004 on cluster alpha",
        "Job 1004 on cluster alpha, restart 1",
        "Job 1002 on cluster alpha",
    ] == titles
    assert (0, MISSING) == (result.exit_code, result.stderr)
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    "output", [("-P",), ("--csv",), ("--json",), ("--by", "user"), ("-P", "--by", "user")]
)
def test_missing_jobs_are_named_in_every_format(ask: Ask, output: tuple[str, ...]) -> None:
    """Ids without a run are named on stderr, however the others are shown."""
    result = ask("-j", "1004,7,1002", *output)
    assert (0, MISSING) == (result.exit_code, result.stderr)


def test_a_comma_after_the_last_id_is_no_harm(ask: Ask) -> None:
    """A trailing comma is not an id, and does not select everything."""
    assert ["1002"] == job_ids(ask("-j", "1002,", "-P").stdout)


GROUPED = {
    "user": ["ada", "bob"],
    "qos": ["unknown"],
    "job-name": ["unknown"],
    "node": ["n1", "n2"],
    "gpu-model": ["unknown", "NVIDIA H100 80GB HBM3"],
    "day": ["2025-06-15"],
    "hour": ["2025-06-15 17:00", "2025-06-15 18:00", "2025-06-15 19:00"],
}


@pytest.mark.parametrize("by", GROUPED)
def test_tables_of_groups(ask: Ask, by: str) -> None:
    """A line per group, and a total that counts each run once, whatever the groups share."""
    result = ask("-a", "-S", "2025-06-14", "-E", "2025-06-17", "--by", by, "-M", "alpha")
    assert (0, "") == (result.exit_code, result.stderr)
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"OFU by {by}, cluster alpha, 2025-06-14 00:00:00 to")
    total = next((line for line in lines if line.startswith("TOTAL ")), None)
    first = next(at for at, line in enumerate(lines) if " Runs " in line) + 1
    assert [True] * len(GROUPED[by]) == [
        line.startswith(group) for line, group in zip(lines[first:], GROUPED[by], strict=False)
    ]
    if total is not None:
        assert "5" == total.split()[1]


def test_days_and_hours_add_up(ask: Ask) -> None:
    """The spans' GPU-hours are those of the whole window, which cuts runs: hours of a run on either side."""
    window = ("-a", "-S", "2025-06-15T17:30", "-E", "2025-06-15T20:30", "-M", "alpha", "--json")
    whole = json.loads(ask(*window, "--by", "user").stdout)["total"]
    for by in ("day", "hour"):
        document = json.loads(ask(*window, "--by", by).stdout)
        hours = sum(row["gpu_hours"] or 0.0 for row in document["rows"])
        assert pytest.approx(whole["gpu_hours"]) == hours
        assert whole == document["total"]
    names = [row["hour"] for row in document["rows"]]
    assert ["2025-06-15T17:30+02:00", "2025-06-15T18:00+02:00"] == names[:2]


def test_jobs_by_hour_without_a_window(ask: Ask) -> None:
    """--jobs with --by hour is about the time in which they ran."""
    result = ask("-j", "1001", "--by", "hour", "-P", "-n", "-o", "Hour,GPUHours")
    assert (0, "2025-06-15T17:15+02:00|6.0\n2025-06-15T18:00+02:00|2.0\n") == (
        result.exit_code,
        result.stdout,
    )
    assert 2 == ask("-j", "7", "--by", "hour").exit_code


def test_chosen_fields(ask: Ask) -> None:
    """--format chooses the columns of lines, also of --jobs and of groups; notes come with the header."""
    lines = ask(*SINCE, "-o", "jobid%-6,ofu,cov,reason").stdout.splitlines()
    assert ["JobID", "OFU", "Coverage", "Reason"] == lines[0].split()
    assert "1001   20.0 % (not_delivered)   48.6 % not_delivered" == lines[2]
    assert "Notes" in lines
    assert "1002|\n" == ask("-j", "1002", "-n", "-p", "-o", "JobID").stdout
    assert "1002         n/a (no_source)\n" == ask("-j", "1002", "-n", "-o", "JobID,OFU%3").stdout
    assert (
        "ada;0.2\n"
        == ask(*SINCE, "-u", "ada", "--by", "user", "-nP", "--delimiter", ";", "-o", "User,OFU").stdout
    )
    assert "JobID,OFU\n1003,0.2\n" == ask(*SINCE, "-r", "long", "--csv", "-o", "JobID,OFU").stdout


def test_fields_from_the_environment(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """OFU_FORMAT is for lines by job: groups, pages and JSON stay as they are; --format goes before it."""
    monkeypatch.setenv("OFU_FORMAT", "JobID,Reason%20")
    assert "1001|not_delivered\n" == ask("-j", "1001", "-nP").stdout
    assert "8.0\n" == ask("-j", "1001", "-nP", "-o", "GPUs").stdout
    assert ask("-j", "1001").stdout.startswith("Job 1001 ")
    assert 1 == len(json.loads(ask("-j", "1001", "--json").stdout)["rows"])
    assert ask(*SINCE, "--by", "user", "-P").stdout.startswith("user|run_count|")
    monkeypatch.setenv("OFU_FORMAT", "JobID,Colour")
    assert "OFU_FORMAT: 'Colour' is no field" in ask("-j", "1001", "-P").stderr
    monkeypatch.setenv("OFU_FORMAT", " ")
    assert ask("-j", "1001", "-P").stdout.startswith("cluster|job_id|")


def test_running_jobs(tmp_path: Path) -> None:
    """-s R is about jobs that go on, which are marked; without it they are there as well."""
    database = tmp_path / "ofu.db"
    store = SqliteStore(database, group=None, world_readable=True, wait_seconds=30.0, expand_hostlist=expand)
    going_on = replace(make_record(make_job(job_id=1001)), interim=True)
    store.write([going_on, make_record(make_job(job_id=1002))])
    config = str(configuration(tmp_path, database))

    def shown(*options: str) -> str:
        return CliRunner().invoke(report, ["--config", config, *SINCE, *options]).stdout

    assert "1001|RUNNING|Unknown\n" == shown("-s", "R", "-nP", "-o", "JobID,State,End")
    assert ["1001", "1002"] == job_ids(shown("-P"))
    assert "(so far)" in shown("-s", "r")


def test_a_state_that_slurm_has_not_said(tmp_path: Path) -> None:
    """Who asks for a state hears of how many runs it is not known yet, also where it finds others; -s UNKNOWN
    shows those, and -s R says when a running job appears."""
    database = tmp_path / "ofu.db"
    store = SqliteStore(database, group=None, world_readable=True, wait_seconds=30.0, expand_hostlist=expand)
    store.write([make_record(make_job(job_id=1001)), make_record(make_job(job_id=1002))])
    config = str(configuration(tmp_path, database))

    def asked(*options: str) -> Result:
        return CliRunner().invoke(report, ["--config", config, *SINCE, *options])

    failed = asked("-s", "F")
    assert (2, "") == (failed.exit_code, failed.stdout)
    assert "no jobs match: state FAILED" in failed.stderr
    assert "2 runs of unknown state were left out" in failed.stderr
    unknown = asked("-s", "unknown", "-P")
    assert (["1001", "1002"], "") == (job_ids(unknown.stdout), unknown.stderr)
    assert "with its nodes' first record ([sampler] interim_seconds)" in asked("-s", "R").stderr


def test_a_page_says_that_it_knows_no_window(ask: Ask) -> None:
    """A page is about the whole job: where the window cuts it, that is said."""
    inside = ask("-j", "1001", "-S", "2025-06-15T17:30")
    assert "a page is about the whole job" in inside.stderr
    assert inside.stdout == ask("-j", "1001").stdout
    assert "" == ask("-j", "1001", "-S", "2025-06-14").stderr
    assert "" == ask("-j", "1001", "-S", "2025-06-15T17:30", "-P").stderr


def test_jobs_of_a_node_come_with_all_their_nodes(ask: Ask) -> None:
    """A table of them says so, since one might take its total for the node's."""
    whole = " ".join(ask(*SINCE, "-N", "n1").stdout.split())
    assert "with all their nodes; --by node has each by itself" in whole
    assert "any of the nodes asked for" in " ".join(ask(*SINCE, "-N", "n1", "-o", "JobID,OFU").stdout.split())
    assert "any of the nodes asked for" not in ask(*SINCE).stdout


def test_months(ask: Ask) -> None:
    """--by month cuts at local months, and they add up to the window."""
    lines = ask("-a", "-S", "2025-05-10", "-E", "2025-07-10", "--by", "month", "-P").stdout.splitlines()
    assert ["month", "2025-05", "2025-06", "2025-07"] == [line.split("|")[0] for line in lines]
    fields = ask(*SINCE, "-E", "2025-07-01", "--by", "month", "-nP", "-o", "Month,Runs").stdout
    assert fields.startswith("2025-06|")


def test_times_follow_slurms_variable(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """SLURM_TIME_FORMAT is that of Slurm's commands; one that cannot be used is exit code 1."""
    monkeypatch.setenv("SLURM_TIME_FORMAT", "%s")
    assert "1750000500\n" == ask("-j", "1001", "-nP", "-o", "Start").stdout
    monkeypatch.setenv("SLURM_TIME_FORMAT", "%H" * 999)
    result = ask("-j", "1001", "-nP", "-o", "Start")
    assert (1, "") == (result.exit_code, result.stdout)
    assert "SLURM_TIME_FORMAT" in result.stderr


def test_sorted(ask: Ask) -> None:
    """--sort brings the most GPU-hours first, and what is not known last."""
    ids = job_ids(ask(*SINCE, "-P", "--sort", "gpu-hours").stdout)
    assert ("1001", "1005") == (ids[0], ids[-1])


def test_worst_on_demand(ask: Ask) -> None:
    """--worst adds a list to JSON, empty where nothing is lost; without it there is none."""
    assert [] == json.loads(ask(*SINCE, "--json", "--worst", "3").stdout)["worst"]
    assert "worst" not in json.loads(ask(*SINCE, "--json").stdout)


def test_the_worst_runs(tmp_path: Path) -> None:
    """Under groups stand the runs that lost most, whoever is on no tensor cores not among them; --worst says
    how many, in JSON too, and --sort lost brings the groups into that order."""
    database = tmp_path / "ofu.db"
    store = SqliteStore(database, group=None, world_readable=True, wait_seconds=30.0, expand_hostlist=expand)
    judged: dict[str, Any] = {
        "idle_seconds": 0.0,
        "idle_covered_seconds": 3500.0,
        "non_tensor_covered_seconds": 3500.0,
    }
    runs = {1: (350.0, 0.0), 2: (1050.0, 0.0), 3: (0.0, 3500.0), 4: (1400.0, 0.0)}
    for job_id, (tensor_ref, non_tensor) in runs.items():
        gpu = replace(make_gpu(tensor_ref=tensor_ref), non_tensor_seconds=non_tensor, **judged)
        store.write([make_record(make_job(job_id=job_id, user=f"user{job_id}"), gpus=[gpu])])
    config = str(configuration(tmp_path, database))

    def shown(*options: str) -> str:
        return CliRunner().invoke(report, ["--config", config, *SINCE, *options]).stdout

    listed = shown("--by", "user").partition("Most lost GPU-hours\n")[2].splitlines()
    assert ["1", "2", ""] == [line[:4].strip() for line in listed[1:4]]
    assert "Most lost" not in shown("--by", "user", "--worst", "0") + shown() + shown("--by", "user", "-n")
    assert [1] == [row["job_id"] for row in json.loads(shown("--json", "--worst", "1"))["worst"]]
    assert "user1|0.729166666667\nuser2|0.243055555556\nuser4|0.0\nuser3|\n" == shown(
        "--by", "user", "--sort", "lost", "-nP", "-o", "User,Lost"
    )


@pytest.mark.parametrize("option", ["-e", "--helpformat"])
def test_help_format(option: str) -> None:
    """It needs neither a configuration nor a database."""
    result = CliRunner().invoke(report, [option])
    assert (0, True) == (result.exit_code, result.stdout.startswith("Account "))


def test_options_of_sacct_are_understood(ask: Ask) -> None:
    """-X and -D are what is shown anyway, a uid is a user, a step is its job, states are known by both names,
    and all clusters by -L or -M all."""
    assert ["1001"] == job_ids(ask("-X", "-j", "1001.batch", "-P").stdout)
    assert 2 == ask(*SINCE, "--uid", "0", "-P").exit_code
    assert 2 == ask(*SINCE, "-s", "to,FAILED", "-P").exit_code
    assert ["1001"] == job_ids(ask(*SINCE, "-N", "n[2-9]", "-M", "alpha", "-P").stdout)
    assert "1005" in job_ids(ask(*SINCE, "-LD", "-M", "alpha", "-P").stdout)
    assert "1005" in job_ids(ask(*SINCE, "-M", "all", "-P").stdout)
    assert ["1003"] == job_ids(ask("-aP", "--start", "2025-06-01", "--part=long").stdout)


def test_page_as_json(ask: Ask) -> None:
    """-j --json gives the same rows with nodes, GPUs and timeline."""
    document = json.loads(ask("-j", "1001", "--json").stdout)
    (row,) = document["rows"]
    assert (1001, 0.2, 2, 4) == (row["job_id"], row["ofu_ratio"], len(row["nodes"]), len(row["gpus"]))
    assert [0.2, 0.2] == row["timeline"]["ofu_ratios"]


def test_json(ask: Ask) -> None:
    """--json gives rows and a pooled total, and names the window with its offset."""
    document = json.loads(ask(*SINCE, "--json", "--by", "user").stdout)
    assert ["ada", "bob"] == [row["user"] for row in document["rows"]]
    assert (6, 0.2) == (document["total"]["run_count"], document["total"]["ofu_ratio"])
    assert "2025-06-01T00:00:00+02:00" == document["query"]["start"]


def test_csv(ask: Ask) -> None:
    """--csv gives a line per run that any reader splits as meant."""
    rows = list(csv.DictReader(io.StringIO(ask(*SINCE, "--csv").stdout)))
    assert ["1003"] == [row["job_id"] for row in rows if row["account"] == "chem�[31mistry|x"]
    assert ["", "0.2"] == [row["ofu_ratio"] for row in rows if row["job_id"] in ("1002", "1003")]


@pytest.mark.parametrize(
    ("options", "stdout"),
    [((), ""), (("-P", "-n"), ""), (("--csv", "-n"), ""), (("-j", "99"), "")],
)
def test_nothing_matches(ask: Ask, options: tuple[str, ...], stdout: str) -> None:
    """Where no job matches the answer is empty, exit code 2, and stderr says what was searched."""
    result = ask("-u", "nobody-there", "-S", "2025-01-01", "-E", "2025-02-01", *options)
    assert (2, stdout) == (result.exit_code, result.stdout)
    assert result.stderr.startswith("no jobs match: user nobody-there")
    assert "-a asks for everybody's" not in result.stderr
    assert "(2025-01-01 00:00:00 to 2025-02-01 00:00:00 CET (UTC+01:00))" in result.stderr


def test_no_match_in_json_keeps_the_schema(ask: Ask) -> None:
    """An empty answer in JSON has empty rows and no total."""
    result = ask("-u", "nobody-there", "--json")
    document = json.loads(result.stdout)
    assert (2, 2, [], None) == (
        result.exit_code,
        document["schema_version"],
        document["rows"],
        document["total"],
    )


@pytest.mark.parametrize("ids", ["abc", "123.", "12+", "1,,2", "", HOSTILE])
def test_malformed_ids(ask: Ask, ids: str) -> None:
    """What is not a job id is refused with exit code 3, in words that no terminal obeys."""
    result = ask(f"--jobs={ids}")
    assert (3, "") == (result.exit_code, result.stdout)
    assert "write 1234" in result.stderr
    assert "\x1b" not in result.stderr


USAGE_ERRORS = [
    (("--no-such-option",), "No such option"),
    (("stray",), "unexpected extra argument"),
    (("4703",), "4703 is no command; did you mean -j 4703?"),
    (("123_[1-5]",), "did you mean -j 123_[1-5]?"),
    (("--html", "/no/where", "--by", "user"), "leave --by, --sort and --worst out"),
    (("--html", "/no/where", "--sort", "lost"), "leave --by, --sort and --worst out"),
    (("--html", "/no/where", "--worst", "5"), "leave --by, --sort and --worst out"),
    (("-o", "JobID,Hour"), "with --by job there is no Hour (--by hour has it); there are"),
    (("--by", "colour"), "--by"),
    (("-s", "CD,LOST"), "'LOST' is no state; there are BF BOOT_FAIL, CA CANCELLED"),
    (("-N", "n[3-1]"), "runs backwards"),
    (("-N", "n[0-99999]"), "more names than the limit"),
    (("-N", ""), "a name is empty"),
    (("-q", ","), "a name is empty"),
    (("--worst", "-1"), "--worst"),
    (("-o", "JobID,Colour"), "'Colour' is no field; there are Account, "),
    (("-o", ""), "names no field"),
    (("--by", "user", "-o", "NodeList"), "with --by user there is no NodeList; there are User, OFU"),
    (("--json", "-o", "OFU"), "--format has no part in --json"),
    (("--delimiter", ";"), "--delimiter belongs to -p or -P"),
    (("-P", "--delimiter", ""), "--delimiter is empty"),
    (("--sta", "CD"), "No such option '--sta'"),
    (("--from-slurm", "-M", "all"), "name them, as in -M alpha,beta"),
    (("--from-slurm", "-L"), "name them, as in -M alpha,beta"),
    (("-P", "--delimiter", "."), "figures could hold it"),
    (("-p", "-P"), "exclude each other"),
    (("-S", "1990-01-01", "--by", "hour"), "over 10000 hours"),
    (("-u", ""), "a name is empty"),
    (("-u", "ada,,bob"), "a name is empty"),
    (("-u", "ad\udcffa"), "'ad\\udcffa': not a printable name"),
    (("-A", "\x1b[31m"), "not a printable name"),
    (("-S", "\x1b[31m"), "is not a time"),
    (("-S", "yesterweek"), "is not a time"),
    (("-S", "2025-06-02", "-E", "2025-06-01"), "the window ends before it begins"),
    (("-E", "2025-06-01"), "(the default)"),
    (("--json", "--csv"), "exclude each other"),
    (("-P", "--csv"), "exclude each other"),
    (("--json", "--csv", "-P"), "exclude each other"),
    (("--config", "/no/such/file.toml"), "no such file"),
]


@pytest.mark.parametrize(("options", "message"), USAGE_ERRORS)
def test_usage_errors(ask: Ask, options: tuple[str, ...], message: str) -> None:
    """What cannot be understood is refused with exit code 1 and a message on stderr alone."""
    result = ask(*options)
    assert (1, "") == (result.exit_code, result.stdout)
    assert message in result.stderr
    assert "\x1b" not in result.stderr


def test_no_database(tmp_path: Path) -> None:
    """Where there is no database the exit code is 4, and the message says which, whence and what to do."""
    config = configuration(tmp_path, tmp_path / "none.db")
    result = CliRunner().invoke(report, ["--config", str(config)])
    assert (4, "") == (result.exit_code, result.stdout)
    assert f"there is no accounting database at {tmp_path}/none.db (configuration: {config})" in result.stderr


@pytest.mark.parametrize("content", [b"not a database at all, but long enough " * 10, b""])
def test_not_a_database(tmp_path: Path, content: bytes) -> None:
    """A file that is no accounting database is exit code 4 with its path, not a traceback."""
    (tmp_path / "ofu.db").write_bytes(content)
    result = CliRunner().invoke(report, ["--config", str(configuration(tmp_path, tmp_path / "ofu.db"))])
    assert (4, "") == (result.exit_code, result.stdout)
    assert str(tmp_path / "ofu.db") in result.stderr


def test_a_directory_is_no_database(tmp_path: Path) -> None:
    """A directory in the database's place is exit code 4."""
    result = CliRunner().invoke(report, ["--config", str(configuration(tmp_path, tmp_path))])
    assert 4 == result.exit_code


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_is_one_screen(option: str) -> None:
    """Help fits a terminal of 24 lines of 80 columns, names only options that there are, and leads on."""
    result = CliRunner().invoke(report, [option])
    assert 0 == result.exit_code
    lines = result.stdout.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    options = {name for param in report.params for name in param.opts} | {"--help-all"}
    assert set() == set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", result.stdout)) - options - {"--help"}
    assert "--help-all" in result.stdout


def test_help_all() -> None:
    """All of the help explains the figure, shows examples and lists the exit codes, in 80 columns."""
    result = CliRunner().invoke(report, ["--help-all"])
    assert 0 == result.exit_code
    for words in ("Examples", "ofu-report -j 4711,4712", "Exit codes", "Coverage", "n/a"):
        assert words in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_version() -> None:
    """--version prints the version."""
    assert f"ofu-report, version {__version__}\n" == CliRunner().invoke(report, ["--version"]).stdout


@pytest.mark.parametrize(
    ("options", "no_color", "coloured"),
    [
        ((), None, False),
        (("--color", "always"), None, True),
        (("--color", "always"), "1", True),
        (("--color", "never"), None, False),
        (("--color", "always", "--json"), None, False),
        (("--color", "always", "-P"), None, False),
    ],
)
def test_colours(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], no_color: str | None, coloured: bool
) -> None:
    """Colours come on demand or on a terminal, and never into machine formats."""
    if no_color is not None:
        monkeypatch.setenv("NO_COLOR", no_color)
    assert coloured == ("\x1b[" in ask(*SINCE, *options).stdout)


def test_configuration_from_the_environment(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --config the file that OFU_CONFIG names is used."""
    monkeypatch.setenv("OFU_CONFIG", str(config))
    assert 0 == CliRunner().invoke(report, [*SINCE]).exit_code
