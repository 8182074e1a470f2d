"""GPUs and nodes that lag, over many jobs."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from slurm_ofu.audits.hardware import hardware
from slurm_ofu.figures.lags import lags, lasting_lag
from slurm_ofu.values import AuditConfig, AuditEntry, AuditResult, GpuTotals, RunGpu, UsageRow
from tests.audits.rows import GOALS, HOUR, SETTINGS, START, gpu, run

DAY = 24 * HOUR
CLOCK = 0.9  # of the reference clock, under load
OFU = 0.36
Place = tuple[str, int]
Make = Callable[[Place, int], dict[str, Any]]
ROW = run(1, *(gpu(position, hours=10.0) for position in range(8)))


def works(
    place: Place, job: int, *, clock: float = CLOCK, tensor: float = OFU / CLOCK, **changes: Any
) -> GpuTotals:
    """One GPU that computed at that clock for ten hours, its slow-down by heat known."""
    seconds = 10 * HOUR
    node_name, position = place
    values: dict[str, Any] = {
        "uuid": f"GPU-{node_name}-{position}",
        "tensor_active_seconds": tensor * seconds,
        "tensor_ref_seconds": tensor * clock * seconds,
        "throttled_thermal_seconds": 0.0,
        "throttled_power_seconds": 0.0,
        "throttle_covered_seconds": seconds,
    }
    return gpu(position, **{**values, **changes})


class Cluster:
    """Jobs on whole nodes of equal GPUs, and what is said of each."""

    def __init__(self, *, gpus_per_node: int = 8, seed: int = 1) -> None:
        self.gpus_per_node = gpus_per_node
        self.chance = random.Random(seed)
        self.runs: list[UsageRow] = []
        self.gpus: dict[int, Sequence[RunGpu]] = {}

    def job(self, node_names: Sequence[str], make: Make, *, user: str = "wilma") -> None:
        """One more job: ``make`` gives what is odd about a GPU in it."""
        number = len(self.runs)
        assert ROW.run is not None
        start = START + number * DAY
        facts = replace(
            ROW.run,
            run_id=number,
            job_id=number,
            user=user,
            start_epoch_s=start,
            end_epoch_s=start + 10 * HOUR,
        )
        self.runs.append(replace(ROW, run=facts))
        places = [(node, position) for node in node_names for position in range(self.gpus_per_node)]
        self.gpus[number] = tuple(
            RunGpu(run_id=number, node_name=place[0], totals=works(place, number, **make(place, number)))
            for place in places
        )

    def audit(self, settings: AuditConfig = SETTINGS) -> AuditResult:
        return hardware(self.runs, self.gpus, settings, GOALS)

    def noisy(self, clock: float = CLOCK, tensor: float = OFU / CLOCK) -> dict[str, Any]:
        """Clocks that scatter by 2 %, and work that scatters by 5 %."""
        return {"clock": clock * self.chance.gauss(1, 0.02), "tensor": tensor * self.chance.gauss(1, 0.05)}


def told(result: AuditResult) -> list[tuple[str, str]]:
    return [(entry.kind, entry.subject) for entry in result.entries]


def only(result: AuditResult) -> AuditEntry:
    (entry,) = result.entries
    return entry


def test_a_thousand_healthy_gpus() -> None:
    """Of 1,000 healthy GPUs in 50 jobs each, whose clocks differ by 1 % from GPU to GPU and scatter by 2 %,
    and whose work scatters by 5 %, at most one is listed, and no node."""
    cluster = Cluster()
    own: dict[Place, float] = {
        (f"n{node}", position): cluster.chance.gauss(CLOCK, 0.01)
        for node in range(125)
        for position in range(8)
    }
    for job in range(50):
        for node in range(125):
            cluster.job(
                [f"n{node}"], lambda place, _: cluster.noisy(own[place]), user=f"user{(job + node) % 7}"
            )
    result = cluster.audit()
    assert 1000 == result.examined_count
    assert len(result.entries) <= 1


def test_uneven_jobs_blame_no_gpu() -> None:
    """Where in every tenth job a GPU is 20 % behind for whatever reason, few jobs are no evidence: at most
    one in a thousand GPUs with 5 to 12 jobs is listed."""
    cluster = Cluster(seed=2)
    for job in range(12):
        for node in range(125):
            if job < 5 + node % 8:
                cluster.job(
                    [f"n{node}"],
                    lambda *_: cluster.noisy(CLOCK * (0.8 if cluster.chance.random() < 0.1 else 1.0)),
                )
    result = cluster.audit()
    assert 1000 == result.examined_count
    assert len(result.entries) <= 1


def test_a_gpu_8_percent_slow_is_found_from_ten_jobs() -> None:
    """Of 200 nodes with one GPU each at 0.92 of its siblings' clock, at least 198 are found after ten jobs,
    and no other GPU is blamed."""
    cluster = Cluster(seed=3)
    slow = {(f"n{node}", node % 8) for node in range(200)}
    for _ in range(10):
        for node in range(200):
            cluster.job(
                [f"n{node}"], lambda place, _: cluster.noisy(CLOCK * (0.92 if place in slow else 1.0))
            )
    found = {entry.subject for entry in cluster.audit().entries}
    wanted = {f"{node}:{position}" for node, position in slow}
    assert found <= wanted
    assert len(found) >= 198


def test_what_an_entry_says() -> None:
    """Node, position, UUID, by how much, in how many of how many jobs of how many users, how sure, and what
    its jobs lose: the lag times all their GPU-hours."""
    cluster = Cluster()
    for job in range(6):
        cluster.job(
            ["n1"],
            lambda place, _: {
                "clock": CLOCK * (0.9 if place == ("n1", 3) else 1.0),
                "throttled_thermal_seconds": HOUR if place == ("n1", 3) else 0.0,
            },
            user=f"user{job % 2}",
        )
    entry = only(cluster.audit())
    assert ("gpu_clock", "n1:3") == (entry.kind, entry.subject)
    known = {
        "lagging_job_count": 6,
        "job_count": 6,
        "user_count": 2,
        "node": "n1",
        "position": 3,
        "uuid": "GPU-n1-3",
    }
    assert known == {name: entry.figures[name] for name in known}
    assert pytest.approx([0.1, 0.1, 0.1, 0.81, 0.1, 0.0]) == [
        entry.figures[name]
        for name in (
            *("lag_ratio", "thermal_lag_ratio", "ofu_lag_ratio"),
            *("active_clock_ratio", "throttled_thermal_ratio", "throttled_power_ratio"),
        )
    ]
    assert pytest.approx(0.25**6) == entry.figures["chance_ratio"]
    assert pytest.approx(6 * 80 * 0.1) == entry.weight_gpu_hours
    assert 5 == len(entry.runs)


def less_on_rank_0(place: Place, _: int) -> dict[str, Any]:
    return {"tensor": 0.2} if place == ("n1", 0) else {}


def test_a_rank_that_does_less_by_design_is_not_the_gpus_fault() -> None:
    """A GPU that does less at the same clock in the jobs of one user, or two, is not listed."""
    cluster = Cluster()
    for job in range(20):
        cluster.job(["n1"], less_on_rank_0, user=f"user{job % 2}")
        cluster.job(["n2"], lambda *_: {})
    assert () == cluster.audit().entries


def test_a_gpu_that_does_less_in_everybodys_jobs_is_listed() -> None:
    """A GPU that does less than its siblings in the jobs of several users, and others at its position do
    not."""
    cluster = Cluster()
    for job in range(20):
        cluster.job(["n1"], less_on_rank_0, user=f"user{job % 4}")
        cluster.job(["n2"], lambda *_: {})
        cluster.job(["n3"], lambda *_: {})
    assert [("gpu_ofu", "n1:0")] == told(cluster.audit())


def test_where_every_first_gpu_does_less_none_is_listed() -> None:
    """Rank 0 lies at position 0 on every node: a lag that all of these have is no GPU's."""
    cluster = Cluster()
    for job in range(40):
        cluster.job(
            [f"n{job % 4}"],
            lambda place, _: {"tensor": 0.2} if place[1] == 0 else {},
            user=f"user{job % 7}",
        )
    assert () == cluster.audit().entries


