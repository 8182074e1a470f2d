"""The end of a job with 8 GPUs that ran for a day: how long does its epilog take?

The sampler holds a day's sums of each GPU (``old_sampler.py``), reads over the stand-in driver (50 µs a
call) at the default intervals, and is told to finish: by the epilog, run as slurmd runs it; or, in every
second round, by the signal alone, watched until the mark appears that the record is in the outbox, on
disk. The epilog looks for that mark every 20 ms. No other process wants the CPU much: on a node whose
cores are all busy the sampler, which runs at nice 19, is slower, and the epilog waits two seconds at most.
"""

import os
import random
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.node import Node, build_driver
from benchmarks.processes import wait_for
from benchmarks.rows import Row, count, median, ms
from benchmarks.sampler_cost import GPU_COUNT, HERE

TITLE = "End of a day-long job with 8 GPUs"


@dataclass(slots=True)
class EpilogWall:
    """What was measured; seconds of each round."""

    epilog: list[float] = field(default_factory=list)
    to_mark: list[float] = field(default_factory=list)
    lost: int = 0  # rounds in which the epilog had to give up

    def rows(self) -> list[Row]:
        """For the table."""
        return [
            ms("epilog, median", median(self.epilog), 300),
            ms("epilog, slowest", max(self.epilog)),
            ms("signal to done mark, median", median(self.to_mark)),
            ms("signal to done mark, slowest", max(self.to_mark)),
            count("samplers that were not done in time", self.lost),
        ]


def measure(place: Path, rounds: int = 20) -> EpilogWall:
    """Epilog and signal in turn."""
    library, found = build_driver(place / "driver", GPU_COUNT), EpilogWall()
    settings = f'nvml_library = "{library}"'
    node = Node(place / "node", GPU_COUNT, source="nvml", sampler=settings, python=_old_python(place))
    draw = random.Random(1)
    for job_id in range(1, rounds + 1):
        node.run_prolog(job_id)
        wait_for(lambda: node.has_checkpoint(job_id), "the first checkpoint", 120)  # noqa: B023
        time.sleep(0.2 + draw.random() / 2)
        tag = node.tag(job_id)
        if job_id % 2:
            found.epilog.append(node.run_epilog(job_id))
            found.lost += not (node.spool.done / tag).exists()
        else:
            found.to_mark.append(_signal_to_mark(node, job_id, tag))
        wait_for(lambda: node.is_delivered(job_id), "the record to leave")  # noqa: B023
    return found


def _signal_to_mark(node: Node, job_id: int, tag: str) -> float:
    mark, process_id = node.spool.done / tag, node.sampler_pid(job_id)
    begin = time.perf_counter()
    os.kill(process_id, signal.SIGUSR1)
    wait_for(mark.exists, "the done mark", every=0.0005)
    return time.perf_counter() - begin


def _old_python(place: Path) -> Path:
    """What the hooks take for Python: the sampler that it starts is a day old."""
    script = place / "python"
    sampler = f"PYTHONPATH='{HERE.parent}' exec '{sys.executable}' -m benchmarks.old_sampler \"$@\""
    lines = (
        "#!/bin/sh",
        f'if [ "$3" = slurm_ofu.hooks.sample ]; then shift 3; {sampler}; fi',
        f"exec '{sys.executable}' \"$@\"",
    )
    script.write_text("\n".join((*lines, "")))
    script.chmod(0o755)
    return script
