"""What the linters do not see: what the hooks' path loads, and how large things are."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = sorted(path for path in (ROOT / "slurm_ofu").rglob("*.py"))
UNWANTED = {
    "click",
    "rich",
    "dateutil",
    "pluggy",
    "sqlite_utils",
    "urllib3",
    "waitress",
    "pydantic",
    "argparse",
    "importlib.metadata",
}
MODULE_LIMIT, FUNCTION_LIMIT = 400, 50

HOOKS_PATH = """
import json, sys
from pathlib import Path
import slurm_ofu.hooks.sample
import slurm_ofu.hooks.finish
import slurm_ofu.hooks.interim
slurm_ofu.hooks.finish.finish(slurm_ofu.hooks.finish.Spool(Path(sys.argv[1])), sys.argv[2])
print(json.dumps(sorted(sys.modules)))
"""


def loaded(*arguments: str) -> set[str]:
    """The modules that a fresh interpreter has loaded at the end of the hooks' path."""
    done = subprocess.run(
        [sys.executable, "-c", HOOKS_PATH, *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout))


def test_the_hooks_load_no_more_than_they_need(tmp_path: Path) -> None:
    """A fresh interpreter that goes the hooks' way, a record's delivery included, loads no click, rich,
    dateutil, pluggy or sqlite_utils, which cost time on every node at every job."""
    spool = tmp_path / "spool"
    (spool / "state").mkdir(parents=True)
    facts = b"OFU1 00000000-0000-4000-8000-000000000000 5.00\nSLURM_JOB_ID=7\0SLURM_JOB_GPUS=0\0OFU_END=1\0"
    for hook in ("prolog", "epilog"):
        (spool / "state" / f"7.0.500.{hook}").write_bytes(facts)
    config = tmp_path / "slurm-ofu.toml"
    url = f"sqlite://{tmp_path}/ofu.db"
    config.write_text(f'[delivery]\nto = "{url}"\n[database]\nurl = "{url}"\ngroup = ""\n')
    names = loaded(str(spool), str(config))
    assert (tmp_path / "ofu.db").exists()
    assert [] == list((spool / "outbox").iterdir())
    assert set() == UNWANTED & names
    assert {"slurm_ofu.hooks.sample", "slurm_ofu.store.write", "sqlite3"} <= names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_and_functions_are_small(path: Path) -> None:
    """A module has at most 400 lines, a function at most 50."""
    text = path.read_text(encoding="utf-8")
    assert MODULE_LIMIT >= len(text.splitlines())
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert FUNCTION_LIMIT >= (node.end_lineno or 0) - node.lineno + 1, node.name


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_says_what_it_is_for(path: Path) -> None:
    """Each module begins with a docstring, and none is named after nothing."""
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert path.stem not in {"utils", "helpers", "common", "misc", "manager", "core", "base"}
