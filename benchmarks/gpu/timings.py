"""How often the counters change, and what reading them costs."""

import time
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from typing import Any

from benchmarks.gpu.gpm import KNOWN_IDS, Gpm, Taken
from benchmarks.rows import percentile
from slurm_ofu.counters.nvml import ANY_TENSOR, MIN_INTERVAL_SECONDS, SM_CYCLES_ELAPSED

Evidence = dict[str, Any]
PAIR_DISTANCES_MS = (250, 150, 110, 90, 60, 40, 20, 10, 5, 2)


def refresh(gpm: Gpm, *, seconds: float, every: float, pairs: int) -> Evidence:
    """How often what a sample holds changes: against one old sample, and between close pairs."""
    older = gpm.take()
    time.sleep(MIN_INTERVAL_SECONDS)
    found = {
        name: _changes(gpm, older, metric, seconds, every)
        for name, metric in (("gauge", ANY_TENSOR), ("cycles", SM_CYCLES_ELAPSED))
    }
    gpm.free(older)
    seen = {name: row["median_ms"] for name, row in found.items() if row["median_ms"] is not None}
    words = [f"{name}: every {value:.0f} ms" for name, value in seen.items()]
    return {
        "answer": "; ".join(words) or "no change was seen",
        **found,
        "pairs": [_pair(gpm, distance, pairs) for distance in PAIR_DISTANCES_MS],
    }


def cost(gpm: Gpm, product_read: Callable[[], Any], *, rounds: int, pause: float) -> Evidence:
    """Wall and CPU time of a sample with its metrics, of a clock reading, and of the product's whole
    reading: back to back, and as a sampler makes them, out of sleep."""
    samples = [gpm.take()]
    time.sleep(MIN_INTERVAL_SECONDS)
    samples.append(gpm.take())
    there = [
        metric for metric in KNOWN_IDS if gpm.ask(samples[0], samples[1], (metric,)).value(metric) is not None
    ]

    def sample() -> None:
        samples.reverse()
        gpm.take(samples[1])
        gpm.ask(samples[0], samples[1], there)

    calls: dict[str, Callable[[], Any]] = {
        "sample": sample,
        "clock": gpm.sm_clock_mhz,
        "whole_reading": product_read,
    }
    found = {
        name: {
            "back_to_back": _timed(call, rounds, 0.0),
            "out_of_sleep": _timed(call, max(10, rounds // 5), pause),
        }
        for name, call in calls.items()
    }
    gpm.free(*samples)
    words = [
        f"{name.replace('_', ' ')} {row['out_of_sleep']['wall_median_us']:.0f} µs "
        f"(p99 {row['out_of_sleep']['wall_p99_us']:.0f})"
        for name, row in found.items()
    ]
    return {"answer": ", ".join(words), "metrics": there, **found}


def _changes(gpm: Gpm, older: Taken, metric: int, seconds: float, every: float) -> Evidence:
    newer = gpm.take()
    before = repr(gpm.ask(older, newer, (metric,)))
    at, polls, begin_ns = [], 0, newer.at_ns
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(every)
        newer = gpm.take(newer)
        now = repr(gpm.ask(older, newer, (metric,)))
        polls += 1
        if now != before:
            at.append(newer.at_ns)
            before = now
    gpm.free(newer)
    gaps = [(later - earlier) / 1e6 for earlier, later in pairwise(at)]
    return {
        "seconds": (newer.at_ns - begin_ns) / 1e9,
        "polls": polls,
        "changes": len(at),
        "median_ms": median(gaps) if gaps else None,
        "shortest_ms": min(gaps, default=None),
        "longest_ms": max(gaps, default=None),
    }


def _pair(gpm: Gpm, distance_ms: int, times: int) -> Evidence:
    """Of pairs that far apart: how many gave a tensor activity, and what the others were told."""
    good, said = 0, set()
    older = gpm.take()
    for _ in range(times):
        time.sleep(distance_ms / 1000)
        newer = gpm.take()
        answer = gpm.ask(older, newer, (ANY_TENSOR,))
        value = answer.value(ANY_TENSOR)
        if value is not None and 0 <= value <= 100:
            good += 1
        else:
            said.add(str(answer.plain()["metrics"].get(str(ANY_TENSOR), answer.plain()["says"])))
        gpm.free(older)
        older = newer
    gpm.free(older)
    return {"distance_ms": distance_ms, "pairs": times, "good": good, "others": sorted(said)}


def _timed(call: Callable[[], Any], rounds: int, pause: float) -> Evidence:
    wall, cpu = [], []
    for _ in range(rounds):
        if pause:
            time.sleep(pause)
        began, began_cpu = time.perf_counter_ns(), time.thread_time_ns()
        call()
        wall.append((time.perf_counter_ns() - began) / 1e3)
        cpu.append((time.thread_time_ns() - began_cpu) / 1e3)
    return {
        "rounds": rounds,
        "wall_median_us": median(wall),
        "wall_p99_us": percentile(wall, 0.99),
        "cpu_median_us": median(cpu),
    }
