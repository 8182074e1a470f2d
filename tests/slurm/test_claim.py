"""A job's comment → what it claims of itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ofu.slurm.claim import COMMENT_LIMIT, claim_of, doubt_of
from slurm_ofu.values import ClaimKind

CLAIMS: list[tuple[str, ClaimKind, float, str]] = [
    ("mfu=0.41", "mfu", 0.41, "mfu=0.41"),
    ("tflops=412", "tflops", 412.0, "tflops=412"),
    ("MFU=0.41", "mfu", 0.41, "MFU=0.41"),
    ("TFlops=412.5", "tflops", 412.5, "TFlops=412.5"),
    ("lr=3e-4 mfu=0.41 seed=3", "mfu", 0.41, "mfu=0.41"),
    ("lr=3e-4,mfu=0.41, seed=3", "mfu", 0.41, "mfu=0.41"),
    ("a;mfu=0.41;b", "mfu", 0.41, "mfu=0.41"),
    ("a|mfu=0.41|b", "mfu", 0.41, "mfu=0.41"),
    ("a\nmfu=0.41\tb", "mfu", 0.41, "mfu=0.41"),
    ("mfu=0.41 mfu=0.410", "mfu", 0.41, "mfu=0.41"),
    ("mfu=0.4123456789012345", "mfu", 0.412346, "mfu=0.4123456789012345"),
    ("mfu=1", "mfu", 1.0, "mfu=1"),
    ("mfu=1.5", "mfu", 1.5, "mfu=1.5"),
    ("mfu=0.000001", "mfu", 0.000001, "mfu=0.000001"),
    ("tflops=20000", "tflops", 20_000.0, "tflops=20000"),
    ("target-mfu=0.5 mfu=0.41", "mfu", 0.41, "mfu=0.41"),
    ("improve the mfu; mfu=0.41", "mfu", 0.41, "mfu=0.41"),
]


@pytest.mark.parametrize(("comment", "kind", "value", "text"), CLAIMS)
def test_a_claim_alone_or_among_other_text(comment: str, kind: ClaimKind, value: float, text: str) -> None:
    """mfu=… or tflops=… is a claim wherever it stands by itself, in capitals or not."""
    claim = claim_of(comment)
    assert claim is not None
    assert (kind, value, text, None, "epilog") == (
        claim.kind,
        claim.value,
        claim.text,
        claim.peak_tflops,
        claim.source,
    )
    assert None is doubt_of(comment)


@pytest.mark.parametrize(
    "comment",
    [None, "", "hello", "improve the mfu", "mfu", "target-mfu=0.5", "model.mfu=0.5", "a/mfu=0.4", "xmfu=0.4"],
)
def test_no_claim_and_nothing_like_one(comment: str | None) -> None:
    """Text that only mentions the word, or has it as a part of another, is no claim and raises no doubt."""
    assert (None, None) == (claim_of(comment), doubt_of(comment))


EXAMPLE = "write mfu=0.41 (a ratio above 0, at most 1.5)"
DOUBTS = [
    ("mfu=41", "mfu=41; write mfu=0.41"),
    ("mfu=41%", "mfu=41%; write mfu=0.41"),
    ("mfu=38.5%", "mfu=38.5%; write mfu=0.385"),
    ("MFU: 38.5 %", "MFU: 38.5; write mfu=0.385"),
    ("mfu=nan", f"mfu=nan; {EXAMPLE}"),
    ("mfu=inf", f"mfu=inf; {EXAMPLE}"),
    ("mfu=1e3", f"mfu=1e3; {EXAMPLE}"),
    ("mfu=4.1e-1", f"mfu=4.1e-1; {EXAMPLE}"),
    ("mfu=-0.41", f"mfu=-0.41; {EXAMPLE}"),
    ("mfu=+0.41", f"mfu=+0.41; {EXAMPLE}"),
    ("mfu=.41", f"mfu=.41; {EXAMPLE}"),
    ("mfu=0", f"mfu=0; {EXAMPLE}"),
    ("mfu=0.0000001", f"mfu=0.0000001; {EXAMPLE}"),
    ("mfu=1.500001", f"mfu=1.500001; {EXAMPLE}"),
    ("mfu=3%", f"mfu=3%; {EXAMPLE}"),
    ("mfu=101", f"mfu=101; {EXAMPLE}"),
    ("mfu=", f"mfu=; {EXAMPLE}"),
    ("mfu = 0.41", f"mfu = 0.41; {EXAMPLE}"),
    ("mfu:0.41", f"mfu:0.41; {EXAMPLE}"),
    ("mfu=0.41.", f"mfu=0.41.; {EXAMPLE}"),
    ("mfu=0,41", f"mfu=0,41; {EXAMPLE}"),  # a decimal comma is not a claim of 0
    ("mfu=٠.٤١", f"mfu=٠.٤١; {EXAMPLE}"),
    ("`mfu=0.41`", f"mfu=0.41`; {EXAMPLE}"),
    ("(mfu=0.41 so far)", f"mfu=0.41; {EXAMPLE}"),
    ("tflops=1,979", "tflops=1,979; write tflops=412 (TFLOP/s per GPU, above 0, at most 20000)"),
    ("tflops=20000.1", "tflops=20000.1; write tflops=412 (TFLOP/s per GPU, above 0, at most 20000)"),
    ("mfu=0.41 tflops=many", "tflops=many; write tflops=412 (TFLOP/s per GPU, above 0, at most 20000)"),
]


@pytest.mark.parametrize(("comment", "doubt"), DOUBTS)
def test_what_is_not_understood_is_no_claim(comment: str, doubt: str) -> None:
    """A claim that is out of bounds or not strictly a plain number is none, and it is said what to write."""
    assert (None, f"a claim in the comment was not understood: {doubt}") == (
        claim_of(comment),
        doubt_of(comment),
    )


@pytest.mark.parametrize(
    ("comment", "claims"),
    [
        ("mfu=0.41 mfu=0.42", "mfu=0.41, mfu=0.42"),
        ("mfu=0.41 tflops=405", "mfu=0.41, tflops=405"),
    ],
)
def test_several_claims_are_none(comment: str, claims: str) -> None:
    """Of two claims that say different things neither counts, rather than either by chance."""
    assert (None, f"the comment makes several claims: {claims}; state one") == (
        claim_of(comment),
        doubt_of(comment),
    )


def test_only_what_is_kept_is_read() -> None:
    """A claim beyond the characters that are kept is not seen; one that may have been cut is none."""
    ends_before = "x" * (COMMENT_LIMIT - 10) + " mfu=0.41"
    assert claim_of(ends_before + " and more") is not None
    for cut in ("x" * (COMMENT_LIMIT - 9) + " mfu=0.41", "x" * (COMMENT_LIMIT - 9) + " mfu=0.412"):
        assert None is claim_of(cut)
        assert "mfu=0.41;" in (doubt_of(cut) or "")
    assert (None, None) == (claim_of("x" * COMMENT_LIMIT + " mfu=0.41"), doubt_of("x" * 5000 + " mfu=4"))


def test_a_long_doubt_is_shortened() -> None:
    """What was not understood is quoted up to sixty characters."""
    assert f"mfu={'9' * 56}…" in (doubt_of("mfu=" + "9" * 500) or "")


def test_the_source_is_said() -> None:
    """A claim says whether the epilog or accounting gave the comment."""
    claim = claim_of("mfu=0.41", source="accounting")
    assert claim is not None
    assert "accounting" == claim.source


PIECES = st.sampled_from(
    (
        *("mfu", "MFU", "tflops", "=", ":", " ", ",", ";", "|", "%", ".", "-", "e", "\n", "`", "nan"),
        *("mfu=0.41", "tflops=412", "0.41", "0", "1", "41", "1e3", "20001", "target-", "\u00a0", "é", "٣"),
    )
)
NEARLY = st.lists(PIECES, max_size=25).map("".join)
ANY_TEXT = st.one_of(st.text(st.characters(), max_size=200), NEARLY)


@pytest.mark.property
@given(ANY_TEXT)
def test_whatever_the_comment(comment: str) -> None:
    """No text raises; a claim lies within its bounds, stands in the comment as it is quoted, and is never
    made beside a doubt."""
    claim, doubt = claim_of(comment), doubt_of(comment)
    if claim is None:
        return
    assert None is doubt
    assert claim.text in comment
    assert 0 < claim.value <= (1.5 if claim.kind == "mfu" else 20_000.0)
    assert claim.text.lower().startswith(f"{claim.kind}=")
    assert claim.value == round(float(claim.text.partition("=")[2]), 6)


@pytest.mark.property
@given(
    st.decimals(min_value="0.000001", max_value="1.5", places=6),
    st.text(st.characters(exclude_characters="=:", exclude_categories=["Cs"]), max_size=50),
    st.sampled_from([" ", ";", "|", "\n"]),
)
def test_any_plain_ratio_is_understood(ratio: object, text: str, separator: str) -> None:
    """Every plain decimal within the bounds is taken, whatever text stands before it."""
    claim = claim_of(f"{text}{separator}mfu={ratio}")
    assert claim is not None
    assert float(str(ratio)) == claim.value
