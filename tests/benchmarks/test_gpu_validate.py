"""The validation script against a stand-in driver and somebody who only pretends to multiply.

This proves plumbing and arithmetic; what a real GPU does is what the script is for.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu.gemm import PRECISIONS, Product, sweep
from benchmarks.gpu.worker import Refused, WorkerFailed
from benchmarks.processes import wait_for
from tests.benchmarks.gpu_stage import FAKE, OFU_RATIO, ROOT, STEADY, Ended, Stage, stage
from tests.standins.nvml_standin import build

LIMIT = 30.0
TORCH = Path(__file__).parent / "torch_standin"


@pytest.fixture(scope="session")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in library."""
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with stand-ins for libcudart and libcublasLt: one library under two names."""
    compiler = shutil.which("gcc")
    assert compiler is not None, "gcc is needed, as for the stand-in of NVML"
    place = tmp_path_factory.mktemp("cuda")
    library = place / "libcudart.so.13"
    options = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared")
    source = Path(__file__).parent / "cuda_standin.c"
    subprocess.run((compiler, *options, str(source), "-o", str(library)), check=True)
    (place / "libcublasLt.so.13").symlink_to(library.name)
    return place


@pytest.fixture(scope="session")
def whole(nvml: Path) -> Ended:
    """A whole run at high speed, in a place that anybody may read."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o755)
        played = stage(place, nvml, gpu={"refresh_seconds": 0.02})
        return played.run("--faster", "24", "--products", "4")


def test_a_whole_run_is_complete(whole: Ended) -> None:
    """Every part is done, nothing is left out, and the exit code says so."""
    assert [] == whole.table.get("problems", [])
    assert (0, True) == (whole.code, whole.table["complete"])
    assert list(PRECISIONS) == [point["precision"] for point in whole.table["points"]]


def test_ofu_is_what_the_gpu_plays(whole: Ended) -> None:
    """Read in another process than the GEMMs', OFU is the truth; without padding it is what was reached."""
    for point in whole.table["points"]:
        found = point["sampled"]
        assert OFU_RATIO == pytest.approx(found["ofu"], abs=0.002)
        assert found["reached_ratio"] == pytest.approx(found["adjusted_ofu"], abs=0.003)
        assert found["ofu"] - found["reached_ratio"] == pytest.approx(0.0111, abs=0.004)
        assert "192x192x64" == point["tile"]


def test_cycle_counters_are_compared_as_well(whole: Ended) -> None:
    """The better estimator has its own figure, over the stretch that it covers."""
    assert all(abs(point["cycles"]["ofu"] - OFU_RATIO) < 0.3 for point in whole.table["points"])
    assert {1.0} == {point["seen"]["cycles"]["scale"] for point in whole.table["points"]}


def test_open_questions_are_answered_with_evidence(whole: Ended) -> None:
    """Each probe's answer is what the stand-in was told to be."""
    idle, load = whole.table["idle"], whole.table["under_load"]
    assert "ids 5, 2, 10, 248, 249, 250 answer" == idle["ids"]["answer"]
    assert idle["ids"]["unknown_id_answer"].startswith("call: 0 (success), metric: 3 (Not Supported)")
    assert ("absolute", 1.0) == (load["counters"]["form"], load["counters"]["scale"])
    assert "newer sample" == load["counters"]["taken_from"]
    assert load["counters"]["counted_mhz"] == pytest.approx(1755, rel=0.4)  # refresh over a short time
    assert idle["same_sample"]["answer"].startswith("tensor activity: success, nan; cycles: success, ")
    assert [5, 2, 10, 248, 249, 250] == load["cost"]["metrics"]
    seen = load["refresh"]["cycles"]
    assert 0 < seen["changes"] <= seen["seconds"] / 0.02 + 2  # the stand-in's refresh
    assert {"sample", "clock", "whole_reading"} < set(load["cost"])
    assert {"tenfold", "default"} == set(whole.table["slowdown"])
    assert whole.table["slowdown"]["tenfold"]["median_ratio"] == pytest.approx(0, abs=0.01)


