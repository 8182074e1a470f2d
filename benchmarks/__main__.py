"""``python -m benchmarks [NAME …]``: run them, all without a name, and print what they found."""

import platform
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from benchmarks import (
    accounting_rate,
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
from benchmarks.rows import Row, table


class Found(Protocol):
    """What a benchmark measured."""

    def rows(self) -> list[Row]:
        """For the table."""


BENCHMARKS: Mapping[str, tuple[str, Callable[[Path], Found]]] = {
    "hook_latency": (hook_latency.TITLE, hook_latency.measure),
    "sampler_cost": (sampler_cost.TITLE, sampler_cost.measure),
    "interim_cost": (interim_cost.TITLE, interim_cost.measure),
    "sampler_start": (sampler_start.TITLE, sampler_start.measure),
    "epilog_wall": (epilog_wall.TITLE, epilog_wall.measure),
    "finish_storm": (finish_storm.TITLE, finish_storm.measure),
    "collector_storm": (collector_storm.TITLE, collector_storm.measure),
    "record_size": (record_size.TITLE, record_size.measure),
    "report_speed": (report_speed.TITLE, report_speed.measure),
    "accounting_rate": (accounting_rate.TITLE, accounting_rate.measure),
}


def main(names: Sequence[str]) -> int:
    """Run what was asked for; 0, also where a goal was missed: milliseconds depend on the machine."""
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"unknown: {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.platform()}\n")
    for name in names or BENCHMARKS:
        title, measure = BENCHMARKS[name]
        begin = time.monotonic()
        try:
            with tempfile.TemporaryDirectory(prefix="ofu-bench-") as place:
                found = measure(Path(place))
        except accounting_rate.CannotMeasure as error:
            print(f"### {title}\n\nnot measured: {error}\n", flush=True)
            continue
        print(table(title, found.rows()))
        print(f"({name}: {time.monotonic() - begin:.0f} s)\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
