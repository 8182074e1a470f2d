"""The token that stands for a run in a comment field of Slurm's accounting."""

import math
from dataclasses import fields
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ofu.figures import figures, pool, pool_gpus
from slurm_ofu.records.token import find_token, has_newer_token, sums_of, token_of, with_token
from slurm_ofu.values import Estimator, Figures, GpuTotals, Reason, UsageSums
from tests.figures.examples import gpu, measured, silent_gpu, unmeasured

#: Relative precision that the docstring promises; everything else is exact.
PRECISION = {
    "gpu_count": 1e-6,
    "gpu_count_unknown_time": 1e-6,
    "gpu_hours": 1e-6,
    "gpu_hours_measured": 2e-4,
    "ofu_ratio": 5.1e-5,
    "ofu_error_pp": 6e-3,
    "tpa_mean_ratio": 5.1e-5,
    "active_clock_ratio": 1.1e-4,
    "coverage_ratio": 5.1e-5,
    "sm_active_ratio": 5.1e-5,
    "energy_joules": 5.1e-5,
}
SECONDS = st.floats(0.001, 1e7)
RATIOS = st.one_of(st.just(0.0), st.floats(1e-6, 1.2))
COMMENTS = st.text(max_size=40)


@st.composite
def gpus(draw: st.DrawFn) -> GpuTotals:
    """One GPU as it may be, of any reason, with whatever figures it has."""
    covered = draw(st.one_of(st.just(0.0), SECONDS))
    tpa = draw(st.none() | RATIOS) if covered else None
    clock = draw(st.none() | st.floats(0.1, 1.1)) if tpa is not None else None
    seconds = None if clock is None or tpa is None else tpa * clock * covered
    sm = draw(st.none() | RATIOS) if covered else None
    return GpuTotals(
        position=0,
        reason=draw(st.sampled_from(get_args(Reason))),
        allocated_seconds=draw(st.none() | st.floats(max(covered, 0.001), 2e7)),
        covered_seconds=covered,
        gpu_model=draw(st.sampled_from([None, "NVIDIA H100 80GB HBM3", "NVIDIA B200", "Weird/Card é"])),
        estimator=draw(st.none() | st.sampled_from(get_args(Estimator))) if covered else None,
        tensor_active_seconds=None if tpa is None else tpa * covered,
        tensor_ref_seconds=seconds,
        tensor_ref_error_seconds=None if seconds is None else draw(st.none() | st.floats(0, 0.1)),
        error_degrees=draw(st.none() | st.floats(1, 1000)),
        sm_active_seconds=None if sm is None else sm * covered,
        sm_active_covered_seconds=covered if sm is not None else 0.0,
        energy_joules=draw(st.none() | st.floats(1e-3, 1e12)),
    )


RUNS = st.lists(gpus(), min_size=1, max_size=4).map(pool_gpus)


def same(expected: Figures, actual: Figures, *names: str) -> None:
    """Equal to the precision promised; an absent figure is absent in both."""
    for name in names or [field.name for field in fields(Figures)]:
        one, other = getattr(expected, name), getattr(actual, name)
        if name in PRECISION and one is not None and other is not None:
            assert math.isclose(one, other, rel_tol=PRECISION[name], abs_tol=1e-12), (name, one, other)
        else:
            assert one == other, name


def read(token: str) -> UsageSums:
    """What a token says."""
    sums = sums_of(token)
    assert sums is not None
    return sums


def test_a_measured_run_as_a_token() -> None:
    """The token names each figure in its unit, in a fixed order."""
    assert (
        "ofu1:ofu=0.4;tpa=0.5;clk=0.8;cov=1;gpuh=16;err=0.196;gpus=8;sm=0.9;kwh=10;est=cycles;model=h100-80gb-hbm3"
        == token_of(measured())
    )


def test_what_was_not_measured_is_left_out() -> None:
    """Without an OFU the reason stands in its place, and nothing is 0."""
    assert "ofu1:cov=0;gpuh=16;gpus=8;why=no_source" == token_of(unmeasured())
    unknown = unmeasured(allocated_seconds=None, gpu_count_unknown_time=8.0, reasons=("not_started",))
    assert "ofu1:gpus=8;notime=8;why=not_started" == token_of(unknown)


def test_what_is_nearly_whole_is_not_written_as_whole() -> None:
    """Reports tell 100 % from almost: so must a token."""
    seconds = 16 * 3600.0
    token = token_of(measured(covered_seconds=0.999999 * seconds, ofu_covered_seconds=0.999999 * seconds))
    assert "cov=0.99999;" in token
    assert "cov=1;" in token_of(measured())


def test_a_true_zero_is_written_and_read_as_zero() -> None:
    """An idle run has OFU 0, which is not "absent"."""
    token = token_of(pool_gpus([gpu(tensor=0.0)]))
    assert "ofu=0;tpa=0;cov=1" in token
    assert 0.0 == figures(read(token)).ofu_ratio


def test_every_reason_is_named() -> None:
    """A run of which one GPU failed says so, the most telling reason first."""
    token = token_of(pool_gpus([gpu(), silent_gpu(1, reason="source_lost")]))
    assert "why=source_lost+ok" in token
    assert ("source_lost", "ok") == figures(read(token)).reasons


@pytest.mark.property
@given(RUNS)
def test_reading_a_token_gives_the_figures_that_were_written(sums: UsageSums) -> None:
    """figures(read(write(sums))) equals figures(sums) to the precision promised."""
    expected, actual = figures(sums), figures(read(token_of(sums)))
    same(
        expected, actual, *(set(PRECISION) - {"gpu_hours_measured", "active_clock_ratio", "sm_active_ratio"})
    )
    if expected.ofu_ratio is not None:
        same(expected, actual, "gpu_hours_measured", "active_clock_ratio", "sm_active_ratio")
        assert (expected.reason, expected.reasons) == (actual.reason, actual.reasons)
    assert (expected.estimator, expected.run_count) == (actual.estimator, actual.run_count)
    assert (expected.gpu_model is None) == (actual.gpu_model is None)


