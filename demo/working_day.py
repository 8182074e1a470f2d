"""Play a small cluster's working day and hold what was measured against the truth: `make demo`.

    python -m demo.working_day [--keep DIR]

The real hooks, installed by the real installer, start and stop real samplers; only Slurm and the GPUs
are played. Needs neither of them, nor root. Exit status: 0 when every figure is right, 1 when one is
not or a job is missing, 130 after Ctrl-C.
"""

import argparse
import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition, Event

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from demo.cluster_day import DAY, GPUS_PER_NODE, NODES, TWO_NODE_JOB, Run
from demo.comparison import Comparison, compare, print_comparison
from demo.nodes import Cluster, stage
from slurm_ofu.errors import ConfigError, OfuError

_SETTLE_SECONDS = 20.0
_WIDTH_WITHOUT_TERMINAL = 100
_SAID_EVERY_SECONDS = 5.0
_SINCE = "now-1hour"  # not today's midnight: the demo may be run at midnight
_DAY_SECONDS = max(run.submit_second + run.length_seconds for run in DAY)

Spans = Mapping[str, tuple[float, float]]


class DayEnded(Exception):
    """The day is broken off."""


@dataclass(slots=True)
class WorkingDay:
    """What goes on: runs in threads of their own, which wait for their time and their GPUs."""

    cluster: Cluster
    began: float = field(default_factory=time.monotonic)
    broken_off: Event = field(default_factory=Event)
    running: int = 0
    ended: int = 0
    _busy: set[tuple[str, int]] = field(default_factory=set)
    _changed: Condition = field(default_factory=Condition)

    def live(self, run: Run) -> Spans:
        """One run from submission to epilog; when each of its nodes was the run's (CLOCK_BOOTTIME)."""
        self._sleep(self.began + run.submit_second - time.monotonic())
        with self._holding({(node, position) for node in run.gpus for position in run.gpus[node]}):
            starts = {node: self._begin(run, node) for node in run.gpus}
            self._work(run)
            return {node: (start, self._end(run, node)) for node, start in starts.items()}

    def _begin(self, run: Run, node: str) -> float:
        start = _boottime_seconds()
        if node not in run.without_prolog:
            self.cluster.run_hook("prolog", run, node)
        return start

    def _work(self, run: Run) -> None:
        killed = run.sampler_killed_second
        if killed is not None:
            self._sleep(killed)
            for node in run.gpus:
                self.cluster.kill_sampler(run, node)
        self._sleep(run.length_seconds - (killed or 0.0))

    def _end(self, run: Run, node: str) -> float:
        end = _boottime_seconds()
        self.cluster.run_hook("epilog", run, node)
        return end

    def _sleep(self, seconds: float) -> None:
        if self.broken_off.wait(max(0.0, seconds)):
            raise DayEnded

    @contextlib.contextmanager
    def _holding(self, gpus: set[tuple[str, int]]) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: self.broken_off.is_set() or not gpus & self._busy)
            if self.broken_off.is_set():
                raise DayEnded
            self._busy |= gpus
            self.running += 1
        try:
            yield
        finally:
            with self._changed:
                self._busy -= gpus
                self.running -= 1
                self.ended += 1
                self._changed.notify_all()

    def break_off(self) -> None:
        """Let every run end at once, without its epilog."""
        self.broken_off.set()
        with self._changed:
            self._changed.notify_all()


def _boottime_seconds() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def play(cluster: Cluster, console: Console) -> list[Spans]:
    """Play the day; the spans of its runs, in their order. Raises OfuError when a hook failed."""
    day = WorkingDay(cluster)
    with ThreadPoolExecutor(len(DAY)) as threads:
        lives = [threads.submit(day.live, run) for run in DAY]
        try:
            _watch(day, lives, console)
        finally:
            day.break_off()
    return [life.result() for life in lives]


def _watch(day: WorkingDay, lives: Sequence[Future[Spans]], console: Console) -> None:
    """Show how far the day is until it is over or a run fails."""
    progress = Progress(
        TextColumn("The day"),
        BarColumn(30),
        TextColumn("{task.description}"),
        console=console,
        transient=True,
    )
    said_at = 0.0
    with progress if console.is_terminal else contextlib.nullcontext():
        task = progress.add_task("", total=_DAY_SECONDS)
        while True:
            done, waiting = wait(lives, timeout=0.1, return_when=FIRST_EXCEPTION)
            elapsed = time.monotonic() - day.began
            said = f"{elapsed:4.0f} s: {day.running:2} running, {day.ended:2} of {len(DAY)} over"
            progress.update(task, completed=min(elapsed, _DAY_SECONDS), description=said)
            if not console.is_terminal and elapsed - said_at >= _SAID_EVERY_SECONDS:
                console.print(said)
                said_at = elapsed
            for life in done:
                life.result()  # or the exception that ended it
            if not waiting:
                return


