"""What jobs say of their own efficiency, against OFU: how well the two go together, and whose do not.

A stated figure that differs is not a fault of anybody's: OFU counts recomputed work, and formulas for FLOPs
are easily wrong for mixtures of experts. The entries say what to look at, not who is to blame.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from slurm_ofu.audits.arrays import array_key
from slurm_ofu.audits.eligible import judged, not_judged, run_entry, run_order
from slurm_ofu.figures import ClaimComparison, compare_claim, figures
from slurm_ofu.figures.correlation import pearson
from slurm_ofu.gpu_models import normal_name
from slurm_ofu.values import (
    AuditConfig,
    AuditEntry,
    AuditResult,
    AuditValue,
    Claim,
    Figures,
    Goals,
    GpuModel,
    RunRow,
    UsageRow,
)

WITHIN_PP: Final = 10.0  # what the summary counts as agreeing
_LEAST_PP: Final = 2.0  # a ratio says nothing of differences below it, nor below OFU's error bar
_RECOMPUTE: Final = (0.65, 0.95)  # stated over measured: all activations recomputed are 3/4
_FORMULA: Final = (1.3, 3.0)
_HALF, _DOUBLE = 0.5, 2.0
_SHOWN_RUNS: Final = 5
_FIT: Final = 1.08  # a factor fits within this one


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """A run whose claim and OFU are put side by side."""

    row: UsageRow
    run: RunRow
    claim: Claim
    its: Figures
    stated_ratio: float
    measured_ratio: float
    compared: ClaimComparison

    @property
    def difference_pp(self) -> float:
        """Stated minus measured, percentage points."""
        return 100 * (self.stated_ratio - self.measured_ratio)

    @property
    def kind(self) -> str:
        """Whether more or less was stated than measured."""
        return "stated_above" if self.difference_pp > 0 else "stated_below"

    @property
    def relative(self) -> float:
        """How far stated over measured is from 1, whichever is the greater; infinite where 0 was measured."""
        factor = self.compared.stated_over_measured
        return math.inf if factor is None or factor <= 0 else abs(math.log(factor))


def claims(
    runs: Sequence[UsageRow],
    settings: AuditConfig,
    goals: Goals,
    *,
    gpu_models: Iterable[GpuModel] = (),
) -> AuditResult:
    """Runs whose stated figure is far from OFU (kinds ``stated_above`` and ``stated_below``).

    Unlike those of other audits the entries come by the relative difference, the greatest first; the weight
    is the measured GPU-hours. ``gpu_models``: whose peaks a stated share may have been held against by
    mistake. ``likely_causes`` names what its factor fits, several where several do, and is None where
    nothing does. Of the tasks of one array the farthest off stands for all. Goals play no part.
    """
    sorted_out = judged(runs, settings, not_judged)
    left_out = Counter(sorted_out.left_out)
    compared = _compared(sorted_out.runs, left_out)
    known_models = tuple(gpu_models)
    outliers = sorted(
        (run for run in compared if _is_outlier(run, settings)),
        key=lambda run: (-run.relative, -run.its.gpu_hours_measured, run_order(run.run)),
    )
    entries = [_entry(group, known_models) for group in _alike(outliers)]
    kept = tuple(entry for entry in entries if entry.weight_gpu_hours >= settings.minimum_gpu_hours)
    return AuditResult(
        audit="claims",
        entries=kept,
        examined_count=len(compared),
        left_out={reason: count for reason, count in sorted(left_out.items()) if count > 0},
        summary={**_summary(compared, outliers), "below_minimum_count": len(entries) - len(kept)},
    )


def _compared(rows: Iterable[UsageRow], left_out: Counter[str]) -> list[ComparedRun]:
    found = []
    for row in rows:
        run = row.run
        if run is None or run.claim is None:
            left_out["no_claim"] += 1
            continue
        its = figures(row.sums)
        compared = compare_claim(run.claim, its)
        stated, measured = compared.stated_ratio, compared.measured_ratio
        if compared.not_compared is not None or stated is None or measured is None:
            left_out[compared.not_compared or "no_ofu"] += 1
            continue
        found.append(
            ComparedRun(
                row=row,
                run=run,
                claim=run.claim,
                its=its,
                stated_ratio=stated,
                measured_ratio=measured,
                compared=compared,
            )
        )
    return found


def _is_outlier(run: ComparedRun, settings: AuditConfig) -> bool:
    """Far off by percentage points, or by the ratio where the difference is more than what error explains."""
    difference = abs(run.difference_pp)
    if difference <= (run.its.ofu_error_pp or 0.0):
        return False
    if difference >= settings.claim_difference_pp:
        return True
    return difference >= _LEAST_PP and run.relative >= math.log(settings.claim_ratio)


def _alike(outliers: Iterable[ComparedRun]) -> list[list[ComparedRun]]:
    """Those of one array that are off in the same direction together, in the order of the farthest."""
    groups: dict[tuple[object, ...], list[ComparedRun]] = {}
    for run in outliers:
        groups.setdefault((run.kind, *array_key(run.run)), []).append(run)
    return list(groups.values())


def _entry(group: Sequence[ComparedRun], gpu_models: Sequence[GpuModel]) -> AuditEntry:
    run = group[0]
    causes, other_models = _likely_causes(run, gpu_models)
    shown: dict[str, AuditValue] = {
        "stated_ratio": run.stated_ratio,
        "measured_ofu_ratio": run.measured_ratio,
        "ofu_error_pp": run.its.ofu_error_pp,
        "coverage_ratio": run.its.coverage_ratio,
        "difference_pp": run.difference_pp,
        "stated_over_measured": run.compared.stated_over_measured,
        "likely_causes": ", ".join(causes) or None,
        "other_gpu_models": ", ".join(other_models) or None,
        "claim": run.claim.text,
        "gpu_hours": run.its.gpu_hours,
        "run_count": len(group),
    }
    weight = math.fsum(one.its.gpu_hours_measured for one in group)
    entry = run_entry("claims", run.kind, run.row, weight)
    if len(group) > 1:
        entry = replace(entry, subject=str(run.run.array_job_id))
    return replace(entry, figures=shown, runs=tuple(one.run for one in group[:_SHOWN_RUNS]))


def _likely_causes(run: ComparedRun, gpu_models: Sequence[GpuModel]) -> tuple[list[str], list[str]]:
    """What the factor between stated and measured fits, and whose peaks."""
    factor = run.compared.stated_over_measured
    if factor is None:
        return [], []
    others = _others_with_peak(run, factor, gpu_models)
    fits = {
        "recompute": _RECOMPUTE[0] <= factor <= _RECOMPUTE[1],
        "moe_or_hybrid_formula": _FORMULA[0] <= factor <= _FORMULA[1],
        # A share of the sparse peak is half of that of the dense one; TFLOP/s are no share of any.
        "sparse_peak": run.claim.kind == "mfu" and _fits(factor, _HALF),
        "number_format": _fits(factor, _HALF) or _fits(factor, _DOUBLE),
        "other_gpus_peak": bool(others),
    }
    return [cause for cause, does in fits.items() if does], others


def _others_with_peak(run: ComparedRun, factor: float, gpu_models: Sequence[GpuModel]) -> list[str]:
    """The GPU model whose peak explains a stated share best, with others of the same peak; TFLOP/s are no
    share of a peak."""
    wanted = normal_name(run.its.gpu_model or "")
    own = next((row.peak_tflops for row in gpu_models if normal_name(row.name) == wanted), None)
    if run.claim.kind != "mfu" or own is None:
        return []
    peaks = {row.name: row.peak_tflops for row in gpu_models}
    fitting = {
        name: abs(math.log(factor * peak / own))
        for name, peak in peaks.items()
        if peak is not None and not _fits(peak, own) and _fits(factor, own / peak)
    }
    least = min(fitting.values(), default=0.0)
    return sorted(name for name, off in fitting.items() if off <= least + 1e-9)[:3]


def _fits(factor: float, wanted: float) -> bool:
    return wanted / _FIT <= factor <= wanted * _FIT


def _summary(compared: Sequence[ComparedRun], outliers: Sequence[ComparedRun]) -> dict[str, AuditValue]:
    """The two figures over all runs: each run counts as one, as in a scatter plot."""
    apart = {id(run) for run in outliers}
    agreeing = [run for run in compared if id(run) not in apart]
    off = [abs(run.difference_pp) for run in compared]
    return {
        "compared_count": len(compared),
        "pearson_r": pearson([(run.stated_ratio, run.measured_ratio) for run in compared]),
        "pearson_r_without_outliers": pearson([(run.stated_ratio, run.measured_ratio) for run in agreeing]),
        "mean_absolute_error_pp": math.fsum(off) / len(off) if off else None,
        "within_10pp_ratio": sum(difference <= WITHIN_PP for difference in off) / len(off) if off else None,
        "outlier_count": len(outliers),
    }
