"""A finished fold → the totals of one GPU: which estimator, in which scale, and for what reason.

Until here everything is in active megacycles; here the reference clock turns them into
``tensor_ref_seconds``: seconds at the reference clock with every tensor pipe active.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

from slurm_ofu.figures.student import NORMAL_QUANTILE, t_quantile
from slurm_ofu.integrals.cycles import counter_scale
from slurm_ofu.integrals.gpu_fold import GpuFold
from slurm_ofu.integrals.series import BucketLine, Series
from slurm_ofu.integrals.standstill import counters_stand_still, standstill_seconds
from slurm_ofu.values import Estimator, GpuModel, GpuTotals, Reason, Timeline

#: From here on the two estimators are long enough to be held against each other.
CROSS_CHECK_SECONDS = 60.0
#: A mean above the maximum clock by more than this is not to be believed.
CLOCK_TOLERANCE = 0.02
#: Counters that answered for less of the time that was sampled than this do not speak for all of it.
LEAST_CYCLES_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The estimator that speaks for a GPU. ``scale`` divides the series' megacycles."""

    estimator: Estimator
    series: Series
    scale: float
    sigma_megacycles: float
    degrees: float
    disagreement_ratio: float | None = None


def choose(
    fold: GpuFold, model: GpuModel | None, sm_count: int | None, refresh_seconds: float
) -> Choice | None:
    """The better estimator whose figures hold together, or ``None`` where neither measured anything."""
    sampled = _sampled(fold) if fold.sampled.covered_seconds > 0 else None
    if fold.cycles.covered_seconds <= 0:
        return sampled
    reference_mhz = model.reference_clock_mhz if model else None
    cycles = _cycles(fold, reference_mhz, sm_count, refresh_seconds)
    if cycles is None or sampled is None:
        return cycles or sampled
    if cycles.series.covered_seconds < LEAST_CYCLES_SHARE * sampled.series.covered_seconds:
        return sampled
    difference = _disagreement(fold, cycles, sampled, reference_mhz)
    if difference is None:
        return cycles
    return _sampled(fold, disagreement_ratio=difference)


def _sampled(fold: GpuFold, disagreement_ratio: float | None = None) -> Choice:
    return Choice(
        estimator="sampled" if fold.published_clock_mhz is None else "scraped",
        series=fold.sampled,
        scale=1.0,
        sigma_megacycles=fold.sampled.variance**0.5,
        degrees=fold.sampled.degrees,
        disagreement_ratio=disagreement_ratio,
    )


def _cycles(
    fold: GpuFold, reference_mhz: float | None, sm_count: int | None, refresh: float
) -> Choice | None:
    scale = counter_scale(fold.counted_megacycles, fold.clock_megacycles, sm_count)
    if scale is None:
        # An idle GPU may stop its clock, and its elapsed cycles with it: zero is zero in any scale.
        if fold.cycles.tensor_megacycles > 0 or fold.sampled.tensor_megacycles > 0:
            return None
        scale = 1.0
    mean_mhz = reference_mhz or fold.counted_megacycles / scale / fold.cycles.covered_seconds
    return Choice(
        estimator="cycles",
        series=fold.cycles,
        scale=scale,
        # The counters are refreshed every `refresh` seconds: the ends are that uncertain.
        sigma_megacycles=refresh * mean_mhz / NORMAL_QUANTILE,
        degrees=float("inf"),
    )


def _disagreement(
    fold: GpuFold, cycles: Choice, sampled: Choice, reference_mhz: float | None
) -> float | None:
    """OFU by cycles minus by sampling over the time that both saw, where that is more than both bars allow
    over 60 s or more; over less time only where a factor of two is between them: then the counters' scale was
    taken wrongly."""
    if reference_mhz is None:
        return None
    seconds, counted_mhz, sampled_mhz = _both(fold, cycles, sampled)
    low, high = sorted((counted_mhz, sampled_mhz))
    if seconds < CROSS_CHECK_SECONDS and high < 2 * low:
        return None
    difference = counted_mhz - sampled_mhz
    bars = (t_quantile(choice.degrees) * choice.sigma_megacycles for choice in (cycles, sampled))
    allowed = sum(bars) / seconds
    return difference / reference_mhz if abs(difference) > allowed else None


def _both(fold: GpuFold, cycles: Choice, sampled: Choice) -> tuple[float, float, float]:
    """(seconds, MHz by cycles, MHz by sampling); an earlier version's checkpoint has only each whole."""
    seconds, counted = fold.both_seconds, fold.both_counted_megacycles / cycles.scale
    if seconds <= 0:
        covered = min(cycles.series.covered_seconds, sampled.series.covered_seconds)
        return covered, _mean_mhz(cycles), _mean_mhz(sampled)
    return seconds, counted / seconds, fold.both_sampled_megacycles / seconds


