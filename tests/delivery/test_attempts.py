"""When a node tries again."""

import statistics
from pathlib import Path
from random import Random

import pytest

from slurm_ofu.delivery.attempts import FIRST_SECONDS, LONGEST_SECONDS, Attempts

T = 10_000.0  # uptime


def waits(path: Path, seed: int, failures: int) -> list[float]:
    """Seconds that a node waits after each failure in a row, to two seconds."""
    attempts, now, found = Attempts(path, Random(seed)), T, []
    for _ in range(failures):
        attempts.failed(now)
        begin = now
        while not attempts.due(now):
            now += 2.0
        found.append(now - begin)
    return found


def test_at_first_it_is_due(tmp_path: Path) -> None:
    """Nobody failed: try at once."""
    assert Attempts(tmp_path / "attempts").due(T)


def test_waits_grow_to_ten_minutes(tmp_path: Path) -> None:
    """After each further failure the wait may be twice as long, up to ten minutes, and is never longer."""
    found = [waits(tmp_path / f"{seed}", seed, 12) for seed in range(40)]
    for number, column in enumerate(zip(*found, strict=True)):
        longest = min(LONGEST_SECONDS, FIRST_SECONDS * 2**number)
        assert longest + 2.0 >= max(column) > longest * 0.8


def test_nodes_come_back_at_different_times(tmp_path: Path) -> None:
    """Waits are spread over the whole span: of a thousand nodes few come in the same second."""
    found = []
    for seed in range(300):
        attempts = Attempts(tmp_path / f"{seed}", Random(seed))
        for step in range(7):
            attempts.failed(T + step * (LONGEST_SECONDS + 1))
        found.append(float((tmp_path / f"{seed}").read_text().split()[1]) - T - 6 * (LONGEST_SECONDS + 1))
    assert 0 < min(found) < 30
    assert 250 < statistics.mean(found) < 350
    assert 540 < max(found) <= LONGEST_SECONDS


def test_success_forgets(tmp_path: Path) -> None:
    """After a success it is due at once, and the next failure counts as the first."""
    attempts = Attempts(tmp_path / "attempts", Random(1))
    for _ in range(8):
        attempts.failed(T)
    attempts.succeeded()
    attempts.succeeded()
    assert attempts.due(T)
    attempts.failed(T)
    assert attempts.due(T + FIRST_SECONDS)


def test_failures_at_once_count_once(tmp_path: Path) -> None:
    """Samplers of several jobs that fail together are one failure."""
    attempts = Attempts(tmp_path / "attempts", Random(1))
    for _ in range(10):
        attempts.failed(T)
    assert (tmp_path / "attempts").read_text().startswith("1 ")


def test_a_reboot_forgets(tmp_path: Path) -> None:
    """A time beyond the longest wait is of an earlier boot: try at once."""
    attempts = Attempts(tmp_path / "attempts", Random(1))
    for step in range(8):
        attempts.failed(T + step * 1000)
    assert not attempts.due(T + 7000)
    assert attempts.due(30.0)


@pytest.mark.parametrize("text", ["", "x", "1", "1 2 3", "1 nan", "1 inf", "-5 9e99", "\0" * 20])
def test_nonsense_is_as_good_as_nothing(tmp_path: Path, text: str) -> None:
    """A file that cannot be read keeps nobody from trying, nor from remembering."""
    (tmp_path / "attempts").write_text(text)
    attempts = Attempts(tmp_path / "attempts", Random(1))
    assert attempts.due(T)
    attempts.failed(T)
    assert not attempts.due(T)


def test_a_full_disk_keeps_nobody_from_trying(tmp_path: Path) -> None:
    """Where nothing can be remembered every attempt is due."""
    attempts = Attempts(tmp_path / "nowhere/attempts")
    attempts.failed(T)
    attempts.succeeded()
    assert attempts.due(T)
