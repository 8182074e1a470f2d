"""How long until the sampler has read a counter, beside the least that Python can do?

From the start of the process to the first reading of 8 GPUs over the stand-in driver (50 µs a call): our
sampler (the instant is in its first checkpoint), the bare pynvml loop (it prints the instant) and a bare
interpreter that does nothing. And what the sampler imports: the number of modules, and the time by
``-X importtime``, which costs time itself and is therefore only a guide.
"""

import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.node import Node, build_driver
from benchmarks.processes import run_to_end, wait_for
from benchmarks.rows import Row, count, median, ms, ratio
from benchmarks.sampler_cost import BARE, GPU_COUNT, SETTINGS, YOUNG, start_sampler
from slurm_ofu.samples.checkpoint import decode_checkpoint

TITLE = "Sampler: start"
IMPORTED = "import sys, slurm_ofu.hooks.sample, slurm_ofu.counters.nvml; print(*sys.modules)"


@dataclass(slots=True)
class Start:
    """What was measured; seconds of each round."""

    python: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    ours: list[float] = field(default_factory=list)
    from_prolog: list[float] = field(default_factory=list)
    modules: tuple[str, ...] = ()
    import_seconds: dict[str, float] = field(default_factory=dict)

    def rows(self) -> list[Row]:
        """For the table."""
        ours, bare = median(self.ours), median(self.bare)
        return [
            ms("python -I -c pass", median(self.python)),
            ms("bare pynvml loop: start to first reading", bare),
            ms("sampler: start to first reading", ours),
            ratio("the same, in bare pynvml loops", ours, bare),
            ms("start of the prolog to first reading", median(self.from_prolog)),
            count("modules loaded", len(self.modules)),
            *(ms(f"import {name}, all below it", took) for name, took in self.import_seconds.items()),
        ]


def measure(place: Path, rounds: int = 20) -> Start:
    """Interleaved rounds; the first does not count."""
    library, found = build_driver(place / "driver", GPU_COUNT), Start()
    for number in range(rounds + 1):
        node = Node(
            place / f"node{number}",
            GPU_COUNT,
            source="nvml",
            sampler=f'nvml_library = "{library}"\n{SETTINGS}',
        )
        each = (_python(), _bare(library), _ours(node), _from_prolog(node))
        if number:
            for seconds, kind in zip(
                each, (found.python, found.bare, found.ours, found.from_prolog), strict=True
            ):
                kind.append(seconds)
    command = (sys.executable, "-I", "-c", IMPORTED)
    found.modules = tuple(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    found.import_seconds = import_seconds()
    return found


def _python() -> float:
    return run_to_end((sys.executable, "-I", "-c", "pass"))


def _bare(library: Path) -> float:
    begin_ns = _now_ns()
    done = subprocess.run((*BARE, str(library), "0.01", "0"), capture_output=True, text=True, check=True)
    return (int(done.stdout) - begin_ns) / 1e9


def _ours(node: Node) -> float:
    begin_ns = _now_ns()
    sampler = start_sampler(node, YOUNG)
    wait_for(lambda: node.has_checkpoint(1), "the first checkpoint")
    first_ns = _first_reading_ns(node, 1)
    sampler.stop()
    return (first_ns - begin_ns) / 1e9


def _from_prolog(node: Node) -> float:
    begin_ns = _now_ns()
    node.run_prolog(2)
    wait_for(lambda: node.has_checkpoint(2), "the first checkpoint")
    first_ns = _first_reading_ns(node, 2)
    node.run_epilog(2)
    wait_for(lambda: node.is_delivered(2), "the record to leave")
    return (first_ns - begin_ns) / 1e9


def _first_reading_ns(node: Node, job_id: int) -> int:
    """The checkpoint waits for the clock after the second reading, which says when the first was."""
    data = node.spool.checkpoint(node.tag(job_id))
    assert data is not None
    fold = decode_checkpoint(data).gpus[0].fold
    assert fold is not None
    return int(fold["pending"]["reading"]["since_ns"])


def _now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def import_seconds() -> dict[str, float]:
    """The sampler and its costliest parts, each with all that it was the first to import."""
    command = (sys.executable, "-I", "-X", "importtime", "-c", IMPORTED)
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    lines = (line.removeprefix("import time:").split("|") for line in said.splitlines() if "|" in line)
    found = {name.strip(): int(total) / 1e6 for _, total, name in lines if total.strip().isdecimal()}
    names = ("slurm_ofu.hooks.sample", "pynvml", "slurm_ofu.values", "dataclasses", "sqlite3", "subprocess")
    return {name: found[name] for name in names if name in found}
