"""What the sampler of an 8-GPU job costs, beside a bare pynvml loop that makes the same calls.

Three processes run at the same time and see the same stand-in driver (50 µs of CPU time a call): the
bare loop (``bare_loop.py``), our sampler in a young job, and our sampler in a job that has run for a day
(``old_sampler.py``: its checkpoints are as large as they get). Everything goes ten times as fast as by
default: intervals of 1 s with 10 clock readings per GPU in each, a checkpoint every 3 s. That leaves the
proportions of the default (10 s, 10, 30 s) as they are, so that ratios hold and CPU shares are ten times
too high; the shares are given for the default.

CPU time is the kernel's clock of each whole process over the same seconds, start-up not included.
Driver calls are counted by the stand-in, and per interval in a process whose clock jumps
(``counted_calls.py``), so that they are exact.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.node import Node, build_driver, environment_with
from benchmarks.processes import cpu_seconds, memory_mb, wait_for
from benchmarks.rows import Row, count, median, ratio
from tests.standins.nvml_standin import read_calls

TITLE = "Sampler: CPU and memory with 8 GPUs"
HERE = Path(__file__).parent
GPU_COUNT = 8
FASTER = 10  # than by default
SETTINGS = "interval_seconds = 1\ncycles_interval_seconds = 1\ncheckpoint_seconds = 3\nseed = 1"
BARE = (sys.executable, "-I", str(HERE / "bare_loop.py"))
COUNTED = (sys.executable, "-m", "benchmarks.counted_calls")
YOUNG, OLD = ("-I", "-m", "slurm_ofu.hooks.sample"), ("-m", "benchmarks.old_sampler")


@dataclass(slots=True)
class Running:
    """A process under measurement."""

    process: subprocess.Popen[bytes]
    cpu_before: float = 0.0

    def stop(self) -> None:
        """Tell it that the job is over and wait for its end."""
        self.process.send_signal(signal.SIGUSR1)
        if self.process.wait(60) != 0:
            raise RuntimeError(f"{self.process.args!r}: exit code {self.process.returncode}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """One process in one round."""

    cpu_seconds: float
    rss_mb: float
    peak_mb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The three, over the same seconds."""

    seconds: float
    bare: Cost
    young: Cost
    old: Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerCost:
    """What was measured."""

    rounds: tuple[Round, ...]
    calls_per_interval: float
    bare_calls_per_interval: float

    @property
    def young_ratio(self) -> float:
        """CPU time of the young job's sampler in bare loops, median of the rounds."""
        return median([each.young.cpu_seconds / each.bare.cpu_seconds for each in self.rounds])

    @property
    def old_ratio(self) -> float:
        """The same for the day-long job's."""
        return median([each.old.cpu_seconds / each.bare.cpu_seconds for each in self.rounds])

    @property
    def rss_mb(self) -> float:
        """The most that the young job's sampler had at the end of a round."""
        return max(each.young.rss_mb for each in self.rounds)

    def rows(self) -> list[Row]:
        """For the table."""
        shares = {
            name: median(
                [getattr(each, name).cpu_seconds / each.seconds / FASTER * 100 for each in self.rounds]
            )
            for name in ("bare", "young", "old")
        }
        peaks = (max(getattr(each, name).peak_mb for each in self.rounds) for name in ("young", "old"))
        young_peak, old_peak = peaks
        return [
            Row(what="bare loop: CPU, of one core", value=shares["bare"], unit="%"),
            Row(what="sampler, young job: CPU, of one core", value=shares["young"], unit="%"),
            Row(what="sampler, day-long job: CPU, of one core", value=shares["old"], unit="%"),
            ratio("sampler, young job: CPU, in bare loops", self.young_ratio, 1, 1.3),
            ratio("sampler, day-long job: CPU, in bare loops", self.old_ratio, 1, 1.3),
            count("driver calls per interval, 8 GPUs", self.calls_per_interval),
            count("the same, bare loop", self.bare_calls_per_interval),
            Row(what="sampler, young job: RSS", value=self.rss_mb, unit="MB", goal=25),
            Row(what="sampler, young job: peak of RSS", value=young_peak, unit="MB"),
            Row(
                what="sampler, day-long job: RSS",
                value=max(each.old.rss_mb for each in self.rounds),
                unit="MB",
                goal=25,
            ),
            Row(what="sampler, day-long job: peak of RSS", value=old_peak, unit="MB"),
            Row(what="bare loop: RSS", value=max(each.bare.rss_mb for each in self.rounds), unit="MB"),
        ]


