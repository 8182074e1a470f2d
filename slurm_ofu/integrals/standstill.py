"""Profiling counters that say 0 while kernels run and power is drawn, as a wedged profiling module does.

SM activity without tensor work is a program's own affair; where SM activity is not known, nothing tells
the two apart, and nothing is suspect.
"""

from slurm_ofu.integrals.gpu_fold import GpuFold
from slurm_ofu.integrals.minutes import WORK_UTILISATION_RATIO

#: A GPU at rest draws less for each of its SMs, on boards of 70 W as on those of 700 W.
WATTS_PER_SM = 1.0
WATTS = 150.0  # of a GPU of which the number of SMs is not known
#: For so long in a row, or for such a part of what was judged, it spoils a run's figures.
LONGEST_SECONDS = 300.0
LARGEST_SHARE = 0.1


def standstill_seconds(fold: GpuFold, sm_count: int | None) -> float:
    """For how long they did so; nothing was measured then."""
    its = fold.minutes.finished(None)
    at_work = _is_at_work(its.standstill.total, its.standstill.seconds, sm_count)
    return its.standstill_seconds if at_work else 0.0


def counters_stand_still(fold: GpuFold, sm_count: int | None) -> bool:
    """Whether they did so for minutes in a row, for much of the run, or throughout a run without minutes."""
    its = fold.minutes.finished(None)
    judged, still = its.judged_seconds, standstill_seconds(fold, sm_count)
    if judged + its.standstill_seconds <= 0:
        return _throughout(fold, sm_count)
    long = its.standstill_longest_seconds >= LONGEST_SECONDS
    return still > 0 and (long or still >= LARGEST_SHARE * (judged + still))


def _throughout(fold: GpuFold, sm_count: int | None) -> bool:
    side = fold.side
    if side.sm_active.seconds <= 0 or side.sm_active.total > 0 or side.utilisation.seconds <= 0:
        return False
    if fold.sampled.tensor_megacycles > 0 or fold.cycles.tensor_megacycles > 0:
        return False
    busy = side.utilisation.total / side.utilisation.seconds >= WORK_UTILISATION_RATIO
    return busy and _is_at_work(side.power.total, side.power.seconds, sm_count)


def _is_at_work(joules: float, seconds: float, sm_count: int | None) -> bool:
    """By its power; without a reading of that (0 J in 0 s), by its utilisation alone."""
    least_watts = WATTS if sm_count is None else WATTS_PER_SM * sm_count
    return joules >= least_watts * seconds
