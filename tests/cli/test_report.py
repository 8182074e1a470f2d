"""ofu-report on a database that the real store wrote."""

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from slurm_ofu import __version__
from slurm_ofu.cli.report import report
from tests.cli.conftest import Ask, configuration
from tests.reports.examples import HOSTILE

MISSING = "no jobs match: job 7 (all times); a job appears here only after it has ended\n"
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
    assert 0 == result.exit_code
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
def test_no_match_is_an_answer(ask: Ask, options: tuple[str, ...], stdout: str) -> None:
    """Where no job matches the answer is empty, exit code 0, and stderr says what was searched."""
    result = ask("-u", "nobody-there", "-S", "2025-01-01", "-E", "2025-02-01", *options)
    assert (0, stdout) == (result.exit_code, result.stdout)
    assert result.stderr.startswith("no jobs match: user nobody-there")
    assert "(2025-01-01 00:00:00 to 2025-02-01 00:00:00 CET (UTC+01:00))" in result.stderr


def test_no_match_in_json_keeps_the_schema(ask: Ask) -> None:
    """An empty answer in JSON has empty rows and no total."""
    result = ask("-u", "nobody-there", "--json")
    document = json.loads(result.stdout)
    assert (0, 1, [], None) == (
        result.exit_code,
        document["schema_version"],
        document["rows"],
        document["total"],
    )


@pytest.mark.parametrize("ids", ["abc", "123.batch", "12+", "1,,2", "", HOSTILE])
def test_malformed_ids(ask: Ask, ids: str) -> None:
    """What is not a job id is refused with exit code 3, in words that no terminal obeys."""
    result = ask(f"--jobs={ids}")
    assert (3, "") == (result.exit_code, result.stdout)
    assert "write 1234" in result.stderr or "ask for its job, 123" in result.stderr
    assert "\x1b" not in result.stderr


USAGE_ERRORS = [
    (("--no-such-option",), "No such option"),
    (("stray",), "unexpected extra argument"),
    (("--by", "node"), "--by"),
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
def test_help(option: str) -> None:
    """Help explains the figure, shows examples and lists the exit codes, in 80 columns."""
    result = CliRunner().invoke(report, [option])
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
