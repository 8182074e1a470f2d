"""The lines of nodes and GPUs on a page, and what else a page says of them."""

import json
from dataclasses import replace
from datetime import datetime

import pytest

from slurm_ofu.reports.as_json import pages_as_json
from slurm_ofu.reports.as_page import as_page
from slurm_ofu.values import JobPage, Percentile
from tests.audits.cases import found
from tests.audits.pages import job, job_on, unseen, unused, worked
from tests.reports.examples import CET, question


def shown(page: JobPage, *, width: int = 80, colour: bool = False) -> str:
    """The page with its findings."""
    return as_page(page, CET, width=width, colour=colour, findings=found(page))


def lines(page: JobPage, beginning: str) -> list[str]:
    """The lines of grids that begin so."""
    return [line for line in shown(page).splitlines() if line.startswith(beginning)]


def test_no_node_says_what_its_gpus_say() -> None:
    """The lines of nodes are left out where there is one node, or one GPU on each; but not where any of their
    GPUs has no line."""
    assert 2 == len(lines(job(worked(), worked()), "n1"))
    part = job(worked(), worked())
    part = replace(part, nodes=(replace(part.nodes[0], gpu_count=4.0),))
    assert 3 == len(lines(part, "n1"))
    assert 2 == len(lines(job_on({"n1": [worked()], "n2": [worked()]}), "n"))
    assert 3 == len(lines(job_on({"n1": [worked()] * 2, "n2": []}), "n")) - 1
    assert 6 == len(lines(job_on({"n1": [worked()] * 2, "n2": [worked()] * 2}), "n"))


def test_the_odd_one_is_marked() -> None:
    """The GPU and the node that a finding is about are marked by a sign, and stand out in colours too."""
    page = job_on({"n1": [worked()] * 4, "n2": [worked()] * 3 + [worked(tensor=0.1)]})
    marked = [line.split()[:2] for line in shown(page).splitlines() if "*" in line and line.startswith("n")]
    assert [["n2", "4*"], ["n2", "3*"]] == marked
    assert "* a finding is about it\n" in shown(page)
    assert "\x1b[7;31m" in shown(page, colour=True)


def test_columns_that_nobody_has_are_left_out() -> None:
    """Memory, power and slow clocks have a column where they are known of any GPU, the last where any was."""
    header = "Node  GPU      SM  Tensor   Clock   GiB  Watt  Slowed  Coverage  OFU"
    assert [header] == lines(job(worked(heat=0.01), unseen()), "Node")
    bare = worked(power_joules=None, memory_max_bytes=None)
    assert ["Node  GPU      SM  Tensor   Clock  Coverage  OFU"] == lines(job(bare), "Node")


def test_columns_give_way_to_long_names() -> None:
    """What matters least goes first where names are long: no line is cut in its figures."""
    page = job_on({"gpu-node-01": [worked(heat=0.01)], "n2": [worked()]})
    header = lines(page, "Node")[-1].split()
    assert ["Node", "GPU", "SM", "Tensor", "Clock", "GiB", "Watt", "Coverage", "OFU"] == header
    page = job_on({"a-node-with-a-very-long-name": [worked(heat=0.01)], "n2": [worked()]})
    assert ["Node", "GPU", "Tensor", "Clock", "Coverage", "OFU"] == [
        title for title in lines(page, "Node")[-1].split() if title != "SM"
    ]


def test_of_many_gpus_the_odd_ones_are_shown() -> None:
    """Of a thousand GPUs those have a line that a finding is about, or that were not measured; what the rest
    is like is said in one line."""
    nodes = {f"n{at:03}": [worked(tensor=0.5 + at / 10_000)] * 8 for at in range(125)}
    nodes["n077"] = [*[worked()] * 6, worked(tensor=0.1), unseen()]
    text = shown(job_on(nodes))
    shown_gpus = [line.split()[1] for line in text.splitlines() if line.startswith("n077")]
    assert ["8*", "6*", "7"] == shown_gpus
    assert "and 998 more GPUs: OFU 47.5 % to 48.7 % (--json has all)" in text
    assert "and 124 more nodes: OFU 47.5 % to 48.7 % (--json has all)" in text
    assert len(text.splitlines()) < 50


def test_of_many_alike_the_lowest_are_shown() -> None:
    """Where none of many stands out, those with the lowest OFU have a line."""
    text = shown(job(*[worked(tensor=0.6 - at / 1000) for at in range(40)]))
    assert [str(at) for at in range(32, 40)] == [
        line.split()[1] for line in text.splitlines() if line.startswith("n1")
    ]
    assert "and 32 more GPUs: OFU 54.1 % to 57.0 % (--json has all)" in text


def test_many_odd_ones_are_counted() -> None:
    """Of very many with a finding the first have a line, and the others are counted."""
    text = shown(job(*[worked()] * 40, *[unused()] * 40))
    assert "and 48 more GPUs, 8 of them with a finding: OFU 0.0 % to 47.5 % (--json has all)" in text


@pytest.mark.parametrize(
    ("page", "said"),
    [
        (
            job(worked()),
            "Energy 2.08 kWh (7.49 MJ) Power 520 W in the mean Memory at most 61.0 GiB in use Node",
        ),
        (job(worked(), worked()), "Power 520 W a GPU in the mean Memory at most 61.0 GiB in use on any GPU"),
        (job(worked(energy_joules=3.6e10)), "Energy 10000 kWh (36000 MJ)"),
    ],
)
def test_what_it_took(page: JobPage, said: str) -> None:
    """Energy, mean power of a GPU, and the most memory that was in use."""
    assert said in " ".join(shown(page).split())


def test_percentile() -> None:
    """A run's place among others on its GPU model is said with their number, in JSON as a ratio; nothing is
    said where it has none."""
    page = job(worked())
    assert "better than" not in shown(page)
    placed = replace(page, percentile=Percentile(ratio=0.713, run_count=812, gpu_model="NVIDIA H100"))
    assert (
        "better than 71 % of the GPU-hours on NVIDIA H100 in the 90 days up to its end (n = 812 jobs)"
        in " ".join(shown(placed).split())
    )
    rows = json.loads(pages_as_json([page, placed], question(), generated_at=datetime.now(CET)))["rows"]
    assert [None, {"percentile_ratio": 0.713, "run_count": 812, "gpu_model": "NVIDIA H100"}] == [
        row["percentile"] for row in rows
    ]
