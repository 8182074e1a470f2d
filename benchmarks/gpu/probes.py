"""The open questions about GPM and its counters. Each probe gives its evidence and an answer in words."""

import time
from itertools import pairwise
from typing import Any

import pynvml

from benchmarks.gpu.gpm import KNOWN_IDS, NO_METRIC, Answer, Gpm, Taken, word
from slurm_ofu.counters.nvml import ANY_TENSOR, MMA_CYCLES_ACTIVE, SM_CYCLES_ELAPSED
from slurm_ofu.integrals.cycles import counter_scale

Evidence = dict[str, Any]
CYCLES = (SM_CYCLES_ELAPSED, MMA_CYCLES_ACTIVE)
#: Below this two values of a counter are the same.
SAME = 1e-3
PROCESSOR_CLOCK_SAMPLES = 5


def ids(gpm: Gpm, *, seconds: float) -> Evidence:
    """Which metrics answer, each asked for alone and all in one request, and what an unknown one gets."""
    older = gpm.take()
    time.sleep(seconds)
    newer = gpm.take()
    alone = {metric: gpm.ask(older, newer, (metric,)) for metric in (*KNOWN_IDS, NO_METRIC)}
    together = gpm.ask(older, newer, KNOWN_IDS)
    with_unknown = gpm.ask(older, newer, (ANY_TENSOR, NO_METRIC))
    gpm.free(older, newer)
    there = [metric for metric in KNOWN_IDS if alone[metric].value(metric) is not None]
    missing = [metric for metric in KNOWN_IDS if metric not in there]
    refused = alone[NO_METRIC]
    own_code = refused.metrics.get(NO_METRIC, (refused.code, None))[0]
    return {
        "answer": f"ids {_list(there)} answer{f', {_list(missing)} do not' if missing else ''}",
        "cycle_counters": all(metric in there for metric in CYCLES),
        "unknown_id_answer": f"call: {refused.code} ({word(refused.code)}), metric: {own_code} "
        f"({word(own_code)}); beside a known one: call {with_unknown.code}",
        "alone": {str(metric): answer.plain() for metric, answer in alone.items()},
        "together": together.plain(),
        "with_unknown": with_unknown.plain(),
    }


def counters(gpm: Gpm, *, seconds: float, sm_count: int | None) -> Evidence:
    """Absolute or difference, by three samples; cycles per second against the clock; whether they stand."""
    samples, clocks = [gpm.take()], [0.0]
    for _ in range(2):
        clocks = _clocks(gpm, seconds)
        samples.append(gpm.take())
    first, middle, last = samples
    asked = (ANY_TENSOR, *CYCLES)
    pairs = ((first, middle), (middle, last), (first, last))
    early, late, whole = (gpm.ask(older, newer, asked) for older, newer in pairs)
    gpm.free(*samples)
    span = (last.at_ns - middle.at_ns) / 1e9
    elapsed = tuple(answer.value(SM_CYCLES_ELAPSED) for answer in (early, late, whole))
    form = _form(*elapsed)
    taken_from = _taken_from(*elapsed) if form == "absolute" else None
    cycles = _advance(form, early.value(SM_CYCLES_ELAPSED), late.value(SM_CYCLES_ELAPSED))
    mma = _advance(form, early.value(MMA_CYCLES_ACTIVE), late.value(MMA_CYCLES_ACTIVE))
    clock_mhz = sum(clocks) / len(clocks) if clocks else None
    counted_mhz = None if cycles is None else cycles / span / 1e6
    scale = None
    if counted_mhz is not None and clock_mhz is not None:
        scale = counter_scale(counted_mhz, clock_mhz, sm_count)
    gauge = late.value(ANY_TENSOR)
    return {
        "answer": _in_words(f"{form}, {taken_from}'s" if taken_from else form, counted_mhz, clock_mhz, scale),
        "form": form,
        "taken_from": taken_from,
        "seconds": span,
        "counted_mhz": counted_mhz,
        "clock_mhz": clock_mhz,
        "clock_readings": len(clocks),
        "clock_range_mhz": [min(clocks), max(clocks)] if clocks else None,
        "scale": scale,
        "tpa_by_cycles": None if not cycles or mma is None else mma / cycles,
        "tpa_by_gauge": None if gauge is None else gauge / 100,
        "pairs": [answer.plain() for answer in (early, late, whole)],
    }


def same_sample(gpm: Gpm) -> Evidence:
    """MetricsGet with one sample on both sides: would one reading be enough for absolute counters?"""
    sample = gpm.take()
    answers = {metric: gpm.ask(sample, sample, (metric,)) for metric in (ANY_TENSOR, *CYCLES)}
    gpm.free(sample)
    names = {ANY_TENSOR: "tensor activity", SM_CYCLES_ELAPSED: "cycles", MMA_CYCLES_ACTIVE: "MMA cycles"}
    return {
        "answer": "; ".join(f"{names[metric]}: {_said(answers[metric], metric)}" for metric in answers),
        "alone": {str(metric): answer.plain() for metric, answer in answers.items()},
    }


def _said(answer: Answer, metric: int) -> str:
    code, value = answer.metrics.get(metric, (answer.code, None))
    if answer.code != 0:
        return f"the call answers {answer.code} ({word(answer.code)})"
    return f"code {code} ({word(code)})" if code != 0 else f"success, {value:.10g}"