@pytest.mark.property
@given(st.lists(RUNS, min_size=1, max_size=5))
def test_totals_over_tokens_are_the_totals_over_runs(runs: list[UsageSums]) -> None:
    """Pooling what tokens say gives the pooled OFU, GPU-hours and coverage."""
    measured_runs = [sums for sums in runs if figures(sums).ofu_ratio is not None]
    expected = figures(pool(measured_runs))
    actual = figures(pool([read(token_of(sums)) for sums in measured_runs]))
    for name in ("gpu_hours", "gpu_hours_measured", "ofu_ratio"):
        one, other = getattr(expected, name), getattr(actual, name)
        assert (one is None) == (other is None)
        assert one is None or math.isclose(one, other, rel_tol=2e-4, abs_tol=1e-9)


@pytest.mark.property
@given(RUNS)
def test_a_token_survives_every_slurm(sums: UsageSums) -> None:
    """Lower case, printable, no blanks, quotes, commas or backslashes; not long."""
    token = token_of(sums)
    assert token == token.lower()
    assert token.isascii()
    assert token.isprintable()
    assert not set(token) & set(" \"'`\\|,")
    assert len(token) < 300


@pytest.mark.property
@given(COMMENTS, RUNS, COMMENTS, RUNS)
def test_a_token_is_replaced_alone(before: str, old: UsageSums, after: str, new: UsageSums) -> None:
    """The rest of a text stays as it was, byte for byte, whatever it is."""
    one, other = token_of(old), token_of(new)
    if find_token(before) or find_token(after):
        return
    text = f"{before} {one}\n{after}"
    assert one == find_token(text)
    assert f"{before} {other}\n{after}" == with_token(text, other)
    assert other == with_token(one, other)
    assert other == with_token("", other)


@pytest.mark.property
@given(COMMENTS.filter(lambda text: text and not find_token(text)), RUNS)
def test_a_first_token_goes_behind_the_text(text: str, sums: UsageSums) -> None:
    """Others' text, one blank, our token."""
    token = token_of(sums)
    assert f"{text} {token}" == with_token(text, token)


@pytest.mark.property
@given(st.text("ofu12:=;.-+e07abc, ", max_size=60) | st.text(max_size=60))
def test_reading_never_raises(text: str) -> None:
    """Any text is a token or none; what is read is finite."""
    for sums in (sums_of(text), sums_of(f"ofu1:{text}")):
        if sums is not None and sums.tensor_ref_seconds is not None:
            assert math.isfinite(sums.tensor_ref_seconds)
    with_token(text, "ofu1:gpus=8")


@pytest.mark.parametrize(
    "token",
    [
        "ofu2:ofu=0.4;cov=1;gpuh=1",
        "ofu11:ofu=0.4;cov=1;gpuh=1",
        "ofu:ofu=0.4;cov=1;gpuh=1",
        "OFU1:ofu=0.4;cov=1;gpuh=1",
        "xofu1:ofu=0.4;cov=1;gpuh=1",
        "ofu1:ofu=nan;cov=1;gpuh=1",
        "ofu1:ofu=inf;cov=1;gpuh=1",
        "ofu1:ofu=-0.4;cov=1;gpuh=1",
        "ofu1:ofu=1e99;cov=1;gpuh=1",
        "ofu1:ofu=0.4;ofu=0.5;cov=1;gpuh=1",
        "ofu1:ofu=0.4",
        "ofu1:ofu=0.4;cov=0;gpuh=1",
        "ofu1:ofu=;cov=1;gpuh=1",
        "ofu1:ofu;cov=1;gpuh=1",
        "ofu1:",
        "ofu1",
        "",
    ],
)
def test_what_is_no_token(token: str) -> None:
    """Another format, a number that is none, an OFU without hours to weigh it: not read at all."""
    assert sums_of(token) is None
    assert find_token(f"text {token} text") is None


def test_keys_of_later_versions_are_passed_over() -> None:
    """A newer slurm-ofu may say more in the same format."""
    same(
        figures(measured()), figures(read(token_of(measured()) + ";new_key=Any/thing,you:like")), "ofu_ratio"
    )


def test_the_tokens_of_later_formats_are_seen() -> None:
    """Where a newer slurm-ofu has written, this one can tell."""
    assert has_newer_token("text ofu2:whatever text")
    assert not has_newer_token("text ofu1:ofu=0.4 text")
    assert not has_newer_token("tofu2:x")


def test_a_token_in_mid_word_is_none() -> None:
    """Only a word of its own is ours."""
    assert find_token(f"x{token_of(measured())}") is None
    assert find_token(f"({token_of(measured())})") is None


def test_the_first_of_two_tokens_counts() -> None:
    """Reading and replacing agree on which is ours."""
    one, other = token_of(measured()), token_of(unmeasured())
    assert one == find_token(f"{one} {other}")
    assert f"{other} {other}" == with_token(f"{one} {other}", other)


def test_the_example_of_the_documentation_is_read() -> None:
    """A token written by hand needs not have every key."""
    its = figures(read("ofu1:ofu=0.412;tpa=0.448;clk=0.920;cov=0.98;gpuh=12.5;err=0.1"))
    expected: dict[str, Any] = {
        "ofu_ratio": 0.412,
        "coverage_ratio": 0.98,
        "gpu_hours": 12.5,
        "ofu_error_pp": 0.1,
    }
    for name, value in expected.items():
        assert math.isclose(value, getattr(its, name))
    assert "ok" == its.reason
