"""The result file as Markdown, in the form of docs/validation.md's results."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.gpu.agreement import Agreement, agreement
from benchmarks.gpu.gemm import PRECISIONS

Table = Mapping[str, Any]
#: Question → where in the results its answers are, each with what it was asked of.
QUESTIONS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    ("Which GPM metrics answer?", (("idle", "ids"),)),
    ("What does an unknown metric get?", (("idle", "ids/unknown_id_answer"),)),
    (
        "Are 248 and 250 absolute, in which scale, and do they go on when idle?",
        (("idle", "counters"), ("under_load", "counters")),
    ),
    (
        "Does one sample suffice (MetricsGet with it twice)?",
        (("idle", "same_sample"), ("under_load", "same_sample")),
    ),
    ("Is a GPM mean one over cycles?", (("by_turns", "weighting"),)),
    ("How often do the counters change?", (("under_load", "refresh"),)),
    ("Can a user without rights read them?", (("without_root", "reading"), ("without_root", "ids"))),
    (
        "Does the driver keep past clock readings?",
        (("idle", "clock_samples"), ("under_load", "clock_samples")),
    ),
    ("What does it cost (out of sleep, median)?", (("under_load", "cost"),)),
)
GOAL_RATIO = 0.001


def report(table: Table) -> str:
    """All of it; what is not there yet is left out."""
    parts = (
        _head(table),
        _answers(table),
        _cost(table),
        _slowdown(table),
        _agreement(table, "sampled"),
        _agreement(table, "cycles"),
        _points(table),
        _not_done(table),
    )
    return "\n".join(line for part in parts for line in part).rstrip()


def pairs_of(table: Table, estimator: str, precision: str | None, key: str) -> list[tuple[float, float]]:
    """(OFU, share of the peak) of every product of a precision that has both."""
    found = []
    for point in table.get("points", ()):
        row = point.get(estimator) or {}
        if precision in (None, point["precision"]) and None not in (row.get(key), row.get("reached_ratio")):
            found.append((row[key], row["reached_ratio"]))
    return found


def _head(table: Table) -> Iterator[str]:
    gpu, load = table.get("gpu", {}), table.get("load", {})
    state = "complete" if table.get("complete") else "**not complete: see the end**"
    yield f"## {gpu.get('gpu_model') or 'no GPU'}, driver {gpu.get('driver')}, {table.get('date')}"
    yield ""
    yield (
        f"slurm-ofu {table.get('software_version')}; GEMMs by {_words(load) or 'nobody'}; "
        f"{table.get('seconds', 0):.0f} s; {state}."
    )
    if float(table.get("arguments", {}).get("faster", 1)) != 1:
        yield "**Tried out at a higher speed: these results mean nothing.**"
    if gpu:
        catalogue = gpu.get("catalogue") or {}
        status = catalogue.get("status", "not known")
        yield (
            f"Reference clock {catalogue.get('reference_clock_mhz')} MHz ({status}); "
            f"maximum by NVML {gpu.get('max_sm_clock_mhz')} MHz; {gpu.get('sm_count')} SMs; "
            f"MIG mode {gpu.get('mig_mode')}; persistence mode {gpu.get('persistence_mode')}; "
            f"utilisation before {gpu.get('utilisation')} %."
        )
    yield ""


def _words(load: Table) -> str:
    versions = (
        f"{name} {load[name]}" for name in ("torch", "cuda", "cuda_runtime", "cuda_driver") if name in load
    )
    said = ", ".join(versions)
    return f"{load['backend']} ({said})" if said else str(load.get("backend", ""))


def _answers(table: Table) -> Iterator[str]:
    rows = list(_answer_rows(table))
    if not rows:
        return
    yield from ("### Open questions", "", "| question | asked | answer |", "|---|---|---|", *rows, "")


def _answer_rows(table: Table) -> Iterator[str]:
    for question, places in QUESTIONS:
        for section, path in places:
            name, _, key = path.partition("/")
            found = table.get(section, {}).get(name)
            if found is not None:
                yield f"| {question} | {section.replace('_', ' ')} | {found.get(key or 'answer')} |"


def _cost(table: Table) -> Iterator[str]:
    cost = table.get("under_load", {}).get("cost")
    if not cost:
        return
    yield from (
        "### What a reading costs",
        "",
        "| | wall, median | wall, p99 | CPU, median |",
        "|---|---:|---:|---:|",
    )
    for name, label in (
        ("sample", "sample and its metrics"),
        ("clock", "clock reading"),
        ("whole_reading", "the product's whole reading"),
    ):
        for way in ("back_to_back", "out_of_sleep"):
            row = cost[name][way]
            yield (
                f"| {label}, {way.replace('_', ' ')} | {row['wall_median_us']:.0f} µs | "
                f"{row['wall_p99_us']:.0f} µs | {row['cpu_median_us']:.0f} µs |"
            )
    yield ""


def _slowdown(table: Table) -> Iterator[str]:
    found = table.get("slowdown", {})
    if not found:
        return
    yield from (
        "### Slowdown of a GEMM while sampled",
        "",
        "Goal: under 0.1 %. The interval encloses the mean with 95 % (Student's t over the turns).",
        "",
        "| pace | interval | turns | median | mean | 95 % interval | goal |",
        "|---|---:|---:|---:|---:|---|---|",
    )
    for name, row in found.items():
        low, high = row["low_ratio"], row["high_ratio"]
        bounds = "unknown" if low is None else f"{100 * low:.3f} … {100 * high:.3f} %"
        yield (
            f"| {name} | {row['interval_seconds']:g} s | {row['pairs']} | "
            f"{100 * row['median_ratio']:.3f} % | {100 * row['mean_ratio']:.3f} % | "
            f"{bounds} | {_verdict(low, high)} |"
        )
    yield ""


def _verdict(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "not shown"
    if high < GOAL_RATIO:
        return "met"
    return "MISSED" if low > GOAL_RATIO else "not shown: the interval is too wide"


def _agreement(table: Table, estimator: str) -> Iterator[str]:
    if not pairs_of(table, estimator, None, "ofu"):
        return
    yield from (
        f"### OFU (`{estimator}`) against the share of the dense peak that was reached",
        "",
        "Mean absolute error in percentage points; the share of products within 2 and within 5 points; `bar`",
        "is the mean 95 % half-width that the estimator itself states for windows this short.",
        "",
        "| precision | bar | raw: n | MAE | ≤ 2 pp | ≤ 5 pp | r | adjusted: n | MAE | ≤ 2 pp | ≤ 5 pp | r |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    )
    for precision in (*PRECISIONS, None):
        both = [agreement(pairs_of(table, estimator, precision, key)) for key in ("ofu", "adjusted_ofu")]
        if both[0] is not None:
            cells = (precision or "all", _bar(table, estimator, precision), *map(_cells, both))
            yield f"| {' | '.join(cells)} |"
    yield ""


def _bar(table: Table, estimator: str, precision: str | None) -> str:
    figures = [
        point["seen"].get(estimator) or {}
        for point in table.get("points", ())
        if precision in (None, point["precision"])
    ]
    bars = [figure["error_pp"] for figure in figures if figure.get("error_pp") is not None]
    return f"{sum(bars) / len(bars):.2f}" if bars else ""


def _cells(found: Agreement | None) -> str:
    if found is None:
        return "0 | | | |"
    correlation = "" if found.correlation is None else f"{found.correlation:.4f}"
    return (
        f"{found.count} | {found.mean_absolute_pp:.2f} | {100 * found.narrow_ratio:.0f} % | "
        f"{100 * found.wide_ratio:.0f} % | {correlation}"
    )


def _points(table: Table) -> Iterator[str]:
    points: Sequence[Table] = table.get("points", ())
    if not points:
        return
    yield from (
        "### Every product",
        "",
        "Sampled OFU, adjusted OFU and what was reached in per cent of the dense peak.",
        "",
        "| product | kernel | tile | TPA | clock | OFU | adjusted | reached | error | adjusted |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|---:|",
    )
    for point in points:
        row, figure = point.get("sampled") or {}, point["seen"].get("sampled") or {}
        reached = row.get("reached_ratio")
        yield (
            f"| {point['product']} | {point.get('kernel') or ''} | {point.get('tile') or ''} | "
            f"{_per_cent(figure.get('tpa'))} | {_mhz(figure.get('active_clock_mhz'))} | "
            f"{_per_cent(row.get('ofu'))} | {_per_cent(row.get('adjusted_ofu'))} | {_per_cent(reached)} | "
            f"{_error(row.get('ofu'), reached)} | {_error(row.get('adjusted_ofu'), reached)} |"
        )
    yield ""


def _per_cent(ratio: float | None) -> str:
    return "" if ratio is None else f"{100 * ratio:.2f}"


def _mhz(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"


def _error(ofu: float | None, reached: float | None) -> str:
    return "" if ofu is None or reached is None else f"{100 * (ofu - reached):+.2f}"


def _not_done(table: Table) -> Iterator[str]:
    problems, refused = table.get("problems", ()), table.get("refused", ())
    if problems or refused or table.get("left_out"):
        yield from ("### What could not be done, and why", "")
    for problem in problems:
        yield f"- {problem['part']}: {_line(problem['what'])}"
    for row in refused:
        yield f"- {row['product']}: {_line(row['why'])}"
    if table.get("left_out"):
        yield f"- left out for lack of time: {', '.join(table['left_out'])}"
    yield ""


def _line(text: str) -> str:
    return " ".join(text.split())