def clock_samples(gpm: Gpm) -> Evidence:
    """The driver's own buffer of past clock readings."""
    try:
        _, rows = pynvml.nvmlDeviceGetSamples(gpm.handle, PROCESSOR_CLOCK_SAMPLES, 0)
    except pynvml.NVMLError as error:
        return {"answer": f"code {error.value} ({error})", "code": int(error.value)}
    times = [int(row.timeStamp) for row in rows]
    span = (max(times) - min(times)) / 1e6 if times else 0.0
    return {
        "answer": f"{len(times)} samples over {span:.1f} s",
        "code": 0,
        "count": len(times),
        "seconds": span,
    }


def weighting(gpm: Gpm, *, seconds: float, interval: float) -> Evidence:
    """Is GPM's tensor activity a mean over cycles or over time? While load and rest alternate, and the
    clock with them, one long pair of samples is held against the short ones in it."""
    samples, clocks = [gpm.take()], []
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        clocks.append(_clocks(gpm, interval))
        samples.append(gpm.take())
    whole = gpm.ask(samples[0], samples[-1], (ANY_TENSOR, *CYCLES)).value(ANY_TENSOR)
    short = [
        _short(gpm, older, newer, read)
        for (older, newer), read in zip(pairwise(samples), clocks, strict=True)
    ]
    gpm.free(*samples)
    rows = [row for row in short if row is not None]
    if whole is None or len(rows) < len(short) or not rows:
        return {"answer": "not known: tensor activity or clock did not answer throughout", "short": short}
    return _weighed(whole / 100, rows)


def _weighed(whole: float, rows: list[tuple[float, float, float]]) -> Evidence:
    time_mean = sum(tpa * span for span, tpa, _ in rows) / sum(span for span, _, _ in rows)
    cycles = sum(mhz * span for span, _, mhz in rows)
    cycle_mean = sum(tpa * mhz * span for span, tpa, mhz in rows) / cycles
    apart = abs(time_mean - cycle_mean)
    by_cycles, by_time = abs(whole - cycle_mean), abs(whole - time_mean)
    if apart < 0.01:
        answer = f"not known: the two means are only {100 * apart:.2f} points apart"
    elif min(by_cycles, by_time) > apart / 3:
        answer = "neither mean fits"
    else:
        answer = "weighted by cycles" if by_cycles < by_time else "weighted by time"
    means = f"mean over cycles {cycle_mean:.4f}, over time {time_mean:.4f}"
    return {
        "answer": f"{answer} (long interval {whole:.4f}; {means})",
        "whole": whole,
        "cycle_mean": cycle_mean,
        "time_mean": time_mean,
        "short": [list(row) for row in rows],
    }


def _short(gpm: Gpm, older: Taken, newer: Taken, clocks: list[float]) -> tuple[float, float, float] | None:
    """(seconds, tensor activity, mean clock) between two samples; the counters' clock where they are."""
    answer = gpm.ask(older, newer, (ANY_TENSOR,))
    tensor = answer.value(ANY_TENSOR)
    if tensor is None or not clocks:
        return None
    return (newer.at_ns - older.at_ns) / 1e9, tensor / 100, sum(clocks) / len(clocks)


def _clocks(gpm: Gpm, seconds: float, every: float = 0.01) -> list[float]:
    """Clock readings over so long; it takes at least that long."""
    found = []
    until = time.monotonic() + seconds
    while True:
        mhz = gpm.sm_clock_mhz()
        if mhz is not None:
            found.append(mhz)
        left = until - time.monotonic()
        if left <= 0:
            return found
        time.sleep(min(every, left))


def _form(early: float | None, late: float | None, whole: float | None) -> str:
    """v(s0,s1), v(s1,s2), v(s0,s2): an absolute counter is that of the newer sample whatever the older."""
    if early is None or late is None or whole is None:
        return "absent"
    largest = max(abs(early), abs(late), abs(whole))
    if largest == 0:
        return "zero"
    is_absolute = abs(whole - late) <= SAME * largest
    is_difference = abs(whole - (early + late)) <= SAME * largest
    if is_absolute == is_difference:
        return "unclear"
    return "absolute" if is_absolute else "difference"


def _taken_from(early: float | None, late: float | None, whole: float | None) -> str | None:
    """Of an absolute counter: whether MetricsGet gives that of the newer sample, as is assumed."""
    if early is None or late is None or whole is None or early == late:
        return None
    return "newer sample" if abs(whole - late) < abs(whole - early) else "older sample"


def _advance(form: str, early: float | None, late: float | None) -> float | None:
    """Cycles between the second and the third sample."""
    if early is None or late is None:
        return None
    return late - early if form == "absolute" else late


def _in_words(form: str, counted_mhz: float | None, clock_mhz: float | None, scale: float | None) -> str:
    if form == "absent":
        return "the counters do not answer"
    if counted_mhz is None or clock_mhz is None:
        return f"{form}; no clock to compare with"
    if scale is not None:
        means = "per SM" if scale == 1 else f"summed over {scale:.0f} SMs"
    else:
        means = "they stand still" if counted_mhz < 0.01 * clock_mhz else "neither per SM nor summed"
    return f"{form}; {counted_mhz:.1f} MHz by the counter, {clock_mhz:.1f} by the clock: {means}"


def _list(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"
