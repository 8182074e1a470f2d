"""One run's figures as one word, for a comment field of Slurm's accounting, and back.

    ofu1:ofu=0.41237;tpa=0.44821;clk=0.92;cov=0.9812;gpuh=12.5;err=0.1;gpus=8;est=cycles;model=h100-80gb-hbm3

Lower case, without blanks, quotes and backslashes, so that it survives every Slurm (22.05 writes capitals
small). In this order, each only where it is known:

    ofu    OFU, a ratio; where there is none, ``why`` says why
    tpa    tensor activity, a ratio
    clk    their quotient: for people, not read back
    cov    the share of gpuh that ofu speaks for (without ofu: that was measured at all)
    gpuh   GPU-hours allocated
    err    half-width of the 95 % interval of ofu, in percentage points
    meas   GPU-hours measured, where cov and gpuh do not say it
    gpus   GPUs allocated
    notime GPUs of these whose time is unknown: gpuh leaves them out
    sm     SM activity, a ratio
    kwh    energy
    est    the estimators, joined by +
    why    the reasons but a sole "ok", the most telling first, joined by +
    model  the GPU models, joined by +, written small and without the maker

Precision: five significant digits for ofu, tpa, cov, sm and kwh, seven for gpuh, meas and gpus, three for
err. An OFU, and a total of many, is hence off by at most 0.00005 of itself: far below any error bar. What
pooling needs and a token does not say is taken for granted: that tpa and sm are about the same time as cov,
and that err has very many degrees of freedom.

Keys of later versions are passed over; ``ofu2:`` would be another format, and is not read.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Final

from slurm_ofu.figures import figures
from slurm_ofu.figures.student import NORMAL_QUANTILE
from slurm_ofu.values import Figures, UsageSums

VERSION: Final = 1
_HOUR: Final = 3600.0
_KWH: Final = 3.6e6
_WORD: Final = re.compile(r"(?<!\S)ofu([0-9]{1,9}):(\S+)", re.ASCII)
_KEY: Final = re.compile(r"[a-z][a-z0-9_]*")
_NUMBER: Final = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,20})?(?:e[+-][0-9]{1,3})?")
_LARGEST: Final = 1e15
_NUMBERS: Final = ("ofu", "tpa", "cov", "gpuh", "err", "meas", "gpus", "notime", "sm", "kwh")


def token_of(sums: UsageSums) -> str:
    """The token of one run."""
    its = figures(sums)
    measured = _measured_hours(sums, its)
    said = {
        "ofu": _ratio(its.ofu_ratio),
        "tpa": _ratio(its.tpa_mean_ratio),
        "clk": _ratio(its.active_clock_ratio),
        "cov": _ratio(its.coverage_ratio),
        "gpuh": _amount(its.gpu_hours),
        "err": None if its.ofu_error_pp is None else _significant(its.ofu_error_pp, 3),
        "meas": None if _follows(measured, its) else _amount(measured),
        "gpus": _amount(sums.gpu_count),
        "notime": _amount(sums.gpu_count_unknown_time or None),
        "sm": _ratio(its.sm_active_ratio) if measured else None,
        "kwh": None if its.energy_joules is None else _significant(its.energy_joules / _KWH, 5),
        "est": _words(sorted(set(sums.estimators))),
        "why": None if its.reasons == ("ok",) else _words(its.reasons),
        "model": _words(sorted({_model(name) for name in sums.gpu_models})),
    }
    return f"ofu{VERSION}:" + ";".join(f"{key}={value}" for key, value in said.items() if value is not None)


def sums_of(token: str) -> UsageSums | None:
    """What a token says, as the sums of one run; ``None``: this is no token that we can read."""
    match = _WORD.fullmatch(token)
    return _sums(match[2]) if match is not None and int(match[1]) == VERSION else None


def find_token(text: str) -> str | None:
    """Our token in a text, which may hold much else: the first that can be read."""
    return next((match[0] for match in _tokens(text)), None)


def has_newer_token(text: str) -> bool:
    """Whether a later version of slurm-ofu has written there."""
    return any(int(match[1]) > VERSION for match in _WORD.finditer(text))


def with_token(text: str, token: str) -> str:
    """The text with our token in the place of the one that it holds, else behind it; the rest as it was."""
    match = next(_tokens(text), None)
    if match is not None:
        return text[: match.start()] + token + text[match.end() :]
    return f"{text} {token}" if text else token


def _tokens(text: str) -> Iterator[re.Match[str]]:
    return (
        match for match in _WORD.finditer(text) if int(match[1]) == VERSION and _sums(match[2]) is not None
    )


def _measured_hours(sums: UsageSums, its: Figures) -> float:
    """The GPU-hours that the OFU speaks for; without one, that were measured at all."""
    seconds = sums.covered_seconds if its.ofu_ratio is None else sums.ofu_covered_seconds
    return seconds / _HOUR


def _follows(measured: float, its: Figures) -> bool:
    """Whether a reader gets the hours measured from coverage and hours allocated (which may be fewer)."""
    read = (its.coverage_ratio or 0.0) * (its.gpu_hours or 0.0)
    return math.isclose(measured, read, rel_tol=1e-4)


def _sums(body: str) -> UsageSums | None:
    said = _said(body)
    numbers = {key: _parsed(said[key]) for key in _NUMBERS if key in said} if said is not None else {}
    if said is None or None in numbers.values():
        return None
    get: Callable[[str], float | None] = numbers.get
    hours, ofu, tpa, sm = get("gpuh"), get("ofu"), get("tpa"), get("sm")
    measured = _read_measured_hours(numbers)
    if ofu is not None and measured <= 0:
        return None  # an OFU of nothing cannot be added to others
    seconds = measured * _HOUR
    variance = _variance(get("err"), seconds)
    reasons = _split(said.get("why"))
    return UsageSums(
        run_count=1,
        gpu_count=get("gpus") or 0.0,
        gpu_count_unknown_time=get("notime") or 0.0,
        allocated_seconds=_times(hours, _HOUR),
        covered_seconds=seconds,
        ofu_covered_seconds=0.0 if ofu is None else seconds,
        ofu_tensor_active_seconds=None if ofu is None else _times(tpa, seconds),
        tensor_active_seconds=_times(tpa, seconds),
        tensor_ref_seconds=_times(ofu, seconds),
        tensor_ref_variance=None if ofu is None else variance,
        tensor_ref_variance_per_degree=None if ofu is None or variance is None else 0.0,
        tpa_covered_seconds=0.0 if tpa is None else seconds,
        sm_active_seconds=_times(sm, seconds),
        sm_active_covered_seconds=0.0 if sm is None else seconds,
        energy_joules=_times(get("kwh"), _KWH),
        estimators=tuple(sorted(_split(said.get("est")))),
        reasons=("ok",) if ofu is not None and not reasons else tuple(sorted(reasons)),
        gpu_models=tuple(sorted(_split(said.get("model")))),
    )


def _said(body: str) -> Mapping[str, str] | None:
    """Key → value; ``None`` where anything is not of that form, or a key is said twice."""
    pairs = [part.partition("=") for part in body.split(";")]
    said = {key: value for key, _, value in pairs}
    good = all(_KEY.fullmatch(key) and equals and value for key, equals, value in pairs)
    return said if good and len(said) == len(pairs) else None


def _parsed(text: str) -> float | None:
    number = float(text) if _NUMBER.fullmatch(text) else math.inf
    return number if number <= _LARGEST else None


def _read_measured_hours(numbers: Mapping[str, float | None]) -> float:
    measured, coverage, hours = numbers.get("meas"), numbers.get("cov"), numbers.get("gpuh")
    if measured is not None:
        return measured
    return 0.0 if coverage is None or hours is None else coverage * hours


def _variance(error_pp: float | None, seconds: float) -> float | None:
    return None if error_pp is None else (error_pp / 100 / NORMAL_QUANTILE * seconds) ** 2


def _times(one: float | None, other: float) -> float | None:
    return None if one is None else one * other


def _ratio(ratio: float | None) -> str | None:
    """Five digits; what is not quite 1 is never rounded to look like it."""
    if ratio is None:
        return None
    text = _significant(ratio, 5)
    return "0.99999" if ratio < 1 and float(text) == 1 else text


def _amount(value: float | None) -> str | None:
    return None if value is None else _significant(value, 7)


def _significant(value: float, digits: int) -> str:
    """That many significant digits, without an exponent where the number is of a usual size."""
    text = f"{value:.{digits}g}"
    return f"{Decimal(text):f}" if "e" in text and 1e-9 < value < _LARGEST else text


def _words(words: list[str] | tuple[str, ...]) -> str | None:
    return "+".join(words) or None


def _split(text: str | None) -> tuple[str, ...]:
    return () if text is None else tuple(dict.fromkeys(text.split("+")))


def _model(gpu_model: str) -> str:
    """``NVIDIA H100 80GB HBM3`` as ``h100-80gb-hbm3``."""
    words = re.findall("[a-z0-9.]+", gpu_model.lower())
    return "-".join(words[1:] if len(words) > 1 and words[0] == "nvidia" else words) or "unknown"
