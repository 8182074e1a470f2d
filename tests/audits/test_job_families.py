"""Which job names belong together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ofu.audits.job_families import numbers_count, stem_of


def text_of(job_name: str | None) -> str | None:
    stem = stem_of(job_name)
    return None if stem is None else stem.text


@pytest.mark.parametrize(
    ("names", "stem"),
    [
        (("train-llama-0412", "train-llama-0413", "Train-Llama", "train-llama-2026-04-12"), "train-llama"),
        (("sft_20260412", "sft_20260412_1530", "sft-20260412T153055", "sft_260412"), "sft"),
        (("sft-run12", "sft_try3", "sft.seed7", "sft-attempt-2", "sft-run1-2026-04-12", "sft.sh"), "sft"),
        (("eval[3]", "eval%4", "eval[1-5%2]", "eval_007", "eval-1712345678"), "eval"),
        (("a3f9c21-moe", "moe-a3f9c21", "moe_0f3d9a1b2c"), "moe"),
        (("llama-7b-12", "llama-7b-13"), "llama-7b"),
    ],
)
def test_what_tells_runs_apart_is_taken_off(names: tuple[str, ...], stem: str) -> None:
    """Dates, times, counters, array indices and commit ids are no part of a stem, nor are capitals."""
    assert {stem} == {text_of(name) for name in names}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("train7b", "train70b"),
        ("resnet50", "resnet101"),
        ("sft-ctx-4096", "sft-ctx-8192"),
        ("sft_bs_32", "sft_bs_64"),
        ("sft-lr-1e-4", "sft-lr-1e-5"),
        ("sft-lr-0.01", "sft-lr-0.02"),
        ("sft-v2", "sft-v3"),
        ("pretrain", "pretrain-fp8"),
        ("sft-8gpu", "sft-16gpu"),
        ("seq_len_0512", "seq_len_1024"),
    ],
)
def test_what_was_run_stays(one: str, other: str) -> None:
    """Sizes, settings and versions make different stems."""
    first, second = stem_of(one), stem_of(other)
    assert first is not None and second is not None
    assert first != second
    assert first.text != second.text


@pytest.mark.parametrize(
    "name",
    [None, "", "wrap", "bash", "sbatch", "Interactive", "run12", "job_77", "20260412", "42", "x-1", "run.sh"],
)
def test_generic_names_have_no_stem(name: str | None) -> None:
    """Names that Slurm gives or that say nothing do not make a family."""
    assert None is stem_of(name)


@pytest.mark.parametrize(
    ("numbers", "are_counters"),
    [
        ((1, 2, 3, 4, 5, 6), True),
        ((7, 8, 8, 9, 10, 11), True),
        ((7, 7, 7, 7, 7, 70), False),
        ((2, 3, 2, 3, 2, 3), False),
        ((7, 13, 30, 65, 70, 1), False),
        ((83921, 11290, 55012, 40388, 99120, 10001), True),
    ],
)
def test_bare_numbers_count_where_they_do_not_repeat(numbers: tuple[int, ...], are_counters: bool) -> None:
    """``sft-1`` to ``sft-6`` are runs of one family; ``gpt-7`` five times and ``gpt-70`` are not, nor are
    sizes that come once each, in no order."""
    stems = [stem for number in numbers if (stem := stem_of(f"gpt-{number}")) is not None]
    assert {"gpt"} == {stem.text for stem in stems}
    assert [f"gpt-{number}" for number in numbers] == [stem.whole for stem in stems]
    assert are_counters == numbers_count(stems)


def test_zero_padded_counters_go_on_past_nine() -> None:
    """After ``sft-08`` and ``sft-09`` comes ``sft-10``, which is no other thing; ``sft-100`` may be."""
    names = [f"sft-{number:02}" for number in range(12)]
    stems = [stem for name in names if (stem := stem_of(name)) is not None]
    assert {"sft"} == {stem.text for stem in stems}
    assert numbers_count(stems)
    more = [stem for name in ("sft-100", "sft-100", "sft-100", "sft") if (stem := stem_of(name)) is not None]
    assert not numbers_count([*stems, *more])


@pytest.mark.property
@given(st.text(max_size=60))
def test_any_text_has_a_stem_or_none_and_a_stem_is_its_own(name: str) -> None:
    """No name is refused, and dates and counters are taken off in one go."""
    stem = stem_of(name)
    if stem is not None and stem.number is None:
        again = stem_of(stem.text)
        assert again is None or again.text == stem.text
