"""What a page says of who gave its GPUs their figures."""

from slurm_ofu.reports.as_page import as_page
from slurm_ofu.reports.page_sources import source_facts
from slurm_ofu.values import GpuRow, JobPage
from tests.figures.examples import gpu, measured
from tests.reports.examples import CET, HOSTILE, job_row, node


def rows(*of: tuple[str | None, str | None]) -> tuple[GpuRow, ...]:
    """A GPU for each source and note."""
    return tuple(
        GpuRow(node_name="n1", totals=gpu(number, source=source, source_note=note))
        for number, (source, note) in enumerate(of)
    )


def test_every_source_and_why_nobody_better() -> None:
    """Once each, with how many GPUs it is of where it is not all; rows of before 0.3 say nothing."""
    assert [("Source", "nvml")] == source_facts(rows(("nvml", None), ("nvml", None)))
    mixed = rows(("nvml", None), ("dcgm", "nvml: no GPM"), ("dcgm", "nvml: no GPM"), (None, None))
    assert [("Source", "dcgm, 2 of 4 GPUs (nvml: no GPM)"), ("", "nvml, 1 of 4 GPUs")] == source_facts(mixed)
    assert [] == source_facts(rows((None, None)))


def test_words_of_others_are_made_safe_and_few() -> None:
    """Notes repeat what drivers and servers said; a run of thousands of GPUs still has a short page."""
    facts = source_facts(rows(*(("dcgm", f"{HOSTILE} {number}") for number in range(9))))
    assert (5, ("", "and 5 more of this kind")) == (len(facts), facts[-1])
    assert "\x1b" not in "".join(text for _, text in facts)


def test_a_page_names_the_source_and_the_slice() -> None:
    """C08: a slice is called one, or its GPU-hours could not be understood."""
    slices = (GpuRow(node_name="n1", totals=gpu(source="prometheus", mig_profile="1g.10gb")),)
    page = JobPage(row=job_row(sums=measured(gpu_count=1.0)), nodes=(node("n1"),), gpus=slices)
    shown = as_page(page, CET, width=120, colour=False)
    assert "Source    prometheus\n" in shown
    assert "NVIDIA H100 80GB HBM3, MIG 1g.10gb (reference clock 1830 MHz)" in shown
