"""GPUs that lag the other GPUs of the same run."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from slurm_ofu.audits.seen import NO_TENSOR_RATIO, Seen, SeenGpu, together
from slurm_ofu.figures.gpu_use import GpuUse
from slurm_ofu.values import Finding, FindingRules

#: So many others make a median that one odd one cannot move.
_ENOUGH_SIBLINGS = 3
_Figure = Literal["active_clock_ratio", "ofu_ratio"]
_FIGURES: Final[tuple[_Figure, ...]] = ("active_clock_ratio", "ofu_ratio")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lag:
    """One GPU that lags, and by which figure."""

    gpu: SeenGpu
    figure: _Figure
    siblings_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """GPUs that can be compared, and what is known of them in ascending order."""

    gpus: tuple[SeenGpu, ...]
    clocks: tuple[float, ...]
    ofus: tuple[float, ...]
    tensors: tuple[float, ...]


def slow(run: Seen, rules: FindingRules) -> list[Finding]:
    """Nodes all of whose GPUs lag, then single GPUs that do, a finding per figure by which they do.

    By clock: that while computing is below its siblings'; what works in step waits for it. By work: its OFU
    is, at no slower clock: its share of the work is smaller, or it waits. Siblings are the GPUs of the same
    model that were used to the end. Where there are but one or two, they cannot tell who of them is odd: then
    it is slow whose clock alone the driver slowed down.
    """
    lags = [lag for family in _families(run, rules) for lag in _lags(family, rules)]
    nodes = _whole_nodes(run, [lag.gpu for lag in lags])
    of_nodes = [lag for lag in lags if lag.gpu.node_name in nodes]
    of_gpus = [lag for lag in lags if lag.gpu.node_name not in nodes]
    return [
        *(_finding(run, some, nodes=True) for some in _by_figure(of_nodes)),
        *(_finding(run, some, nodes=False) for some in _by_figure(of_gpus)),
    ]


def _families(run: Seen, rules: FindingRules) -> Iterator[_Family]:
    kinds: dict[tuple[str, str], list[SeenGpu]] = {}
    for gpu in run.gpus:
        if gpu.unused or gpu.shared or gpu.totals.gpu_model is None:
            continue
        if gpu.tail_ratio is not None and gpu.tail_ratio >= rules.idle_tail_ratio:
            continue  # it was done before the others
        kinds.setdefault((gpu.totals.gpu_model, gpu.totals.mig_profile or ""), []).append(gpu)
    for _, gpus in sorted(kinds.items()):
        yield _Family(
            gpus=tuple(gpus),
            clocks=_ascending(_clock(gpu) for gpu in gpus),
            ofus=_ascending(gpu.use.figures.ofu_ratio for gpu in gpus),
            tensors=_ascending(gpu.use.figures.tpa_mean_ratio for gpu in gpus),
        )


def _lags(family: _Family, rules: FindingRules) -> list[_Lag]:
    by_clock, by_work = [], []
    for gpu in family.gpus:
        if (clock := _clock_lag(gpu, family, rules)) is not None:
            by_clock.append(_Lag(gpu=gpu, figure="active_clock_ratio", siblings_ratio=clock))
        elif (work := _work_lag(gpu, family, rules)) is not None:
            by_work.append(_Lag(gpu=gpu, figure="ofu_ratio", siblings_ratio=work))
    # Where half of them do less than the other half, nobody can tell which of the halves is odd.
    return by_clock + (by_work if 2 * len(by_work) < len(family.gpus) else [])


def _clock_lag(gpu: SeenGpu, family: _Family, rules: FindingRules) -> float | None:
    """The siblings' clock, where this one's is too low beside it though it had as much to do."""
    its, told = _clock(gpu), _is_throttled(gpu, rules)
    if its is None or len(family.clocks) < 2:
        return None
    if len(family.clocks) <= _ENOUGH_SIBLINGS:
        others = [other for other in family.gpus if other is not gpu]
        least = min(clock for other in others if (clock := _clock(other)) is not None)
        alone = told and not any(_is_throttled(other, rules) for other in others)
        return least if alone and its < rules.slow_ratio * least else None
    tensor = gpu.use.figures.tpa_mean_ratio or 0.0
    if not told and tensor < rules.slow_ratio * _median_of_others(family.tensors, tensor):
        return None  # a GPU with little to do need not run fast
    usual = _median_of_others(family.clocks, its)
    return usual if its < rules.slow_ratio * usual else None


def _work_lag(gpu: SeenGpu, family: _Family, rules: FindingRules) -> float | None:
    """The siblings' OFU, where this one's is too low beside it, by more than its error."""
    its, error = gpu.use.figures.ofu_ratio, gpu.use.figures.ofu_error_pp
    if its is None or error is None or len(family.ofus) <= _ENOUGH_SIBLINGS:
        return None
    if _median_of_others(family.tensors, gpu.use.figures.tpa_mean_ratio or 0.0) < NO_TENSOR_RATIO:
        return None
    usual = _median_of_others(family.ofus, its)
    return usual if its + error / 100 < rules.slow_ratio * usual else None


def _clock(gpu: SeenGpu) -> float | None:
    tensor = gpu.use.figures.tpa_mean_ratio
    return None if tensor is None or tensor < NO_TENSOR_RATIO else gpu.use.figures.active_clock_ratio


def _ascending(ratios: Iterable[float | None]) -> tuple[float, ...]:
    return tuple(sorted(ratio for ratio in ratios if ratio is not None))


def _median(ascending: Sequence[float]) -> float:
    return (ascending[(len(ascending) - 1) // 2] + ascending[len(ascending) // 2]) / 2


def _median_of_others(ascending: Sequence[float], own: float) -> float:
    """The median of all but one of several, found without sorting them anew for each."""
    at, others = bisect_left(ascending, own), len(ascending) - 1
    low, high = ((others - 1) // 2, others // 2)
    return (ascending[low + (low >= at)] + ascending[high + (high >= at)]) / 2


def _is_throttled(gpu: SeenGpu, rules: FindingRules) -> bool:
    shares = (gpu.use.throttled_power_ratio, gpu.use.throttled_thermal_ratio)
    return any(share is not None and share >= rules.throttled_ratio for share in shares)


def _whole_nodes(run: Seen, lagging: Sequence[SeenGpu]) -> set[str]:
    """Nodes of several GPUs all of which lag. No run consists of such nodes: somebody is in the middle."""
    counts = Counter(row.node_name for row in run.page.gpus)
    lagging_counts = Counter(gpu.node_name for gpu in lagging)
    return {node for node, count in lagging_counts.items() if count == counts[node] and count > 1}


def _by_figure(lags: Sequence[_Lag]) -> Iterator[list[_Lag]]:
    for figure in _FIGURES:
        if some := [lag for lag in lags if lag.figure == figure]:
            yield some


def _finding(run: Seen, lags: Sequence[_Lag], *, nodes: bool) -> Finding:
    gpus = [lag.gpu for lag in lags]
    where = sorted({gpu.node_name for gpu in gpus}) if nodes else [gpu.place for gpu in gpus]
    return Finding(
        kind="slow_node" if nodes else "slow_gpu",
        evidence=_evidence(together(gpus), lags),
        where=tuple(where),
        gpu_count=len(gpus),
        of_gpu_count=run.gpu_count,
    )


def _evidence(use: GpuUse, lags: Sequence[_Lag]) -> Mapping[str, float]:
    figure = lags[0].figure
    known = {
        figure: use.figures.active_clock_ratio if figure == "active_clock_ratio" else use.figures.ofu_ratio,
        f"siblings_{figure}": _median(sorted(lag.siblings_ratio for lag in lags)),
        "throttled_power_ratio": use.throttled_power_ratio,
        "throttled_thermal_ratio": use.throttled_thermal_ratio,
    }
    return {name: ratio for name, ratio in known.items() if ratio is not None}