def test_a_user_without_rights_is_asked(whole: Ended) -> None:
    """As root the probe becomes nobody and finds the same; anybody else is told why not."""
    if os.getuid() == 0:
        assert 65534 == whole.table["without_root"]["reading"]["user"]
        assert "counters are read" == whole.table["without_root"]["reading"]["answer"]


def test_the_report_can_be_pasted(whole: Ended) -> None:
    """GPU, driver, date and version head it, then the answers, and a table of errors, raw and adjusted."""
    assert whole.report == whole.printed
    assert whole.report.startswith(f"## NVIDIA H200, driver 595.45.04, {whole.table['date']}\n")
    assert f"slurm-ofu {whole.table['software_version']}; GEMMs by fake" in whole.report
    assert "| Which GPM metrics answer? | idle | ids 5, 2, 10, 248, 249, 250 answer |" in whole.report
    heads = [
        line for line in whole.report.splitlines() if line.startswith("| precision | bar | raw: n | MAE")
    ]
    assert 2 == len(heads)
    columns = {line.count("|") for line in whole.report.splitlines() if line.startswith(("| fp", "| all"))}
    assert {heads[0].count("|"), 11} == columns  # the second: each product's line


def test_the_deadline_keeps_what_was_found(tmp_path: Path, nvml: Path) -> None:
    """When time runs out, the rest is named as not done, and what was measured stays."""
    ended = stage(tmp_path, nvml).run("--faster", "8", "--limit-seconds", "7", "--parts", "sweep")
    assert (1, False) == (ended.code, ended.table["complete"])
    assert "NVIDIA H200" == ended.table["gpu"]["gpu_model"]
    assert "no time was left" in ended.report
    if "kernels" in ended.table:  # on a very busy machine the time is over before
        failed = {row["part"] for row in ended.table["problems"]} & {each.name for each in sweep()}
        done = [point["product"] for point in ended.table.get("points", [])]
        assert len(sweep()) == len(done) + len(failed) + len(ended.table["left_out"])


