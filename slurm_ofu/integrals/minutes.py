"""What is judged minute by minute: idle, busy without tensor cores, and counters that cannot be right.

metric.md 7. The minutes are fixed buckets of 60 s from the run's first reading on, whatever the estimator
and its interval: a reading is laid over the minutes that it touches. Tensor activity is the reading's own
ratio, which both estimators share. Only the minute that is being filled is kept.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from slurm_ofu.integrals.series import MINUTE_NS, QUARTER_NS, JudgedQuarter, spread
from slurm_ofu.integrals.side import MeanSum, SideSums
from slurm_ofu.values import Reading

#: SM activity below this is none to speak of: something looked at the GPU.
IDLE_SM_RATIO = 0.01
#: Tensor activity below this is that of a program that does not use the tensor cores.
NON_TENSOR_RATIO = 0.005
#: Tensor activity up to this is none: the dust of counters and of their decimals.
NO_TENSOR_WORK_RATIO = 1e-4
#: A mean over more than this says nothing of single minutes.
LONGEST_SECONDS = 300.0
#: Kernels that run half of the time are active on some SM: no GPU has so many that it could be less.
WORK_UTILISATION_RATIO = 0.5
STANDSTILL_SM_RATIO = 1e-3
_NO_UTILISATION_RATIO = 0.005
_HALF_A_MINUTE_SECONDS = 30.0
_PRIMING_NS = 10**9


@dataclass(slots=True)
class Minute:
    """One bucket: means of what was read in it, each with the seconds that it is known over."""

    tensor: MeanSum = field(default_factory=MeanSum)
    sm_active: MeanSum = field(default_factory=MeanSum)
    utilisation: MeanSum = field(default_factory=MeanSum)
    power: MeanSum = field(default_factory=MeanSum)


@dataclass(slots=True)
class Minutes:
    """The minutes of one GPU so far, as sums, and the one that is being filled."""

    start_ns: int | None = None  # None: nothing was read yet
    index: int = 0
    minute: Minute = field(default_factory=Minute)
    covered_until_ns: int | None = None  # the latest reading with tensor activity
    covered_from_ns: int = 0  # where its time begins
    judged_seconds: float = 0.0
    idle_seconds: float = 0.0
    idle_stretch_seconds: float | None = None  # up to the latest minute; None: that one was not judged
    sm_judged_seconds: float = 0.0  # of the judged ones, those whose SM activity is known
    non_tensor_seconds: float = 0.0
    standstill: MeanSum = field(default_factory=MeanSum)  # power, over the minutes that cannot be right
    standstill_seconds: float = 0.0
    standstill_stretch_seconds: float = 0.0
    standstill_longest_seconds: float = 0.0
    # What the side figures were at the latest reading with tensor activity.
    utilisation_before: MeanSum = field(default_factory=MeanSum)
    power_before: MeanSum = field(default_factory=MeanSum)
    wall_offset_ns: int = 0  # wall clock minus boottime, for the quarters' labels
    quarters: dict[int, JudgedQuarter] = field(default_factory=dict)  # epoch // 900 s → sums

    def add(self, reading: Reading, side: SideSums, wall_offset_ns: int = 0) -> None:
        """Lay a reading over its minutes; ``side`` has counted it already."""
        self.wall_offset_ns = wall_offset_ns
        if self.start_ns is None:
            self.start_ns = _origin_ns(reading)
        tensor = reading.tensor_active_ratio
        if reading.since_ns is None or tensor is None:
            return
        utilisation = _since(side.utilisation, self.utilisation_before)
        power = _since(side.power, self.power_before)
        seconds = (reading.taken_ns - reading.since_ns) / 1e9
        if seconds > LONGEST_SECONDS:
            return
        sm_active = reading.sm_active_ratio
        begin, end = reading.since_ns - self.start_ns, reading.taken_ns - self.start_ns
        for index, share in spread(max(0, begin), end, MINUTE_NS):
            if index != self.index:
                self._turn_to(index)
            minute, part = self.minute, share * seconds
            minute.tensor.add(tensor, part)
            minute.sm_active.add(sm_active, part)
            _add_share(minute.utilisation, utilisation, share)
            _add_share(minute.power, power, share)
        self.covered_from_ns, self.covered_until_ns = reading.since_ns, reading.taken_ns

    def finished(self, end_ns: int | None) -> "Minutes":
        """A copy with the last minute judged over the time that it had. ``end_ns``: when the run ended;
        ``None``: later than anybody looked."""
        whole = copy(self)
        whole.standstill = copy(self.standstill)
        whole.quarters = {quarter: copy(sums) for quarter, sums in self.quarters.items()}
        if self.covered_until_ns is not None and self.start_ns is not None:
            begin_ns = self.start_ns + self.index * MINUTE_NS
            whole._judge((self.covered_until_ns - begin_ns) / 1e9)
        if end_ns is None or not self._reaches(end_ns):
            whole.idle_stretch_seconds = None
        return whole

    def _reaches(self, end_ns: int) -> bool:
        """Whether no more is missing at the end than half a minute, or one reading of a slow source."""
        if self.covered_until_ns is None:
            return False
        longest_ns = max(MINUTE_NS // 2, self.covered_until_ns - self.covered_from_ns)
        return end_ns - self.covered_until_ns <= longest_ns

    def _turn_to(self, index: int) -> None:
        self._judge(MINUTE_NS / 1e9)
        if index > self.index + 1:
            self._not_judged()
        self.index, self.minute = index, Minute()

    def _judge(self, length: float) -> None:
        """Count the minute, if it was covered for half of its length."""
        minute, half = self.minute, length / 2
        tensor = _mean(minute.tensor, half)
        if tensor is None:
            self._not_judged()
            return
        covered, sm_active = minute.tensor.seconds, _mean(minute.sm_active, half)
        utilisation = _mean(minute.utilisation, half)
        if _stands_still(tensor, sm_active, utilisation):
            self._not_judged(standstill=length >= _HALF_A_MINUTE_SECONDS)
        elif sm_active is None and utilisation is None:
            self._not_judged()
        else:
            quiet = _is_quiet(sm_active, utilisation)
            idle = quiet and tensor <= NO_TENSOR_WORK_RATIO
            self._judged(covered, idle=idle)
            non_tensor = sm_active is not None and not quiet and tensor < NON_TENSOR_RATIO
            if sm_active is not None:
                self.sm_judged_seconds += covered
            if non_tensor:
                self.non_tensor_seconds += covered
            self._lay_into_quarters(
                length,
                JudgedQuarter(
                    judged_seconds=covered,
                    idle_seconds=covered if idle else 0.0,
                    sm_judged_seconds=0.0 if sm_active is None else covered,
                    non_tensor_seconds=covered if non_tensor else 0.0,
                ),
            )

    def _lay_into_quarters(self, length: float, judged: JudgedQuarter) -> None:
        """A minute that two quarter hours share is shared out by time."""
        begin_ns = (self.start_ns or 0) + self.index * MINUTE_NS + self.wall_offset_ns
        for quarter, share in spread(begin_ns, begin_ns + max(1, round(length * 1e9)), QUARTER_NS):
            sums = self.quarters.setdefault(quarter, JudgedQuarter())
            sums.judged_seconds += share * judged.judged_seconds
            sums.idle_seconds += share * judged.idle_seconds
            sums.sm_judged_seconds += share * judged.sm_judged_seconds
            sums.non_tensor_seconds += share * judged.non_tensor_seconds

    def _judged(self, covered: float, *, idle: bool) -> None:
        self.judged_seconds += covered
        self.standstill_stretch_seconds = 0.0
        if idle:
            self.idle_seconds += covered
            self.idle_stretch_seconds = (self.idle_stretch_seconds or 0.0) + covered
        else:
            self.idle_stretch_seconds = 0.0

    def _not_judged(self, *, standstill: bool = False) -> None:
        """What is not known is not idle: no stretch goes on through it."""
        self.idle_stretch_seconds = None
        if not standstill:
            self.standstill_stretch_seconds = 0.0
            return
        covered, power = self.minute.tensor.seconds, self.minute.power
        self.standstill_seconds += covered
        self.standstill_stretch_seconds += covered
        self.standstill_longest_seconds = max(
            self.standstill_longest_seconds, self.standstill_stretch_seconds
        )
        self.standstill.total += power.total
        self.standstill.seconds += power.seconds


def _origin_ns(first: Reading) -> int:
    """Where the minutes begin: the sampler's intervals then end where minutes do. Its first reading covers
    only the moment since it was primed; that of a source at its own pace may cover more."""
    if first.since_ns is None or first.taken_ns - first.since_ns < _PRIMING_NS:
        return first.taken_ns
    return first.since_ns


def _since(total: MeanSum, before: MeanSum) -> MeanSum:
    """What has come to a side figure since ``before``, which follows it."""
    new = MeanSum(total.total - before.total, total.seconds - before.seconds)
    before.total, before.seconds = total.total, total.seconds
    return new


def _add_share(to: MeanSum, new: MeanSum, share: float) -> None:
    to.total += share * new.total
    to.seconds += share * new.seconds


def _mean(one: MeanSum, least_seconds: float) -> float | None:
    known = one.seconds > 0 and one.seconds >= least_seconds * (1 - 1e-9)
    return one.total / one.seconds if known else None


def _is_quiet(sm_active: float | None, utilisation: float | None) -> bool:
    if sm_active is not None:
        return sm_active < IDLE_SM_RATIO
    return utilisation is not None and utilisation < _NO_UTILISATION_RATIO


def _stands_still(tensor: float, sm_active: float | None, utilisation: float | None) -> bool:
    """Kernels run, and the counters say that no SM ever did anything."""
    return (
        sm_active is not None
        and utilisation is not None
        and tensor <= NO_TENSOR_WORK_RATIO
        and sm_active < STANDSTILL_SM_RATIO
        and utilisation >= WORK_UTILISATION_RATIO
    )


def minutes_of(state: Mapping[str, Any]) -> Minutes:
    """The minutes that ``state`` was taken from (see :meth:`GpuFold.state`)."""
    means = {name: MeanSum(**value) for name, value in state.items() if name in _MEANS}
    minute = Minute(**{name: MeanSum(**value) for name, value in state["minute"].items()})
    return Minutes(**{**state, **means, "minute": minute})


_MEANS = ("standstill", "utilisation_before", "power_before")