def measure(place: Path, seconds: float = 20.0, rounds: int = 5) -> SamplerCost:
    """Run the rounds, then count the calls."""
    library = build_driver(place / "driver", GPU_COUNT)
    found = tuple(_round(place / f"round{number}", library, seconds) for number in range(rounds))
    return SamplerCost(
        rounds=found,
        calls_per_interval=calls_per_interval(place / "counted", COUNTED),
        bare_calls_per_interval=calls_per_interval(place / "bare", BARE),
    )


def _round(place: Path, library: Path, seconds: float) -> Round:
    nodes = {name: _node(place / name, library) for name in ("young", "old")}
    with ExitStack() as running:
        old = start_sampler(nodes["old"], OLD)
        running.callback(old.stop)
        wait_for(lambda: nodes["old"].has_checkpoint(1), "the day-long job's first checkpoint", 120)
        young = start_sampler(nodes["young"], YOUNG)
        running.callback(young.stop)
        bare = start_bare(library)
        running.callback(bare.stop)
        wait_for(lambda: nodes["young"].has_checkpoint(1), "the first checkpoint")
        time.sleep(1.0)
        return _compare((bare, young, old), seconds)


def _compare(three: Sequence[Running], seconds: float) -> Round:
    begin = time.monotonic()
    for each in three:
        each.cpu_before = cpu_seconds(each.process.pid)
    time.sleep(seconds)
    bare, young, old = (
        Cost(
            cpu_seconds=cpu_seconds(each.process.pid) - each.cpu_before,
            rss_mb=memory_mb(each.process.pid),
            peak_mb=memory_mb(each.process.pid, "VmHWM"),
        )
        for each in three
    )
    return Round(seconds=time.monotonic() - begin, bare=bare, young=young, old=old)


def _node(place: Path, library: Path) -> Node:
    return Node(place, GPU_COUNT, source="nvml", sampler=f'nvml_library = "{library}"\n{SETTINGS}')


def start_sampler(node: Node, program: Sequence[str]) -> Running:
    """A sampler of job 1, without the prolog."""
    node.spool.make()
    options = ("--config", str(node.config), "--spool", str(node.spool.directory), "--tag", "1.0.100")
    environment = {**node.environment(1), "PYTHONPATH": str(HERE.parent)}
    return Running(subprocess.Popen((sys.executable, *program, *options), env=environment))


def start_bare(library: Path) -> Running:
    """The bare loop."""
    return Running(subprocess.Popen((*BARE, str(library), "1", "1000000"), stdout=subprocess.DEVNULL))


def calls_per_interval(place: Path, program: Sequence[str], gpu_count: int = GPU_COUNT) -> float:
    """Driver calls in each interval, exact: those of 15 intervals less those of 5."""
    library = build_driver(place, gpu_count, call_cost_us=0)
    totals = []
    for intervals in (5, 15):
        command = (*program, str(library), "0.01", str(intervals))
        subprocess.run(
            command, env=environment_with(PYTHONPATH=str(HERE.parent)), check=True, stdout=subprocess.DEVNULL
        )
        totals.append(_all_calls(library.parent / "calls"))
    return (totals[1] - totals[0]) / 10


def _all_calls(path: Path) -> int:
    (calls,) = read_calls(path).values()
    path.unlink()
    return sum(number for name, number in calls.items() if name.startswith("nvml"))
