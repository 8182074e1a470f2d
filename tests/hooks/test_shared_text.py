"""Prolog and epilog are two files that stand alone; what both need must be the same in both."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROLOG = (ROOT / "prolog/00-slurm-ofu").read_text()
EPILOG = (ROOT / "epilog/zz-slurm-ofu").read_text()


def function(text: str, name: str) -> str:
    """The text of a shell function."""
    found = re.search(rf"^{name}\(\) {{\n.*?^}}\n", text, re.MULTILINE | re.DOTALL)
    assert found, name
    return found[0]


@pytest.mark.parametrize("name", ["detach", "log", "read_spool_dir", "start", "alive", "start_finisher"])
def test_a_function_of_both_hooks_is_the_same_in_both(name: str) -> None:
    """A fix in one hook's copy of a function is made in the other's too."""
    assert function(PROLOG, name) == function(EPILOG, name)


@pytest.mark.parametrize("text", [PROLOG, EPILOG], ids=["prolog", "epilog"])
def test_hooks_call_nothing_by_search(text: str) -> None:
    """slurmd gives no PATH: every program in the hooks has an absolute path, and none is Slurm's."""
    assert not re.search(r"\b(scontrol|sacct|sacctmgr|squeue|srun|sinfo)\b", text)
    assert not re.search(r"(^|[;&|(]\s*)(mkdir|sleep|ln|readlink|setsid|logger|mv|rm|cat|date)\b", text, re.M)
    assert re.search(r"^trap 'exit 0' EXIT$", text, re.MULTILINE)
