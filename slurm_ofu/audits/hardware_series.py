"""How every GPU and node compared to its siblings, job by job."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final, Literal

from slurm_ofu.figures.lags import (
    clock_ratio,
    excesses,
    gpu_ofu_ratio,
    lags,
    tensor_ratio,
    thermal_ratio,
)
from slurm_ofu.values import GpuTotals, RunGpu, UsageRow

LEAST_TENSOR_RATIO: Final = 0.005  # below it there is no work whose clock or amount could be compared
_DOUBTFUL: Final = ("suspect", "shared", "short", "opted_out")
Figure = Literal["clock", "thermal", "ofu"]
FIGURES: Final[tuple[Figure, ...]] = ("clock", "thermal", "ofu")  # the surest evidence first


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One GPU, or one node, in one job: how far behind its siblings it was, where that is known."""

    row: UsageRow
    user: str | None
    clock: float | None
    thermal: float | None  # by how much more of its time heat slowed it down
    ofu: float | None

    def lag(self, figure: Figure) -> float | None:
        """Its lag by one figure."""
        if figure == "clock":
            return self.clock
        return self.thermal if figure == "thermal" else self.ofu


@dataclass(slots=True, kw_only=True)
class Series:
    """One GPU, or one node, over many jobs."""

    node_name: str
    gpu_model: str
    position: int | None = None  # None: it is about the node
    uuid: str | None = None
    jobs: list[Compared] = field(default_factory=list)
    own: list[GpuTotals] = field(default_factory=list)

    @property
    def place(self) -> str:
        """As in ``node01:3``."""
        return self.node_name if self.position is None else f"{self.node_name}:{self.position}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Member:
    """What is compared in one job, with its figures."""

    node_name: str
    gpu_model: str
    gpus: tuple[GpuTotals, ...]  # one, or those of the node
    clock: float | None
    thermal: float | None
    ofu: float | None


class AllSeries:
    """The series of all GPUs and nodes, built job by job, oldest first."""

    def __init__(self) -> None:
        self.gpus: dict[str, Series] = {}
        self.nodes: dict[tuple[str, str], Series] = {}

    def add(self, row: UsageRow, gpus: Iterable[RunGpu]) -> None:
        """One job's GPUs: each against the others of its node, and the nodes against each other."""
        by_model: dict[str, dict[str, list[_Member]]] = defaultdict(lambda: defaultdict(list))
        for gpu in gpus:
            model = gpu.totals.gpu_model
            if model is not None and gpu.totals.mig_profile is None and gpu.totals.reason not in _DOUBTFUL:
                by_model[model][gpu.node_name].append(_of_gpu(gpu, model))
        for by_node in by_model.values():
            self._add_gpus(row, by_node.values())
            whole = [_of_node(members) for members in by_node.values() if len(members) > 1]
            for member, compared in _compared(row, whole):
                series = self.nodes.setdefault(
                    (member.node_name, member.gpu_model),
                    Series(node_name=member.node_name, gpu_model=member.gpu_model),
                )
                _extend(series, member, compared)

    def _add_gpus(self, row: UsageRow, nodes: Collection[Sequence[_Member]]) -> None:
        groups = [members for members in nodes if len(members) > 1]
        groups.append([members[0] for members in nodes if len(members) == 1])  # alone on their nodes
        for group in groups:
            for member, compared in _compared(row, group):
                (totals,) = member.gpus
                key = totals.uuid or f"{member.node_name}:{totals.position}"
                series = self.gpus.setdefault(key, Series(node_name="", gpu_model=member.gpu_model))
                series.node_name, series.position, series.uuid = (
                    member.node_name,
                    totals.position,
                    totals.uuid,
                )
                _extend(series, member, compared)


def _extend(series: Series, member: _Member, compared: Compared) -> None:
    series.jobs.append(compared)
    series.own.extend(member.gpus)


def _of_gpu(gpu: RunGpu, gpu_model: str) -> _Member:
    totals = gpu.totals
    tensor = tensor_ratio(totals)
    works = tensor is not None and tensor >= LEAST_TENSOR_RATIO
    return _Member(
        node_name=gpu.node_name,
        gpu_model=gpu_model,
        gpus=(totals,),
        clock=clock_ratio(totals) if works else None,
        thermal=thermal_ratio(totals),
        ofu=gpu_ofu_ratio(totals) if works else None,
    )


def _of_node(members: Sequence[_Member]) -> _Member:
    """A node by the median of its GPUs."""
    return _Member(
        node_name=members[0].node_name,
        gpu_model=members[0].gpu_model,
        gpus=tuple(gpu for member in members for gpu in member.gpus),
        clock=_median(member.clock for member in members),
        thermal=_median(member.thermal for member in members),
        ofu=_median(member.ofu for member in members),
    )


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _compared(row: UsageRow, members: Sequence[_Member]) -> Iterator[tuple[_Member, Compared]]:
    if len(members) < 2:
        return
    clocks = _lags([member.clock for member in members])
    ofus = _lags([member.ofu for member in members])
    thermals = _each([member.thermal for member in members], excesses)
    user = None if row.run is None else row.run.user
    for member, clock, thermal, ofu in zip(members, clocks, thermals, ofus, strict=True):
        yield member, Compared(row=row, user=user, clock=clock, thermal=thermal, ofu=ofu)


def _lags(values: Sequence[float | None]) -> list[float | None]:
    return _each([value if value is not None and value > 0 else None for value in values], lags)


def _each(
    values: Sequence[float | None], compare: Callable[[Sequence[float]], list[float]]
) -> list[float | None]:
    """How each that is known compares to the others that are."""
    known = [(number, value) for number, value in enumerate(values) if value is not None]
    result: list[float | None] = [None] * len(values)
    if len(known) > 1:
        for (number, _), lag in zip(known, compare([value for _, value in known]), strict=True):
            result[number] = lag
    return result
