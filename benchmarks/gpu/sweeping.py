"""The sweep: product after product on one side, the product's sampler on the other."""

import time
from collections.abc import Sequence
from typing import Any

from benchmarks.gpu.agreement import rate, tile_useful_ratio
from benchmarks.gpu.gemm import FORMATS, Product
from benchmarks.gpu.session import OutOfTime, Session
from benchmarks.gpu.worker import Refused, Worker, WorkerFailed

INTERVAL_SECONDS = 0.5
CLOCK_READINGS = 10
SETTLE_SECONDS = 0.7  # several refreshes of the counters
WINDOW_SECONDS = 2.4
#: What a product takes beside its window: operands, first run, calibration, stop.
BESIDE_SECONDS = 1.0
FAILURES_IN_A_ROW = 5


def kernels(session: Session, products: Sequence[Product], worker: Worker) -> dict[str, dict[str, Any]]:
    """Product's name → its kernel; in a process of its own, since a profiler stays in the one it was in."""
    found: dict[str, dict[str, Any]] = {}
    try:
        with session.part("kernel names"):
            until = time.monotonic() + session.within(session.pace(60.0))
            for product in products:
                if time.monotonic() > until:
                    raise OutOfTime
                try:
                    found[product.name] = worker.ask(
                        "kernel", limit=session.within(60), product=product.plain()
                    )
                except (Refused, WorkerFailed):
                    continue  # the sweep says why
    finally:
        worker.close()
    return found


def sweep(
    session: Session,
    products: Sequence[Product],
    identity: dict[str, Any],
    kernels_of: dict[str, dict[str, Any]],
) -> None:
    """Each product that the time suffices for."""
    failures = 0
    for place, product in enumerate(products):
        try:
            if session.left() < session.pace(SETTLE_SECONDS + WINDOW_SECONDS) + BESIDE_SECONDS + 2:
                raise OutOfTime
            point = _point(session, product, identity, kernels_of.get(product.name, {}))
            session.results.add("points", point)
            failures = 0
        except Refused as refused:
            session.results.add("refused", {"product": product.name, "why": str(refused)})
        except WorkerFailed as failed:
            session.results.problem(product.name, str(failed))
            failures += 1
            if failures == FAILURES_IN_A_ROW:
                session.results.problem("sweep", f"given up after {failures} failures in a row")
                return
        except OutOfTime:
            left_out = [each.name for each in products[place:]]
            session.results.put("left_out", left_out)
            session.results.problem("sweep", f"no time was left for {len(left_out)} products")
            return


def _point(
    session: Session, product: Product, identity: dict[str, Any], kernel: dict[str, Any]
) -> dict[str, Any]:
    pace = session.pace
    with session.multiplying(product, pace(WINDOW_SECONDS) + 30) as marks:
        time.sleep(max(0.25, pace(SETTLE_SECONDS)))
        seen = session.observer.ask(
            "observe",
            limit=session.within(pace(WINDOW_SECONDS) + 20),
            seconds=pace(WINDOW_SECONDS),
            interval_seconds=max(0.15, pace(INTERVAL_SECONDS)),
            clock_readings=CLOCK_READINGS,
            seed=product.m,
        )
    tile = tile_useful_ratio(product.m, product.n, product.k, kernel.get("name"), kernel.get("traced"))
    point = {
        "product": product.name,
        **product.plain(),
        "kernel": kernel.get("name") or kernel.get("traced"),
        "tile": tile[1] if tile else None,
        "useful_ratio": tile[0] if tile else None,
        "seen": seen,
    }
    peak = peak_flops(identity.get("catalogue"), product.precision)
    for estimator, start in (("sampled", "start_ns"), ("cycles", "counted_from_ns")):
        figure = seen[estimator]
        products_per_second = rate(marks, seen[start], seen["end_ns"])
        if figure is None or products_per_second is None:
            continue
        flops = products_per_second * product.flop
        ofu = figure.get("ofu")
        point[estimator] = {
            "ofu": ofu,
            "adjusted_ofu": ofu * tile[0] if tile and ofu is not None else None,
            "reached_tflops": flops / 1e12,
            "reached_ratio": None if peak is None else flops / peak,
        }
    return point


def peak_flops(catalogue: dict[str, Any] | None, precision: str) -> float | None:
    """The dense peak of the GPU's catalogue row: the vendor's figure, else SMs × rate × reference clock."""
    if catalogue is None:
        return None
    name = FORMATS[precision]
    if name in catalogue["peak_tflops"]:
        return float(catalogue["peak_tflops"][name]) * 1e12
    rate_per_sm, sm_count = catalogue["flop_per_clock_per_sm"].get(name), catalogue["sm_count"]
    if rate_per_sm is None or sm_count is None:
        return None
    return float(rate_per_sm) * float(sm_count) * float(catalogue["reference_clock_mhz"]) * 1e6
