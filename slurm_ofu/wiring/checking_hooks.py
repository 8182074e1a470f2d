"""What slurm.conf starts on this node: our hooks, runnable, with this configuration."""

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from slurm_ofu.slurm.conf_lines import beside, conf_lines, conf_pairs, slurm_conf_settings
from slurm_ofu.slurm.hostlists import expand
from slurm_ofu.wiring.findings import Finding, bad, note, ok
from slurm_ofu.wiring.installing import EPILOG, PROLOG

_PYTHON = re.compile(r"^ofu_python='([^']*)'", re.MULTILINE)
_CONFIG = re.compile(r"^ofu_config=\$\{OFU_CONFIG:-'([^']*)'\}", re.MULTILINE)
_CALLED = re.compile(rf"/[^\s'\"|&;<>()`$]*(?:{PROLOG}|{EPILOG})(?![\w.-])")
#: For Python to import what the sampler does, on a slow disk.
START_LIMIT_S = 30
MODULES = {"prolog": "slurm_ofu.hooks.sample", "epilog": "slurm_ofu.hooks.finish"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """One of our hook scripts as installed."""

    path: Path
    python: str
    config: str


def check_slurm(conf: Path, config: str) -> Iterator[Finding]:
    """When hooks run, and that ours are among them; ``config``: the configuration that is checked."""
    try:
        settings = slurm_conf_settings(conf)
    except (OSError, ValueError) as error:
        yield note("slurm.conf", f"{conf}: cannot be read: {error}")
        return
    flags = settings.get("prologflags", "")
    if {"alloc", "contain", "deferbatch", "nohold", "x11"} & set(flags.lower().split(",")):
        yield ok("PrologFlags", flags)
    else:
        text = f"{flags or '(not set)'}: without Alloc no prolog runs on nodes without a step"
        yield bad("PrologFlags", text)
    for key in ("prolog", "epilog"):
        yield from _hooks(key, settings.get(key, ""), config)


def check_node_name(conf: Path, node: str) -> Iterator[Finding]:
    """Whether slurm.conf knows the node: without it GPUs are mapped by less than there is to know."""
    include = beside(conf)
    try:
        lines = list(conf_lines(include(conf.name), include, tolerant=True))
    except (OSError, ValueError):
        return  # told already
    for line in lines:
        pairs = conf_pairs(line, tolerant=True)
        with contextlib.suppress(ValueError):
            if next(iter(pairs), None) == "nodename" and node in expand(pairs["nodename"]):
                return
    text = f"{node}: no NodeName of {conf}: say this node's name in Slurm with --node"
    dynamic = any("maxnodecount" in conf_pairs(line, tolerant=True) for line in lines)
    yield note("node", f"{text} (or is it a dynamic one?)") if dynamic else bad("node", text)


def _hooks(key: str, value: str, config: str) -> Iterator[Finding]:
    """A line for every fault of our hooks in one setting; one line where there is none."""
    entries = [entry.strip() for entry in value.split(",") if entry.strip()]
    scripts = [path for entry in entries for path in _expanded(entry)]
    ours = [(script, hook) for script in scripts for hook in _ours(script)]
    if not ours:
        yield bad(key, f"{value or '(not set)'}: runs no slurm-ofu hook")
        return
    faults = [fault for script, hook in ours for fault in _faults(key, script, hook, config)]
    yield from (bad(key, fault) for fault in faults)
    if not faults:
        yield ok(key, value)


def _expanded(entry: str) -> list[Path]:
    path = Path(entry)
    return sorted(path.parent.glob(path.name)) if set("*?[") & set(path.name) else [path]


def _ours(script: Path) -> list[Hook]:
    """Our hook in a script: itself, or such that it calls by their whole paths."""
    text = _text(script)
    if hook := _parsed(script, text):
        return [hook]
    called = [(Path(name), _text(Path(name))) for name in dict.fromkeys(_CALLED.findall(text))]
    found = [_parsed(path, its) or Hook(path=path, python="", config="") for path, its in called]
    if not found and script.name in (PROLOG, EPILOG):
        return [Hook(path=script, python="", config="")]
    return found


def _text(script: Path) -> str:
    with contextlib.suppress(FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return script.read_text(encoding="utf-8", errors="replace")
    return ""


def _parsed(path: Path, text: str) -> Hook | None:
    python, config = _PYTHON.search(text), _CONFIG.search(text)
    return Hook(path=path, python=python[1], config=config[1]) if python and config else None


def _faults(key: str, script: Path, hook: Hook, config: str) -> Iterator[str]:
    for path in dict.fromkeys((script, hook.path)):
        if not path.is_file():
            yield f"{path}: is not there; run ofu-node install"
        elif not os.access(path, os.X_OK):
            yield f"{path}: is not executable; chmod 755, or run ofu-node install"
    if not hook.python:
        if hook.path.is_file():
            yield f"{hook.path}: is no hook of slurm-ofu; run ofu-node install"
        return
    if why := _cannot_run(hook.python, MODULES[key]):
        yield f"{hook.path}: its Python {hook.python} {why}; run ofu-node install"
    if os.path.realpath(hook.config) != os.path.realpath(config):
        checked = Path(config).absolute()
        yield f"{hook.path}: reads {hook.config}, not {checked}, which is checked here; see --config"


def _cannot_run(python: str, module: str) -> str | None:
    """Why an interpreter cannot start a process of ours, ``None`` where it can."""
    if not Path(python).exists():
        return "does not exist"
    if not os.access(python, os.X_OK):
        return "is not executable"
    try:
        done = subprocess.run(
            [python, "-I", "-B", "-c", f"import {module}"],
            cwd="/",
            env={},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=START_LIMIT_S,
            check=False,
        )
    except OSError as error:
        return f"cannot be started: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"does not start within {START_LIMIT_S} s"
    if done.returncode == 0:
        return None
    last = (done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exits {done.returncode}"])[-1]
    return f"cannot import {module}: {last}"