def test_a_slow_node_is_reported_as_the_node() -> None:
    """All GPUs of a node lag those of the other nodes in the same jobs: one entry, of the node, no GPU's."""
    cluster = Cluster()
    for _ in range(8):
        cluster.job(
            ["n1", "n2", "n3"], lambda place, _: cluster.noisy(CLOCK * (0.9 if place[0] == "n2" else 1.0))
        )
    entry = only(cluster.audit())
    assert ("node_clock", "n2", None, None) == (
        entry.kind,
        entry.subject,
        entry.figures["position"],
        entry.figures["uuid"],
    )
    assert pytest.approx(0.1, abs=0.02) == entry.figures["lag_ratio"]


def test_alone_on_its_node_a_gpu_is_held_against_other_nodes() -> None:
    """In jobs of one GPU per node the siblings are on the other nodes."""
    cluster = Cluster(gpus_per_node=1)
    for _ in range(8):
        cluster.job(["n1", "n2", "n3"], lambda place, _: {"clock": 0.8 if place[0] == "n2" else CLOCK})
    assert [("gpu_clock", "n2:0")] == told(cluster.audit())


def test_a_hot_gpu_is_listed_by_its_slow_downs() -> None:
    """A GPU that heat slows down for a fifth of the time, its siblings never, is listed though its clock
    hardly lags."""
    cluster = Cluster()
    for _ in range(6):
        cluster.job(
            ["n1"],
            lambda place, _: {
                "clock": CLOCK * (0.97 if place[1] == 5 else 1.0),
                "throttled_thermal_seconds": 2 * HOUR if place[1] == 5 else 0.0,
            },
        )
    assert [("gpu_thermal", "n1:5")] == told(cluster.audit())