def await_records(cluster: Cluster) -> None:
    """Wait until every record is in the database; what then is missing is missing."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    while not cluster.is_settled() and time.monotonic() < deadline:
        time.sleep(0.05)


def report_command(name: str = "ofu-report") -> str:
    """One of our commands, from where this Python's others are. Raises ConfigError."""
    command = Path(sys.executable).parent / name
    if not command.exists():
        raise ConfigError(f"{command} does not exist: install slurm-ofu for this Python (pip install .)")
    return str(command)


def show_reports(console: Console, environment: Mapping[str, str]) -> None:
    """Three reports and an audit, as anybody would ask for them."""
    groups = [["-a", "-S", _SINCE, "--by", by] for by in ("user", "partition")]
    for options in (*groups, ["-j", str(TWO_NODE_JOB.job_id)]):
        _show(console, environment, "ofu-report", options)
    _show(console, environment, "ofu-admin", ["audit", "waste", "-S", _SINCE])


def _show(console: Console, environment: Mapping[str, str], name: str, options: Sequence[str]) -> None:
    console.print(f"\n$ {name} {shlex.join(options)}", style="bold")
    sys.stdout.flush()
    subprocess.run([report_command(name), *options], env=environment, check=True)


def write_pages(directory: Path, environment: Mapping[str, str]) -> None:
    """The day as web pages."""
    command = [report_command(), "-a", "-S", _SINCE, "--html", str(directory)]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)


def measured(environment: Mapping[str, str]) -> str:
    """Every run as ofu-report knows it, as JSON."""
    command = [report_command(), "-a", "-S", _SINCE, "--json"]
    return subprocess.check_output(command, env=environment, text=True)


def demonstrate(directory: Path, console: Console, *, with_pages: bool) -> int:
    """Build, play, report, compare. The exit status."""
    report_command()
    cluster = Cluster(directory)
    cluster.build()
    users, jobs = len({run.user for run in DAY}), len({run.job_id for run in DAY})
    console.print(
        f"{len(NODES)} nodes with {GPUS_PER_NODE} GPUs each, their hooks and configuration in {directory}\n"
        f"{users} users run {jobs} jobs in about {_DAY_SECONDS:.0f} seconds. The samplers are real, the GPUs"
        " played:\nwhat those truly did is known, and is shown beside what was measured."
    )
    spans = play(cluster, console)
    await_records(cluster)
    environment = {**os.environ, "OFU_CONFIG": str(cluster.config(NODES[0]))}
    show_reports(console, environment)
    if with_pages:
        write_pages(directory / "pages", environment)
    comparisons: list[Comparison] = compare(DAY, spans, measured(environment))
    return print_comparison(comparisons, console)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit status."""
    description = "Play a small cluster's working day, without root, Slurm or GPUs, and report on it."
    parser = argparse.ArgumentParser(prog="python -m demo.working_day", description=description)
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="play in DIR (new or empty), and leave it there"
    )
    keep: Path | None = parser.parse_args(arguments).keep
    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, _interrupt)
    width = None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL
    console = Console(width=width, highlight=False, markup=False)
    try:
        with stage(keep) as directory:
            status = demonstrate(directory, console, with_pages=keep is not None)
    except (OfuError, OSError, subprocess.CalledProcessError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted; everything it had started was ended", file=sys.stderr)
        return 130
    _say_goodbye(console, keep)
    return status


def _say_goodbye(console: Console, keep: Path | None) -> None:
    console.print("\nWhere to go next: README.md to install it; ofu-report -h for all its reports.")
    if keep is None:
        console.print("Everything the demo started and wrote is gone again.")
    else:
        config = shlex.quote(str(Cluster(keep.resolve()).config(NODES[0])))
        console.print("Nothing runs any more, and the files are still there:")
        console.print(f"  OFU_CONFIG={config} {report_command()} -a", soft_wrap=True)
        console.print(f"  {keep.resolve() / 'pages' / 'index.html'}", soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
