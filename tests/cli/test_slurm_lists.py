"""Lists as Slurm's commands take them."""

import click
import pytest

from slurm_ofu.cli.report import report
from slurm_ofu.cli.slurm_lists import STATES, complete_fields, complete_states, node_lists, state_lists

CONTEXT = click.Context(report)
OPTION = next(option for option in report.params if option.name == "states")


@pytest.mark.parametrize(
    ("lists", "states"),
    [
        (("CD",), ("COMPLETED",)),
        (("cd,f",), ("COMPLETED", "FAILED")),
        (("Completed", "TO"), ("COMPLETED", "TIMEOUT")),
        (("oom,out_of_memory",), ("OUT_OF_MEMORY",)),
        (("R",), ("RUNNING",)),
        ((), ()),
    ],
)
def test_states(lists: tuple[str, ...], states: tuple[str, ...]) -> None:
    """Short and long names in any case, each state once, as its long name."""
    assert states == state_lists(CONTEXT, OPTION, lists)


@pytest.mark.parametrize("text", ["XX", "CD,,F", "", "COMPLETE", "\x1b[31m"])
def test_what_is_no_state(text: str) -> None:
    """It is refused, and never shown raw."""
    with pytest.raises(click.BadParameter) as raised:
        state_lists(CONTEXT, OPTION, (text,))
    assert "\x1b" not in raised.value.message


@pytest.mark.parametrize(
    ("lists", "names"),
    [
        (("n1",), ("n1",)),
        (("n[1-3,7]",), ("n1", "n2", "n3", "n7")),
        (("n[01-02],login", "n01"), ("n01", "n02", "login")),
        ((), ()),
    ],
)
def test_nodes(lists: tuple[str, ...], names: tuple[str, ...]) -> None:
    """Names and host lists, each node once."""
    assert names == node_lists(CONTEXT, OPTION, lists)


@pytest.mark.parametrize("text", ["n[1-", "n[2-1]", "n[0-99999999]", "", "n 1", "n\x1b"])
def test_what_is_no_host_list(text: str) -> None:
    """It is refused."""
    with pytest.raises(click.BadParameter):
        node_lists(CONTEXT, OPTION, (text,))


def test_completion_goes_on_after_a_comma() -> None:
    """The last item is completed, what stands before it stays."""
    assert ["CD,PREEMPTED"] == [item.value for item in complete_states(CONTEXT, OPTION, "CD,pre")]
    assert ["JobID,+Coverage"] == [item.value for item in complete_fields(CONTEXT, OPTION, "JobID,+cov")]
    assert sorted([*STATES.values(), "UNKNOWN"]) == [
        item.value for item in complete_states(CONTEXT, OPTION, "")
    ]
