"""ofu-admin around the collector, as an administrator runs it."""

import stat
from datetime import datetime, timezone
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from slurm_ofu.cli.admin import main
from slurm_ofu.delivery.key_file import read_keys
from slurm_ofu.store.lock import lock_path
from tests.delivery.examples import packed


def admin(*arguments: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(main, arguments, prog_name="ofu-admin")


@pytest.fixture
def config(tmp_path: Path) -> str:
    """A collector without HTTP."""
    path = tmp_path / "slurm-ofu.toml"
    path.write_text(
        f'[collector]\nlisten = ""\ninbox = "{tmp_path}/inbox"\nkey_file = "{tmp_path}/delivery.key"\n'
        f'[database]\nurl = "sqlite://{tmp_path}/ofu.db"\ngroup = ""\n[accounting]\nsource = "none"\n'
    )
    return str(path)


def filled(inbox: Path, *jobs: int) -> None:
    inbox.mkdir(mode=0o700, exist_ok=True)
    for job in jobs:
        (inbox / f"{job}.record").write_bytes(packed(job))


# --------------------------------------------------------------- collect --once


def test_collect_once(config: str, tmp_path: Path) -> None:
    """--once stores what is in the inbox and says how much; with nothing there it is well too."""
    filled(tmp_path / "inbox", 1, 2)
    for stored in (2, 0):
        done = admin("collect", "--once", "--config", config)
        assert (0, f"{stored} records stored, 0 rejected, 0 kept\n") == (done.exit_code, done.stdout)


def test_collect_once_with_what_is_no_record(config: str, tmp_path: Path) -> None:
    """What is no record is told, and is exit code 1; the others are stored."""
    filled(tmp_path / "inbox", 1)
    (tmp_path / "inbox/bad.record").write_bytes(b"nonsense")
    done = admin("collect", "--once", "--config", config)
    assert (1, "1 records stored, 1 rejected, 0 kept\n") == (done.exit_code, done.stdout)
    assert "ofu-admin: bad.record: not a record" in done.stderr


def test_collect_once_without_a_database(config: str, tmp_path: Path) -> None:
    """A database that cannot be used is exit code 4, and every file is still there."""
    filled(tmp_path / "inbox", 1)
    (tmp_path / "ofu.db").mkdir()
    lock_path(tmp_path / "ofu.db").write_text("")
    done = admin("collect", "--once", "--config", config)
    assert (4, ["1.record"]) == (done.exit_code, [path.name for path in tmp_path.glob("inbox/*.record")])


# --------------------------------------------------------------- new-key


def test_a_new_key(config: str, tmp_path: Path) -> None:
    """new-key makes the configured file, for its owner only, named after the day, and shows no secret."""
    done = admin("new-key", "--config", config)
    path = tmp_path / "delivery.key"
    [(name, secret)] = read_keys(path).items()
    assert (0, f"{datetime.now(timezone.utc):%Y%m%d}") == (done.exit_code, name)
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert secret.decode() not in done.output
    assert f"wrote {path} with the key {name}" in done.output


def test_another_key(config: str, tmp_path: Path) -> None:
    """A further key goes to the end of the file, and a name that is there is refused."""
    path = tmp_path / "elsewhere/cluster.key"
    for name in ("one", "two"):
        assert 0 == admin("new-key", "--config", config, "--file", str(path), name).exit_code
    before = path.read_bytes()
    done = admin("new-key", "--config", config, "--file", str(path), "one")
    assert (1, before) == (done.exit_code, path.read_bytes())
    assert "has a key one already" in done.stderr
    assert ["one", "two"] == list(read_keys(path))


def test_a_file_that_is_no_key_file(config: str, tmp_path: Path) -> None:
    """new-key adds nothing to a file that is none of ours, or that others can read."""
    for mode, text in ((0o600, "root:x:0:0\n"), (0o644, f"a {'x' * 40}\n")):
        path = tmp_path / f"{mode}"
        path.write_text(text)
        path.chmod(mode)
        assert 1 == admin("new-key", "--config", config, "--file", str(path)).exit_code
        assert text == path.read_text()