def _mean_mhz(choice: Choice) -> float:
    return choice.series.tensor_megacycles / choice.scale / choice.series.covered_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """What is known of a GPU without its counters."""

    position: int
    allocated_seconds: float | None
    uuid: str | None
    gpu_model: str | None
    mapped_by: str | None
    sm_count: int | None = None
    sharers: int = 1  # runs that held the GPU at once: each counts for that part of it
    source: str | None = None
    source_note: str | None = None
    mig_profile: str | None = None
    sm_share_ratio: float = 1.0  # of a MIG slice: its SMs by those of its GPU

    @property
    def weight(self) -> float:
        """How much of a whole GPU the run had."""
        return self.sm_share_ratio / self.sharers


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the totals need of the configuration."""

    interval_seconds: float
    refresh_seconds: float


def gpu_totals(
    fold: GpuFold, given: Allocation, model: GpuModel | None, rules: Rules, *, died: bool, wall_offset_ns: int
) -> GpuTotals:
    """The totals of one GPU. ``died``: the sampler did not live to the job's end."""
    choice = choose(fold, model, given.sm_count, rules.refresh_seconds)
    side = fold.side
    reason = _reason(fold, given.sm_count, choice, model, rules, died=died)
    whole = GpuTotals(
        position=given.position,
        reason=reason,
        # Covered seconds end with the last reading, a moment after the epilog's own clock reading.
        allocated_seconds=_at_least_covered(given.allocated_seconds, choice),
        uuid=given.uuid,
        gpu_model=given.gpu_model,
        mapped_by=given.mapped_by,
        source=given.source,
        source_note=_note(given, fold),
        mig_profile=given.mig_profile,
        sm_share_ratio=given.sm_share_ratio,
        **_choice_fields(choice, model, wall_offset_ns),
        **_covered(fold, choice, given.sm_count, suspect=reason == "suspect"),
        sm_active_seconds=side.sm_active.known_total,
        sm_active_covered_seconds=side.sm_active.seconds,
        dram_active_seconds=side.dram_active.known_total,
        dram_active_covered_seconds=side.dram_active.seconds,
        utilisation_seconds=side.utilisation.known_total,
        utilisation_covered_seconds=side.utilisation.seconds,
        power_joules=side.power.known_total,
        power_covered_seconds=side.power.seconds,
        energy_joules=side.energy_joules,
        memory_max_bytes=side.memory_max_bytes,
        throttled_power_seconds=side.throttled_power.known_total,
        throttled_thermal_seconds=side.throttled_thermal.known_total,
        throttle_covered_seconds=side.throttled_power.seconds,
        **(_minute_fields(fold, died=died) if choice is not None else {}),
    )
    return part_of(whole, given)


def _note(given: Allocation, fold: GpuFold) -> str | None:
    """Why not a better source, and what its counters did: a reset's interval is missing from `cycles`."""
    resets = fold.counter.reset_count
    said = [given.source_note] if given.source_note else []
    return "; ".join([*said, *([f"cycle counters reset: {resets}"] if resets else [])]) or None


def part_of(whole: GpuTotals, given: Allocation) -> GpuTotals:
    """One run's part of a GPU that several held at once, or that it had a MIG slice of: every time, energy
    and cycle by its weight, so that all sums together never exceed the device's (metric.md 5.3, 5.4)."""
    if given.weight == 1:
        return whole
    parts = {
        field.name: value * given.weight
        for field in fields(whole)
        if field.name.endswith(_ADDITIVE) and (value := getattr(whole, field.name)) is not None
    }
    shared = given.sharers > 1 and whole.reason in ("ok", "short")
    line = whole.timeline and _part_of_line(whole.timeline, given.weight)
    return replace(whole, reason="shared" if shared else whole.reason, **parts, timeline=line)


def _part_of_line(line: Timeline, weight: float) -> Timeline:
    buckets = ((_times(weight, tensor), covered * weight) for tensor, covered in line.buckets)
    return replace(line, buckets=tuple(buckets))


_ADDITIVE = ("_seconds", "_joules", "_megacycles", "_megacycles_error")


def _at_least_covered(allocated: float | None, choice: Choice | None) -> float | None:
    if choice is None:
        return allocated
    return max(allocated or 0.0, choice.series.covered_seconds)


