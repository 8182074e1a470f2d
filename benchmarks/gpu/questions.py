"""The parts that answer the open questions: on an idle GPU, as another user, under load, by turns."""

import time
from collections.abc import Mapping
from typing import Any

from benchmarks.gpu.agreement import rate, slowdown
from benchmarks.gpu.gemm import Product
from benchmarks.gpu.load import boottime_ns
from benchmarks.gpu.session import Session
from benchmarks.gpu.worker import Refused, Worker, WorkerFailed
from slurm_ofu.values import SamplerConfig

#: Enough work to draw full power: the clock goes down under it and up again at rest.
HEAVY = Product(precision="fp16", m=8192, n=8192, k=8192)
#: Short products, each in need of the next one's launch: what disturbs a program shows in them.
BRISK = Product(precision="fp16", m=2048, n=2048, k=2048)
ANSWER_SECONDS = 30.0


def idle(session: Session) -> None:
    """Before anything runs on the GPU: which ids answer, and do the counters go on on an idle GPU?"""
    pace = session.pace
    asked: Mapping[str, Mapping[str, float]] = {
        "ids": {"seconds": max(0.15, pace(0.5))},
        "counters": {"seconds": max(0.15, pace(2.0))},
        "same_sample": {},
        "clock_samples": {},
    }
    for name, arguments in asked.items():
        with session.part(f"idle: {name}"):
            found = session.observer.ask(
                "probe", limit=session.within(ANSWER_SECONDS), name=name, **arguments
            )
            session.results.put(f"idle.{name}", found)


def other_user(session: Session, worker: Worker) -> None:
    """The same, as a user without rights; ``worker`` becomes that user."""
    try:
        with session.part("without root"):
            for name, question in (("reading", "whole_reading"), ("ids", "probe")):
                arguments = {"name": "ids", "seconds": 0.2} if question == "probe" else {}
                found = worker.ask(question, limit=session.within(ANSWER_SECONDS), **arguments)
                session.results.put(f"without_root.{name}", found)
    finally:
        worker.close()


def under_load(session: Session) -> None:
    """While the GPU multiplies: scale of the counters, refresh, what a sample costs."""
    pace = session.pace
    asked: Mapping[str, Mapping[str, Any]] = {
        "counters": {"seconds": max(0.15, pace(2.0))},
        "same_sample": {},
        "refresh": {"seconds": max(0.3, pace(3.0)), "every": 0.004, "pairs": max(1, int(pace(6)))},
        "cost": {"rounds": max(20, int(pace(300))), "pause": 0.05 if pace.faster == 1 else 0.002},
        "clock_samples": {},
    }
    with session.part("under load"), session.multiplying(HEAVY, 60):
        time.sleep(pace(1.0))
        for name, arguments in asked.items():
            with session.part(f"under load: {name}"):
                found = session.observer.ask(
                    "probe", limit=session.within(ANSWER_SECONDS), name=name, **arguments
                )
                session.results.put(f"under_load.{name}", found)


def by_turns(session: Session) -> None:
    """While load and rest alternate: is GPM's mean one over cycles or over time?"""
    busy = max(0.4, session.pace(1.0))
    with session.part("load by turns"), session.alternating(HEAVY, busy, 0.8 * busy):
        found = session.observer.ask(
            "probe",
            limit=session.within(60),
            name="weighting",
            seconds=max(1.0, session.pace(9.0)),
            interval=0.2,
        )
        session.results.put("by_turns.weighting", found)


def slowed(session: Session) -> None:
    """A GEMM with and without the sampler beside it, by turns, at the product's pace and ten times it."""
    for name, faster, most, seconds in (("tenfold", 10.0, 10, 2.0), ("default", 1.0, 4, 5.0)):
        turns = max(2, round(session.pace(most)))
        with session.part(f"slowdown, {name} pace"):
            session.results.put(f"slowdown.{name}", _slowed(session, faster, turns, session.pace(seconds)))


def _slowed(session: Session, faster: float, turns: int, seconds: float) -> dict[str, Any]:
    settings = SamplerConfig()
    interval = settings.interval_seconds / faster
    quiet: list[tuple[int, int]] = []
    sampled: list[tuple[int, int]] = []
    if session.left() < (2 * turns + 1) * seconds + 5:
        raise Refused("too little time was left")
    with session.multiplying(BRISK, (2 * turns + 1) * (seconds + 2)) as marks:
        time.sleep(session.pace(1.0))
        for turn in range(turns):
            quiet.append(_nothing_for(seconds))
            found = session.observer.ask(
                "observe",
                limit=session.within(seconds + 30),
                seconds=seconds,
                interval_seconds=interval,
                clock_readings=settings.clock_readings,
                seed=turn,
            )
            sampled.append((found["begin_ns"], found["over_ns"]))
        quiet.append(_nothing_for(seconds))
    rates = [[rate(marks, *stretch) for stretch in stretches] for stretches in (quiet, sampled)]
    known = [[value for value in row if value is not None] for row in rates]
    result = slowdown(*known)
    if result is None or len(known[0]) <= len(known[1]):
        raise WorkerFailed("the GEMM's marks do not enclose the turns")
    return {
        "product": BRISK.name,
        "interval_seconds": interval,
        "turn_seconds": seconds,
        **{name: getattr(result, name) for name in result.__slots__},
        "rates": rates,
    }


def _nothing_for(seconds: float) -> tuple[int, int]:
    begin = boottime_ns()
    time.sleep(seconds)
    return begin, boottime_ns()
