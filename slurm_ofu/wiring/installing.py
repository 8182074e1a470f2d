"""Put the hooks, the configuration and the units where the host looks for them.

The hooks cannot look for their installation beside themselves (slurmd may run a copy), so the paths of
this Python and of the configuration are written into them.
"""

import compileall
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slurm_ofu.config import config_path, load_config
from slurm_ofu.delivery.files import write_whole
from slurm_ofu.delivery.spool import Spool
from slurm_ofu.errors import ConfigError
from slurm_ofu.values import Config

PROLOG, EPILOG = "00-slurm-ofu", "zz-slurm-ofu"
DEFAULT_SPOOL = Config(path="").spool_dir
UNITS = ("slurm-ofu-deliver.service", "slurm-ofu-deliver.timer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where things go. ``systemd_dir`` None: no units; ``spool_dir`` None: the configuration's."""

    config: Path
    prolog_dir: Path
    epilog_dir: Path
    systemd_dir: Path | None
    python: Path
    spool_dir: Path | None = None


def shipped(name: str) -> Path:
    """A file that comes with the package: beside it in a wheel, at the top of a source tree."""
    package = Path(__file__).resolve().parent.parent
    for root in (package / "shipped", package.parent):
        if (root / name).is_file():
            return root / name
    raise ConfigError(f"{name} did not come with this installation of slurm-ofu: install it again")


def default_python() -> Path:
    """The interpreter that hooks shall start: this one, by the name it was started under (a venv's)."""
    return Path(sys.executable)


def install(places: Places) -> list[str]:
    """Install on this node; what exists of the configuration is kept. Says what it did."""
    for path in (places.python, places.config, places.spool_dir):
        if set(str(path)) & set("'\"\\\n"):
            raise ConfigError(f"{path}: the hooks cannot hold a path with quotes, backslashes or newlines")
    said = write_configuration(places.config, places.spool_dir)
    spool = Spool(_spool_dir(places))
    spool.make()
    said.append(f"spool {spool.directory}")
    values = {"@OFU_PYTHON@": str(places.python), "@OFU_CONFIG@": str(places.config)}
    if places.spool_dir is not None:  # so that hooks whose configuration is gone write nowhere else
        values[f"ofu_spool='{DEFAULT_SPOOL}'"] = f"ofu_spool='{places.spool_dir}'"
    for directory, name, folder in (
        (places.prolog_dir, PROLOG, "prolog"),
        (places.epilog_dir, EPILOG, "epilog"),
    ):
        said.append(write_filled(shipped(f"{folder}/{name}"), directory / name, values, mode=0o755))
    if places.systemd_dir is not None:
        node = {"@OFU_NODE@": str(places.python.parent / "ofu-node"), **values}
        said += [
            write_filled(shipped(f"etc/systemd/{unit}"), places.systemd_dir / unit, node, mode=0o644)
            for unit in UNITS
        ]
    said.append(_compile())
    return said


def write_configuration(path: Path, spool_dir: Path | None = None) -> list[str]:
    """Write the configuration where there is none. Says what it did."""
    if path.exists():
        return []
    text = shipped("etc/slurm-ofu.toml").read_text(encoding="utf-8")
    if spool_dir is not None:
        text = text.replace(f'spool_dir = "{DEFAULT_SPOOL}"', f'spool_dir = "{spool_dir}"')
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    write_whole(path, text.encode(), sync=False, mode=0o644)
    return [f"wrote {path}"]


def _spool_dir(places: Places) -> Path:
    """The configuration's spool. Raises ConfigError where another one was asked for."""
    configured, wanted = Path(load_config(str(places.config)).spool_dir), places.spool_dir
    if wanted is not None and wanted != configured:
        raise ConfigError(
            f"{places.config}: [node] spool_dir is {configured}, and not {wanted} as --spool-dir says: this"
            " configuration is there already and is kept; change it there, or leave --spool-dir out"
        )
    return configured


def write_filled(source: Path, target: Path, values: Mapping[str, str], *, mode: int) -> str:
    """Write a shipped file with its marks filled in. Says what it did."""
    text = source.read_text(encoding="utf-8")
    for mark, value in values.items():
        text = text.replace(mark, value)
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    write_whole(target, text.encode(), sync=False, mode=mode)
    return f"wrote {target}"


def _compile() -> str:
    """Byte-code now: without it every sampler would start several times slower, and as root it would
    otherwise be written at the first job."""
    package = Path(__file__).resolve().parent.parent
    done = compileall.compile_dir(str(package), quiet=2)
    module = next(
        (Path(entry) / "pynvml.py" for entry in sys.path if (Path(entry) / "pynvml.py").is_file()), None
    )
    if module is not None:
        done = compileall.compile_file(str(module), quiet=2) and done
    return "byte-code is in place" if done else f"byte-code could not be written below {package}"


def default_config() -> Path:
    """Where the configuration is expected: ``$OFU_CONFIG``, else the default place."""
    return Path(config_path())