def _choice_fields(choice: Choice | None, model: GpuModel | None, wall_offset_ns: int) -> dict[str, Any]:
    if choice is None:
        return {}
    reference_mhz = model.reference_clock_mhz if model else None
    to_seconds = 1 / (choice.scale * reference_mhz) if reference_mhz else None
    sigma_seconds = choice.sigma_megacycles / reference_mhz if reference_mhz else None
    return {
        "estimator": choice.estimator,
        "interval_count": choice.series.interval_count,
        "tensor_active_seconds": choice.series.tensor_active_seconds,
        "reference_clock_mhz": reference_mhz,
        "tensor_ref_seconds": _times(choice.series.tensor_megacycles, to_seconds),
        "tensor_ref_error_seconds": sigma_seconds,
        **(_peak(choice, reference_mhz) if reference_mhz else _without_reference(choice)),
        "error_degrees": choice.degrees if choice.degrees != float("inf") else None,
        "disagreement_ratio": choice.disagreement_ratio,
        "timeline": _timeline(choice.series.line, to_seconds, wall_offset_ns),
    }


def _without_reference(choice: Choice) -> dict[str, Any]:
    """What a reference clock that becomes known later is put to."""
    return {
        "tensor_megacycles": choice.series.tensor_megacycles / choice.scale,
        "tensor_megacycles_error": choice.sigma_megacycles,
    }


def _covered(fold: GpuFold, choice: Choice | None, sm_count: int | None, *, suspect: bool) -> dict[str, Any]:
    """Minutes in which the counters stood still under work were not measured; their tensor work is 0 in all
    sums. Where they spoil the figures, the row shows what the counters said."""
    if choice is None:
        return {}
    still_seconds = 0.0 if suspect else standstill_seconds(fold, sm_count)
    return {"covered_seconds": max(0.0, choice.series.covered_seconds - still_seconds)}


def _peak(choice: Choice, reference_mhz: float) -> dict[str, float]:
    """The busiest five minutes, or the whole of a shorter run; an earlier version's checkpoint has none."""
    megacycles, covered_seconds = choice.series.peak.greatest()
    if covered_seconds <= 0:
        return {}
    return {
        "peak_tensor_ref_seconds": megacycles / (choice.scale * reference_mhz),
        "peak_covered_seconds": covered_seconds,
    }


def _minute_fields(fold: GpuFold, *, died: bool) -> dict[str, Any]:
    """What was judged by the minute; a run that went on unseen has no tail."""
    its = fold.minutes.finished(None if died else fold.side.last_taken_ns)
    return {
        "idle_seconds": its.idle_seconds if its.judged_seconds > 0 else None,
        "idle_covered_seconds": its.judged_seconds,
        "idle_tail_seconds": its.idle_stretch_seconds,
        "non_tensor_seconds": its.non_tensor_seconds if its.sm_judged_seconds > 0 else None,
        "non_tensor_covered_seconds": its.sm_judged_seconds,
    }


def _times(value: float, factor: float | None) -> float | None:
    return None if factor is None else value * factor


def _timeline(line: BucketLine, to_seconds: float | None, wall_offset_ns: int) -> Timeline:
    return Timeline(
        start_epoch_s=(line.start_ns + wall_offset_ns) / 1e9,
        bucket_seconds=line.width_ns / 1e9,
        buckets=tuple(
            (_times(megacycles, to_seconds), seconds)
            for megacycles, seconds in zip(line.megacycles, line.covered_seconds, strict=True)
        ),
    )


def _reason(
    fold: GpuFold,
    sm_count: int | None,
    choice: Choice | None,
    model: GpuModel | None,
    rules: Rules,
    *,
    died: bool,
) -> Reason:
    if choice is not None and is_suspect(fold, sm_count, choice, model):
        return "suspect"  # whatever else is the matter: what was measured cannot be believed
    if died:
        return "sampler_died"
    if fold.fault is not None and (fold.fault_count > 1 or choice is None):
        return fold.fault  # errors until the end; a single one is no more than a gap
    if choice is None:
        # Counters that answered for long and a clock that never did: that is no short run.
        seen_seconds = max(fold.side.sm_active.seconds, fold.side.utilisation.seconds)
        return "short" if seen_seconds < 2 * rules.interval_seconds else "source_lost"
    if model is None:
        return "unknown_model"
    return "ok" if choice.series.covered_seconds >= 2 * rules.interval_seconds else "short"


def is_suspect(fold: GpuFold, sm_count: int | None, choice: Choice, model: GpuModel | None) -> bool:
    """Counters that stand still under work, or more tensor cycles than the clock has."""
    if counters_stand_still(fold, sm_count):
        return True
    if model is None or model.max_clock_mhz is None:
        return False
    return _mean_mhz(choice) > model.max_clock_mhz * (1 + CLOCK_TOLERANCE)
