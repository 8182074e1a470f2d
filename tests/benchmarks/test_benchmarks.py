"""Each benchmark in a short form: gates on counts, and on ratios measured side by side in one run.

The bounds are wide, since whatever else this machine does is in the figures; benchmarks/README.md has
what a longer run measures. The sizes are exact: nothing but the program decides them.
"""

from pathlib import Path

import pytest

from benchmarks import (
    collector_storm,
    epilog_wall,
    finish_storm,
    hook_latency,
    interim_cost,
    record_size,
    report_speed,
    sampler_cost,
    sampler_start,
)
from benchmarks.rows import median

pytestmark = pytest.mark.benchmark

#: Themselves included: the shell; for a GPU job a subshell and the sampler's first process as well.
PROCESSES = (1, 1, 3)


def test_hooks_hold_up_no_job(tmp_path: Path) -> None:
    """The prolog starts three processes, for a job without GPUs only itself, and costs a few empty hooks."""
    found = hook_latency.measure(tmp_path / "one", rounds=15)
    if _processes(found) != PROCESSES:  # others' processes are counted too: look for a quiet moment
        found = hook_latency.measure(tmp_path / "two", rounds=60)
    assert PROCESSES == _processes(found)
    empty = found.empty.median
    assert found.prolog.median < 12 * empty
    assert found.cpu_prolog.median < 4 * empty
    assert found.cpu_epilog.median < 4 * empty
    assert found.epilog.median < 300 * empty


def _processes(found: hook_latency.Latency) -> tuple[int, int, int]:
    return found.empty.processes, found.cpu_prolog.processes, found.prolog.processes


def test_the_sampler_costs_hardly_more_than_a_bare_loop(tmp_path: Path) -> None:
    """The same driver calls as a bare pynvml loop, at most twice its CPU time, and little memory."""
    found = sampler_cost.measure(tmp_path, seconds=6.0, rounds=1)
    assert found.young_ratio < 2.0
    assert found.old_ratio < 2.5
    assert found.rss_mb < 30


def test_driver_calls_per_interval(tmp_path: Path) -> None:
    """Per GPU and interval ten clock readings, five side figures, one GPM sample, one comparison."""
    assert 8 * (10 + 5 + 1 + 1) == sampler_cost.calls_per_interval(tmp_path / "ours", sampler_cost.COUNTED)
    assert 8 * (10 + 5 + 1 + 1) == sampler_cost.calls_per_interval(tmp_path / "bare", sampler_cost.BARE)


def test_the_sampler_starts_light(tmp_path: Path) -> None:
    """What it loads is bounded, without any of the reports' packages; it reads soon after a bare loop."""
    found = sampler_start.measure(tmp_path, rounds=3)
    assert len(found.modules) < 230
    assert not {"click", "rich", "sqlite_utils", "dateutil", "argparse", "logging"} & set(found.modules)
    assert median(found.ours) < 6 * median(found.bare)


def test_an_interim_record_costs_little(tmp_path: Path) -> None:
    """After a day on 8 GPUs its process costs some empty Python processes; it is one run, however often."""
    found = interim_cost.measure(tmp_path, rounds=3)
    assert (1, 1) == found.stored
    assert median(found.child) < 40 * median(found.bare)
    assert found.peak_mb < 60


def test_a_long_job_ends_in_time(tmp_path: Path) -> None:
    """After a day on 8 GPUs the record is in the outbox before the epilog has to give up."""
    found = epilog_wall.measure(tmp_path, rounds=2)
    assert 0 == found.lost


def test_runs_that_finish_at_once_are_all_stored_once(tmp_path: Path) -> None:
    """Two finishers per spool, all spools at once: every run is in the database, none twice, none left."""
    found = finish_storm.measure(tmp_path, runs=40)
    assert (40, 40) == (found.stored_runs, found.stored_gpus)
    assert (0, 0) == (found.left_behind, found.failed)


def test_nodes_that_come_at_once_are_all_stored_once(tmp_path: Path) -> None:
    """Every node is told that its record was taken, and every record is in the database once."""
    found = collector_storm.measure(tmp_path, nodes=60)
    assert (60, 60) == (found.answered, found.stored)
    assert (0, 0) == (found.more_than_once, found.left_behind)


def test_statements_per_record(tmp_path: Path) -> None:
    """Storing a record takes one statement per quarter hour and a fixed number besides."""
    quarters = len(record_size.day_record(1).quarters)
    assert 97 == quarters
    assert finish_storm.statements(tmp_path / "alone.db", 1) - quarters <= 30
    assert finish_storm.statements(tmp_path / "batch.db", 50) / 50 - quarters <= 20


def test_a_day_fits_into_two_kilobytes(tmp_path: Path) -> None:
    """At most 2,048 bytes per GPU and day, whichever estimator spoke and however full its time-line is."""
    found = record_size.measure(tmp_path, rounds=5)
    largest = max(found.bytes_of_one, found.sampled_bytes_of_one, found.fullest_bytes_of_one)
    assert max(largest, found.bytes_of_eight / 8) <= record_size.LIMIT_BYTES
    assert found.encode_seconds < 10 * found.bare_encode_seconds
    assert found.decode_seconds < 120 * found.bare_decode_seconds


def test_a_report_is_a_few_queries(tmp_path: Path) -> None:
    """A report's statements do not depend on the number of runs, and it costs a few bare queries."""
    small = report_speed.measure(_made(tmp_path / "small"), runs=20, rounds=1)
    large = report_speed.measure(_made(tmp_path / "large"), runs=500, rounds=5)
    assert small.statements == large.statements <= 10
    assert large.by_user_ratio < 8


def _made(place: Path) -> Path:
    place.mkdir()
    return place
