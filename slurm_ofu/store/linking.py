"""Which life in Slurm's accounting is which of our runs? Pure.

Always decided anew from all rows and all runs of a job id, so that the order in which they came in leaves no
trace. Equal SLUIDs decide. Else a run is one of the job of its user that lies nearest, and there lives and
runs are paired in their order: as many pairs as there can be, and of those the ones that lie nearest.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from slurm_ofu.store.lives import DAY_SECONDS, Life, same_user

#: Where the spans do not meet, a restart count that does not fit weighs as much as a clock so far off.
MISFIT_SECONDS: Final = 7200.0

Pairs = dict[int, Life]  # by run_id


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldRun:
    """What the nodes told of one run of the job id. Without a start only epilogs spoke."""

    run_id: int
    restart_count: int
    restart_certain: bool  # False: it may be one too high, and the SLUID the next life's
    sluid: str | None
    uid: int | None
    user: str | None
    start_epoch_s: float | None
    end_epoch_s: float


def link(lives: Sequence[Life], runs: Iterable[ToldRun]) -> Pairs:
    """The life of each run that has one; no life has two runs."""
    runs = sorted(runs, key=_order)
    pairs = _by_sluid(lives, runs)
    for certain in (True, False):  # runs of which only epilogs spoke get what is left
        jobs = _jobs([life for life in lives if life not in pairs.values()])
        nearest: dict[int, list[ToldRun]] = {}
        for run in runs:
            at = _nearest_job(jobs, run)
            if run.restart_certain == certain and run.run_id not in pairs and at is not None:
                nearest.setdefault(at, []).append(run)
        for at, own in nearest.items():
            pairs |= _in_order(jobs[at], own)
    return pairs


def _order(run: ToldRun) -> tuple[Any, ...]:
    """Lives of one job have increasing restart counts, whatever their nodes' clocks say."""
    begin = run.end_epoch_s if run.start_epoch_s is None else run.start_epoch_s
    uid = -1 if run.uid is None else run.uid
    return run.restart_count, begin, run.end_epoch_s, run.sluid or "", uid, run.run_id


def _by_sluid(lives: Iterable[Life], runs: Iterable[ToldRun]) -> Pairs:
    pairs: Pairs = {}
    certain = [run for run in runs if run.restart_certain and run.sluid is not None]
    for life in lives:
        its = [run for run in certain if run.sluid in life.sluids and run.run_id not in pairs]
        if its:
            pairs[min(its, key=lambda run: _apart_seconds(life, run)).run_id] = life
    return pairs


def _jobs(lives: Iterable[Life]) -> list[list[Life]]:
    """The lives of each job that had this id."""
    jobs: list[list[Life]] = []
    for life in lives:
        if jobs and life.job == jobs[-1][0].job:
            jobs[-1].append(life)
        else:
            jobs.append([life])
    return jobs


def _nearest_job(jobs: Sequence[Sequence[Life]], run: ToldRun) -> int | None:
    def distance(at: int) -> tuple[float, float]:
        fitting = [life for life in jobs[at] if _fits(life, run)]
        return min((_gap_seconds(life, run), _apart_seconds(life, run)) for life in fitting)

    possible = [at for at, job in enumerate(jobs) if any(_fits(life, run) for life in job)]
    return min(possible, key=distance, default=None)


def _in_order(lives: Iterable[Life], runs: Sequence[ToldRun]) -> Pairs:
    """The best way to pair them without any two pairs crossing.

    ``best[n]``: of the lives so far and the first n runs: (minus the pairs, what they cost, the pairs).
    """
    best: list[tuple[int, float, Pairs]] = [(0, 0.0, {})] * (len(runs) + 1)
    for life in lives:
        before, best = best, best[:1]
        for at, run in enumerate(runs):
            ways = [before[at + 1], best[at]]
            if _fits(life, run):
                minus, cost, pairs = before[at]
                ways.append((minus - 1, cost + _cost(life, run), {**pairs, run.run_id: life}))
            best.append(min(ways, key=lambda way: way[:2]))
    return best[-1][2]


def _fits(life: Life, run: ToldRun) -> bool:
    """Whether a run may be this life at all."""
    count = life.first.restart_count
    if run.restart_certain:
        other_sluid = run.sluid is not None and life.sluids and run.sluid not in life.sluids
        fits = not other_sluid and count in (None, run.restart_count)
    else:
        fits = count in (None, run.restart_count, run.restart_count - 1)
    return fits and same_user(life.first, run.uid, run.user) and _gap_seconds(life, run) <= DAY_SECONDS


def _cost(life: Life, run: ToldRun) -> float:
    numbers = (run.restart_count,) if run.restart_certain else (run.restart_count, run.restart_count - 1)
    misfit = life.number not in numbers and _gap_seconds(life, run) > 0
    return _apart_seconds(life, run) + (MISFIT_SECONDS if misfit else 0.0)


def _gap_seconds(life: Life, run: ToldRun) -> float:
    """Seconds between the two spans; 0 where they meet."""
    begin = run.end_epoch_s if run.start_epoch_s is None else run.start_epoch_s
    after = 0.0 if life.end_epoch_s is None else begin - life.end_epoch_s
    return max(0.0, after, life.start_epoch_s - run.end_epoch_s)


def _apart_seconds(life: Life, run: ToldRun) -> float:
    """By how much the two spans differ at either end, where both ends are known."""
    starts = 0.0 if run.start_epoch_s is None else abs(run.start_epoch_s - life.start_epoch_s)
    ends = 0.0 if life.end_epoch_s is None else abs(run.end_epoch_s - life.end_epoch_s)
    return max(starts, ends)
