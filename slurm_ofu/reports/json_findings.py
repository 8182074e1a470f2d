"""Findings and percentile of a page, for programs."""

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import Any

from slurm_ofu.reports.fields import safe
from slurm_ofu.reports.page_findings import told
from slurm_ofu.values import Finding, JobPage, Percentile


def finding_values(found: Sequence[Finding], page: JobPage, zone: tzinfo) -> list[dict[str, Any]]:
    """Each finding with its evidence, the words of the page, and what to try (``null``: nothing)."""
    return [_values(finding, page, zone) for finding in found]


def percentile_values(its: Percentile | None) -> Mapping[str, Any] | None:
    """The share of the GPU-hours with a lower OFU, and among how many runs; ``null``: not to be compared."""
    if its is None:
        return None
    return {
        "percentile_ratio": safe(its.ratio),
        "run_count": its.run_count,
        "gpu_model": safe(its.gpu_model),
    }


def _values(finding: Finding, page: JobPage, zone: tzinfo) -> dict[str, Any]:
    said, advice = told(finding, page, zone)
    return {
        "kind": finding.kind,
        "text": said,
        "try": advice,
        "where": [safe(place) for place in finding.where],
        "gpu_count": finding.gpu_count,
        "of_gpu_count": finding.of_gpu_count,
        "evidence": {name: safe(value) for name, value in finding.evidence.items()},
    }
