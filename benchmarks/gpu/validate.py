"""``python -m benchmarks.gpu.validate``: does OFU say on this GPU what it should?

GEMMs with a known number of operations run in one process, the product's own source and sampler read
NVML in another, and OFU is held against the share of the peak that was reached. Besides it answers what
NVIDIA's documents leave open. It only reads: no clock, MIG or other setting is touched.

Exit code: 0 all was done, 1 some of it was not (the report says what), 2 the arguments make no sense,
3 there is no GPU.
"""

import argparse
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NoReturn

from benchmarks.gpu import questions, sweeping
from benchmarks.gpu.gemm import BACKENDS, Product
from benchmarks.gpu.gemm import sweep as all_products
from benchmarks.gpu.load import LOG_FILE_VARIABLE
from benchmarks.gpu.results import Results
from benchmarks.gpu.session import OutOfTime, Pace, Session
from benchmarks.gpu.worker import Refused, Worker, WorkerFailed
from slurm_ofu import __version__

OBSERVER, LOAD = "benchmarks.gpu.observe", "benchmarks.gpu.load"
NOBODY = 65534
TRIAL = Product(precision="fp16", m=1024, n=1024, k=1024)
DONE, PARTLY_DONE, NO_GPU = 0, 1, 3
#: In the order in which they are done; all from ``load`` on need somebody who multiplies.
PARTS = ("idle", "without-root", "load", "turns", "slowdown", "sweep")


def arguments_of(given: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu.validate", description=__doc__.split("\n")[0]
    )
    out = Path(os.environ["OUT"]) if os.environ.get("OUT") else Path()
    option = parser.add_argument
    option(
        "--out", type=Path, default=out / "validate.json", help="result file; the report is beside it as .md"
    )
    option(
        "--limit-seconds", type=float, default=540.0, help="everything ends by then (default: %(default)g)"
    )
    option("--gpu", type=int, default=0, help="NVML's index of the GPU (default: %(default)s)")
    option("--backend", default="auto", help="torch, cublas, or auto: the first that works")
    option("--nvml-library", default="libnvidia-ml.so.1")
    option("--parts", nargs="+", choices=PARTS, default=PARTS, help="only these")
    option("--products", type=int, help="only the first so many products of the sweep")
    option("--faster", type=float, default=1.0, help="all times divided by this: to try the script out")
    found = parser.parse_args(given)
    if found.limit_seconds <= 0 or found.faster < 1 or not found.out.parent.is_dir():
        parser.error(
            "--limit-seconds must be above 0, --faster at least 1, and --out in a directory that exists"
        )
    return found


def main(given: Sequence[str] | None = None) -> int:
    """Everything, in the order in which it is wanted most."""
    arguments = arguments_of(given)
    signal.signal(signal.SIGTERM, _end)
    results = Results(arguments.out)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ofu-validate-") as place:
        session = _session(arguments, results, begin)
        try:
            code = _all(session, arguments, Path(place))
        finally:
            session.load.close()
            session.observer.close()
            results.put("seconds", time.monotonic() - begin)
    print(results.report_path.read_text(encoding="utf-8"), end="")
    print(f"results: {results.path}, report: {results.report_path}", file=sys.stderr)
    return code


def _session(arguments: argparse.Namespace, results: Results, begin: float) -> Session:
    now = datetime.now(tz=timezone.utc)
    results.table.update(
        format=1,
        software_version=__version__,
        date=now.strftime("%Y-%m-%d"),
        started_at=now.isoformat(timespec="seconds"),
        python=platform.python_version(),
        platform=platform.platform(),
        arguments={name: str(value) for name, value in vars(arguments).items()},
        complete=False,
        seconds=0.0,
    )
    return Session(
        results=results,
        observer=Worker(OBSERVER, (arguments.nvml_library, str(arguments.gpu)), {}),
        load=Worker(LOAD, (arguments.backend,), {}),
        pace=Pace(faster=arguments.faster),
        deadline=begin + arguments.limit_seconds,
    )


def _all(session: Session, arguments: argparse.Namespace, place: Path) -> int:
    results = session.results
    try:
        gpu = session.observer.ask("identity", limit=session.within(60))
    except (Refused, WorkerFailed, OutOfTime) as error:
        results.problem("GPU", str(error))
        print(f"nothing can be measured here: {error}", file=sys.stderr)
        return NO_GPU
    results.put("gpu", gpu)
    parts = arguments.parts
    if "idle" in parts:
        questions.idle(session)
    if "without-root" in parts:
        as_nobody = (arguments.nvml_library, str(arguments.gpu), str(NOBODY))
        questions.other_user(session, Worker(OBSERVER, as_nobody, {}))
    if set(PARTS[2:]) & set(parts):
        backend = _load_starts(session, arguments, gpu)
        if backend is not None:
            _with_load(session, arguments, gpu, place, backend)
    done = not results.table.get("problems")
    results.put("complete", done)
    return DONE if done else PARTLY_DONE


def _load_starts(session: Session, arguments: argparse.Namespace, gpu: dict[str, Any]) -> str | None:
    """The library that multiplies on this GPU: the first that does so for a moment."""
    if not gpu["gpm_supported"]:
        session.results.problem("GEMMs", "this GPU has no GPM (it came with Hopper): nothing to compare with")
        return None
    reasons = {}
    for name in BACKENDS if arguments.backend == "auto" else (arguments.backend,):
        session.load.close()
        session.load = Worker(LOAD, (name,), {"CUDA_VISIBLE_DEVICES": gpu["uuid"]})
        try:
            found = session.load.ask("describe", limit=session.within(90))
            with session.multiplying(TRIAL, 5):
                time.sleep(session.pace(0.2))
        except (Refused, WorkerFailed, OutOfTime) as error:
            reasons[name] = str(error) or "no time was left"
            continue
        session.results.put("load", {**found, "tried_before": reasons})
        return name
    for name, reason in reasons.items():
        session.results.problem(f"GEMMs by {name}", reason)
    return None


def _with_load(
    session: Session, arguments: argparse.Namespace, gpu: dict[str, Any], place: Path, backend: str
) -> None:
    for part, ask in (
        ("load", questions.under_load),
        ("turns", questions.by_turns),
        ("slowdown", questions.slowed),
    ):
        if part in arguments.parts:
            ask(session)
    if "sweep" in arguments.parts:
        _sweep(session, all_products()[: arguments.products], gpu, place, backend)


def _sweep(
    session: Session, products: Sequence[Product], gpu: dict[str, Any], place: Path, backend: str
) -> None:
    traced = {
        "CUDA_VISIBLE_DEVICES": gpu["uuid"],
        "CUBLASLT_LOG_LEVEL": "5",
        LOG_FILE_VARIABLE: str(place / "cublaslt.log"),
    }
    kernels = sweeping.kernels(session, products, Worker(LOAD, (backend,), traced))
    session.results.put("kernels", kernels)
    sweeping.sweep(session, products, gpu, kernels)


def _end(number: int, _: Any) -> NoReturn:
    """SIGTERM: what was found is on disk; end the other processes, too."""
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