def test_suspect_gpus_are_listed_and_not_compared() -> None:
    """A GPU whose counters contradict each other is listed with its jobs; its figures are compared to
    nobody's."""
    cluster = Cluster()
    for _ in range(6):
        cluster.job(
            ["n1"],
            lambda place, _: {"clock": 0.1, "reason": "suspect"} if place == ("n1", 2) else {},
            user="fred",
        )
    entry = only(cluster.audit())
    assert ("gpu_suspect", "n1:2", 60.0) == (entry.kind, entry.subject, entry.weight_gpu_hours)
    assert (6, 1, "GPU-n1-2") == tuple(entry.figures[name] for name in ("job_count", "user_count", "uuid"))


@pytest.mark.parametrize(
    ("changes", "settings"),
    [
        ({"reason": "shared"}, SETTINGS),
        ({"mig_profile": "1g.10gb"}, SETTINGS),
        ({"gpu_model": "L40S"}, SETTINGS),
        ({"tensor_ref_seconds": None}, SETTINGS),
        ({"tensor": 0.001}, SETTINGS),
        ({}, AuditConfig(hardware_jobs=7)),
        ({}, AuditConfig(hardware_lag_ratio=0.3)),
        ({}, AuditConfig(exclude_users=("wilma",))),
        ({}, AuditConfig(minimum_seconds=11 * HOUR)),
        ({}, AuditConfig(minimum_gpu_hours=1000.0)),
    ],
)
def test_who_is_not_judged(changes: dict[str, Any], settings: AuditConfig) -> None:
    """Shared GPUs, slices, other models, GPUs without work or figure, few jobs, excluded ones: nothing is
    said."""
    cluster = Cluster()
    for _ in range(6):
        cluster.job(["n1"], lambda place, _: {"clock": 0.7, **changes} if place == ("n1", 2) else {})
    assert () == cluster.audit(settings).entries


def test_a_gpu_that_moved_is_one_gpu() -> None:
    """By its UUID a GPU is the same in another node; its label is where it was last. Order does not
    matter."""
    cluster = Cluster()
    for job in range(6):
        node = "n1" if job < 3 else "n2"
        cluster.job([node], lambda place, _: {"clock": 0.8, "uuid": "GPU-x"} if place[1] == 4 else {})
    result = cluster.audit()
    assert [("gpu_clock", "n2:4")] == told(result)
    shuffled: Mapping[int, Sequence[RunGpu]] = {key: cluster.gpus[key] for key in reversed(cluster.gpus)}
    assert result == hardware(cluster.runs[::-1], shuffled, SETTINGS, GOALS)


def test_without_gpus_nothing_is_said() -> None:
    """Runs of which single GPUs are not known, and no runs, give an empty result."""
    cluster = Cluster()
    cluster.job(["n1"], lambda *_: {})
    assert ((), 0) == (
        hardware(cluster.runs, {}, SETTINGS, GOALS).entries,
        hardware([], {}, SETTINGS, GOALS).examined_count,
    )


def test_lags_are_against_the_median_of_the_others() -> None:
    """Each is held against the others, never against itself; ties are no trouble."""
    assert pytest.approx([0.5, -1.0]) == lags([1.0, 2.0])
    assert pytest.approx([0.2, 0.0, 0.0, 0.0]) == lags([0.8, 1.0, 1.0, 1.0])
    assert pytest.approx([0.0, 0.0, 0.0]) == lags([1.0, 1.0, 1.0])


@pytest.mark.parametrize(
    ("series", "lasts"),
    [
        ((0.08,) * 5, True),
        ((0.08,) * 4, False),
        ((0.08,) * 4 + (0.0,), False),
        ((0.08,) * 8 + (0.0,) * 2, True),
        ((0.08,) * 7 + (0.0,) * 3, False),
        ((0.04,) * 50, False),
    ],
)
def test_a_lag_lasts_where_chance_does_not_do_it(series: tuple[float, ...], lasts: bool) -> None:
    """Five of five jobs, or eight of ten, are more than chance; seven of ten are not, nor is a small lag in
    fifty."""
    assert lasts == (lasting_lag(series, 0.05, 5) is not None)