def test_being_killed_loses_little_and_leaves_nobody(tmp_path: Path, nvml: Path) -> None:
    """Results are on disk as they come; without the script its processes end by themselves."""
    played = stage(tmp_path, nvml)
    process = subprocess.Popen(
        played.command("--parts", "idle", "sweep"),
        env=played.environment(),
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
    )
    wait_for(
        lambda: played.out.exists() and "load" in json.loads(played.out.read_text()), "the load's word", 60
    )
    children = _children(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(children) >= 2
    assert "NVIDIA H200" == _found_so_far(played.out)["gpu"]["gpu_model"]
    wait_for(lambda: not any(_lives(child) for child in children), "the processes' end", 60)


def _found_so_far(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _children(process_id: int) -> list[int]:
    path = Path(f"/proc/{process_id}/task/{process_id}/children")
    return [int(child) for child in path.read_text(encoding="ascii").split()]


def _lives(process_id: int) -> bool:
    try:
        state = Path(f"/proc/{process_id}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_without_a_gpu_it_says_so(tmp_path: Path, nvml: Path) -> None:
    """No driver, or no GPU in it: a message, exit code 3, and a result file that says the same."""
    no_driver = replace(stage(tmp_path / "a", nvml), nvml=tmp_path / "missing.so").run()
    assert 3 == no_driver.code
    assert "nothing can be measured here: NVML cannot be used" in no_driver.complained
    assert "GPU" == no_driver.table["problems"][0]["part"]
    empty = stage(tmp_path / "b", nvml)
    no_gpu = replace(empty, scenario=replace(empty.scenario, gpus=())).run()
    assert 3 == no_gpu.code
    assert "NVML sees no whole GPU 0" in no_gpu.report


def test_an_older_gpu_is_asked_what_it_can_answer(tmp_path: Path, nvml: Path) -> None:
    """Without GPM nothing is compared, and the report gives the reason."""
    ended = stage(tmp_path, nvml, gpu={"gpm": False, "architecture": 7}).run("--faster", "8")
    assert 1 == ended.code
    assert {"idle: ids", "without root", "GEMMs"} <= {row["part"] for row in ended.table["problems"]}
    assert "this GPU has no GPM" in ended.report
    assert "points" not in ended.table


def test_without_a_library_for_gemms_the_questions_are_answered(tmp_path: Path, nvml: Path) -> None:
    """Nobody who multiplies: the idle GPU's answers are there, and why the rest is not."""
    ended = stage(tmp_path, nvml, OFU_FAKE_GEMM="").run("--faster", "8", "--parts", "idle", "sweep")
    assert 1 == ended.code
    assert ended.table["idle"]["ids"]["cycle_counters"]
    assert [{"part": f"GEMMs by {FAKE}", "what": "OFU_FAKE_GEMM is not set"}] == ended.table["problems"]


def test_a_crash_costs_one_product(tmp_path: Path, nvml: Path) -> None:
    """A GEMM that takes its process down is reported, and the next product is measured."""
    ended = stage(tmp_path, nvml, crashes_on="bf16 8192").run(
        "--faster", "16", "--products", "3", "--parts", "sweep"
    )
    assert ["fp16 8192", "tf32 8192"] == [point["product"] for point in ended.table["points"]]
    (problem,) = ended.table["problems"]
    assert ("bf16 8192", 1) == (problem["part"], ended.code)
    assert "died (exit status -6)" in problem["what"]


def test_cublaslt_through_ctypes(tmp_path: Path, nvml: Path, cuda: Path) -> None:
    """The calls that reach the libraries describe the product; its tile comes from cuBLASLt's trace."""
    reached = OFU_RATIO * 989.4
    played = stage(tmp_path, nvml, LD_LIBRARY_PATH=cuda, OFU_CUDA_STANDIN_TFLOPS=reached)
    ended = played.run("--faster", "12", "--products", "4", "--parts", "sweep", backend="cublas")
    assert ([], 0) == (ended.table.get("problems", []), ended.code)
    points = {point["precision"]: point for point in ended.table["points"]}
    assert set(PRECISIONS) == set(points)
    assert {"128x256x64"} == {point["tile"] for point in points.values()}
    assert points["fp16"]["sampled"]["reached_ratio"] == pytest.approx(OFU_RATIO, abs=0.01)
    assert points["fp8"]["sampled"]["reached_tflops"] == pytest.approx(reached, rel=0.02)


def test_torch(tmp_path: Path, nvml: Path) -> None:
    """Products, FP8's scales, graphs, events and the profiler as PyTorch wants them; odd FP8 is refused."""
    played = stage(tmp_path, nvml, PYTHONPATH=TORCH)
    worker = played.worker("benchmarks.gpu.load", "torch")
    try:
        assert "NVIDIA H200" == worker.ask("describe", limit=LIMIT)["gpu_model"]
        for precision in PRECISIONS:
            product = Product(precision=precision, m=1040, n=2064, k=528)
            tile = "128x160" if precision == "fp8" else "128x256"
            assert tile in worker.ask("kernel", limit=LIMIT, product=product.plain())["name"]
            worker.begin("multiply", product=product.plain(), seconds=0.1)
            assert "running" == worker.event(LIMIT)
            done = worker.answer(LIMIT)
            assert product.per_launch == done["per_launch"]
            assert product.flop / 100e12 == pytest.approx(done["seconds_each"], rel=0.01)
        with pytest.raises(Refused, match=r"torch does not do fp8 1000: RuntimeError: Expected trailing"):
            worker.ask("kernel", limit=LIMIT, product=_product("fp8", 1000, 1000, 1000))
    finally:
        worker.close()


def test_a_torch_that_fails_gives_way_to_cublas(tmp_path: Path, nvml: Path, cuda: Path) -> None:
    """By default the first library that multiplies for a moment does it all; why not the other is kept."""
    played = stage(tmp_path, nvml, PYTHONPATH=TORCH, LD_LIBRARY_PATH=cuda, OFU_TORCH_BROKEN=1)
    ended = played.run("--faster", "24", "--products", "1", "--parts", "sweep", backend="auto")
    assert "cublasLt" == ended.table["load"]["backend"]
    assert "no kernel image" in ended.table["load"]["tried_before"]["torch"]
    assert ([], 1) == (ended.table.get("problems", []), len(ended.table["points"]))


def test_cublaslt_refuses_what_it_cannot_do(tmp_path: Path, nvml: Path, cuda: Path) -> None:
    """A refused product is a word with its reason; without CUDA graphs products are launched singly."""
    played = stage(tmp_path, nvml, LD_LIBRARY_PATH=cuda, OFU_CUDA_STANDIN_NO_GRAPHS=1)
    worker = played.worker("benchmarks.gpu.load", "cublas")
    try:
        assert 132 == worker.ask("describe", limit=LIMIT)["sm_count"]
        with pytest.raises(Refused, match=r"cuBLASLt does not do fp8 1000: .*NOT_SUPPORTED"):
            worker.ask("kernel", limit=LIMIT, product=_product("fp8", 1000, 1000, 1000))
        worker.begin("multiply", product=_product("tf32", 3001, 1000, 257), seconds=0.05)
        assert "running" == worker.event(LIMIT)
        done = worker.answer(LIMIT)
        assert 1 == done["per_launch"]
        assert done["marks"][-1][0] > 0
    finally:
        worker.close()


def _product(precision: str, m: int, n: int, k: int) -> dict[str, object]:
    return Product(precision=precision, m=m, n=n, k=k).plain()


def test_without_cublas_the_reason_names_the_libraries(tmp_path: Path, nvml: Path, cuda: Path) -> None:
    """Libraries that see no GPU are tried and named."""
    played = stage(tmp_path, nvml, LD_LIBRARY_PATH=cuda, OFU_CUDA_STANDIN_NONE=1)
    worker = played.worker("benchmarks.gpu.load", "cublas")
    try:
        with pytest.raises(Refused, match=r"libcudart\.so\.13 sees no GPU"):
            worker.ask("describe", limit=LIMIT)
    finally:
        worker.close()


def _probe(played: Stage, name: str, **arguments: object) -> dict[str, object]:
    worker = played.worker("benchmarks.gpu.observe", str(played.nvml), "0")
    try:
        found: dict[str, object] = worker.ask("probe", limit=LIMIT, name=name, **arguments)
    finally:
        worker.close()
    return found


def test_weighting_tells_cycles_from_time(tmp_path: Path, nvml: Path) -> None:
    """With a clock that swings with the load, a mean over cycles is told from one over time."""
    rest = replace(STEADY, seconds=0.5, tensor_ratio=0.0, sm_clock_mhz=1980.0)
    busy = replace(STEADY, seconds=0.5, tensor_ratio=0.9, sm_clock_mhz=1300.0)
    found = _probe(stage(tmp_path, nvml, busy, rest), "weighting", seconds=2.4, interval=0.15)
    assert str(found["answer"]).startswith("weighted by cycles")


def test_weighting_without_a_swing_is_not_known(tmp_path: Path, nvml: Path) -> None:
    """A clock that stands still decides nothing."""
    found = _probe(stage(tmp_path, nvml), "weighting", seconds=0.5, interval=0.15)
    assert str(found["answer"]).startswith("not known: the two means are only")


@pytest.mark.parametrize(
    ("gpu", "form", "scale"),
    [
        ({"counters": "difference"}, "difference", 1.0),
        ({"counters_summed_over_sms": True}, "absolute", 132.0),
        ({"counters": "absent"}, "absent", None),
    ],
)
def test_what_the_counters_are(
    tmp_path: Path, nvml: Path, gpu: dict[str, object], form: str, scale: float | None
) -> None:
    """Three samples tell absolute counters from differences, the clock their scale."""
    found = _probe(stage(tmp_path, nvml, gpu=gpu), "counters", seconds=0.3)
    assert (form, scale) == (found["form"], found["scale"])


def test_a_worker_that_does_not_answer_is_ended(tmp_path: Path, nvml: Path) -> None:
    """Past its limit a process is ended and the next question starts a new one."""
    worker = stage(tmp_path, nvml).worker("benchmarks.gpu.observe", str(nvml), "0")
    try:
        with pytest.raises(WorkerFailed, match="did not answer within"):
            worker.ask("observe", limit=0.5, seconds=60, interval_seconds=1, clock_readings=1, seed=0)
        assert "NVIDIA H200" == worker.ask("identity", limit=LIMIT)["gpu_model"]
    finally:
        worker.close()
