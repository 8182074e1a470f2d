"""From the sampler's loop to the page: what was judged by the minute arrives as it was measured."""

import json
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from slurm_ofu.counters.pattern import Pattern, Segment
from slurm_ofu.gpu_models import find_model
from slurm_ofu.integrals.totals import Allocation, Rules, gpu_totals
from slurm_ofu.records.codec import decode, encode
from slurm_ofu.reports.as_json import pages_as_json
from slurm_ofu.reports.as_page import as_page
from slurm_ofu.reports.as_table import as_table
from slurm_ofu.reports.question import Question
from slurm_ofu.store.read import Reader
from slurm_ofu.values import JobPage, Selection
from tests.samples.fake_clock import SECOND, FakeClock, Trial
from tests.store.databases import make_store
from tests.store.records import START, make_record

HOUR_S = 3600.0
MODEL = "NVIDIA H100 80GB HBM3"
LEFT = (
    Segment(seconds=1200, tensor_active_ratio=0.5, sm_clock_mhz=1830),
    Segment(
        seconds=2400, tensor_active_ratio=0.0, sm_clock_mhz=345, sm_active_ratio=0.0, utilisation_ratio=0.0
    ),
)
FP64 = (Segment(seconds=HOUR_S, tensor_active_ratio=0.0, sm_clock_mhz=1830, sm_active_ratio=0.93),)
QUESTION = Question(selection=Selection(), by="job", zone=timezone.utc)


def page_of(place: Path, *, cycles: bool) -> JobPage:
    """The page of an hour on two GPUs: one is left after 20 minutes, one does FP64 work."""
    clock = FakeClock(now_ns=2 * 3600 * SECOND)  # where both patterns begin
    trial = Trial({0: Pattern(LEFT), 1: Pattern(FP64)}, clock=clock, cycles=cycles)
    trial.run(HOUR_S)
    gpus = [
        gpu_totals(
            fold,
            Allocation(
                position=position, allocated_seconds=HOUR_S, uuid=None, gpu_model=MODEL, mapped_by=None
            ),
            find_model(MODEL, ()),
            Rules(interval_seconds=10.0, refresh_seconds=0.1),
            died=False,
            wall_offset_ns=int(START * SECOND) - 7200 * SECOND,
        )
        for position, fold in trial.folds.items()
    ]
    store = make_store(place / "ofu.db")
    store.write([decode(encode(make_record(end=START + HOUR_S, gpus=gpus)))])
    return Reader(place / "ofu.db").page(1)


def test_a_page_says_what_the_gpus_did(tmp_path: Path) -> None:
    """Of two GPUs for an hour: 40 minutes idle at the end of one, 60 without tensor cores on the other."""
    page = page_of(tmp_path, cycles=True)
    text = " ".join(as_page(page, timezone.utc, width=90, colour=False).split())
    assert "Idle 0.7 of 2.0 GPU-hours (33.3 %) 1 of 2 GPUs for the last 40.0 min" in text
    assert "No tensor 1.0 of 2.0 GPU-hours (50.0 %): busy without tensor cores" in text
    assert "Peak 25.0 % OFU over each GPU's busiest 5 minutes" in text
    assert "Throttled never, of 2.0 GPU-hours" in text
    table = as_table([page.row], QUESTION, width=120, colour=False).splitlines()
    assert ["2", "2.0", "0.667"] == table[3].split()[4:7]


def test_both_estimators_judge_alike(tmp_path: Path) -> None:
    """A JSON page has the same idle, non-tensor and peak figures whichever estimator spoke."""
    seen = []
    for cycles in (True, False):
        place = tmp_path / str(cycles)
        place.mkdir()
        page = page_of(place, cycles=cycles)
        text = pages_as_json([page], QUESTION, generated_at=datetime.now(timezone.utc))
        (row,) = json.loads(text)["rows"]
        assert ("cycles" if cycles else "sampled") == row["estimator"]
        names = ("idle_gpu_hours", "idle_judged_gpu_hours", "non_tensor_gpu_hours", "idle_tail_gpu_hours")
        seen.append([round(row[name], 3) for name in (*names, "peak_ofu_ratio")])
        assert 0.0 == row["idle_tail_seconds"]
    assert [[0.667, 2.0, 1.0, 0.667, 0.25]] * 2 == seen


def test_a_run_left_by_all_its_gpus(tmp_path: Path) -> None:
    """The run's own tail is the least of its GPUs'."""
    page = page_of(tmp_path, cycles=True)
    alone = replace(
        page, row=replace(page.row, sums=replace(page.row.sums, gpu_count=1.0)), gpus=page.gpus[:1]
    )
    text = pages_as_json([alone], QUESTION, generated_at=datetime.now(timezone.utc))
    assert 2400.0 == round(json.loads(text)["rows"][0]["idle_tail_seconds"])
