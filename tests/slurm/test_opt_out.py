"""Which comments ask not to be profiled."""

import pytest

from slurm_ofu.slurm.opt_out import asks_not_to_be_profiled


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("ofu=off", True),
        ("OFU=Off", True),
        ("mfu=0.41 ofu=off", True),
        ("run 7;ofu=off,mfu=0.41", True),
        ("profiling|ofu=off|", True),
        ("first line\nofu=off\n", True),
        ("x" * 1000 + " ofu=off", True),
        ("x" * 1015 + " ofu=off", True),
        (None, False),
        ("", False),
        ("ofu=on", False),
        ("ofu=offset", False),
        ("tofu=off", False),
        ("not-ofu=off", False),
        ("ofu = off", False),
        ("ofu:off", False),
        ("ofu=off.", False),
        ("x" * 1016 + " ofu=offset", False),
        ("x" * 1017 + " ofu=offset", False),
        ("x" * 2000 + " ofu=off", False),
    ],
)
def test_the_word_stands_by_itself(comment: str | None, expected: bool) -> None:
    """ofu=off as a whole word, in any capitals, among the first 1024 characters."""
    assert expected == asks_not_to_be_profiled(comment)
