"""ofu-admin as an administrator runs it."""

import grp
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from slurm_ofu import __version__
from slurm_ofu.cli.admin import main
from slurm_ofu.records.codec import encode
from tests.records.generated import noisy_record

GROUP = next((entry.gr_name for entry in grp.getgrall() if entry.gr_gid not in (0, os.getegid())), "")


def admin(*arguments: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(main, arguments, prog_name="ofu-admin")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory that everybody may enter; pytest's own are its user's alone."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def configured(folder: Path, settings: str) -> str:
    """A configuration with a database two directories down."""
    config = folder / "slurm-ofu.toml"
    config.write_text(f'[database]\nurl = "sqlite://{folder}/a/b/ofu.db"\n{settings}\n')
    return str(config)


def test_help_says_what_each_command_does() -> None:
    """In whole sentences, however many columns there are."""
    listed = admin("-h").stdout.partition("Commands:\n")[2].splitlines()
    assert len(main.commands) == len(listed)
    assert all(line.endswith(".") and not line.endswith("...") for line in listed)


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_version(option: str) -> None:
    """Both spellings say the version."""
    done = admin(option)
    assert (0, f"ofu-admin, version {__version__}\n") == (done.exit_code, done.output)


def test_without_a_readers_group_the_database_is_its_owners_alone(folder: Path) -> None:
    """group = "": not of the owner's group either."""
    done = admin("init", "--config", configured(folder, 'group = ""'))
    assert (0, 0o700, 0o600) == (
        done.exit_code,
        (folder / "a/b").stat().st_mode & 0o777,
        next((folder / "a/b").glob("*.db")).stat().st_mode & 0o777,
    )
    assert "was created, readable by its owner" in done.stdout


def test_a_group_that_does_not_exist_yet_is_named(folder: Path) -> None:
    """The database is made all the same, and what is missing for its readers is said."""
    done = admin("init", "--config", configured(folder, 'group = "no-such-group"'))
    assert 1 == done.exit_code
    assert "was created, readable by its owner" in done.stdout
    assert "group no-such-group does not exist" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to any group")
def test_new_directories_let_readers_pass_whatever_the_umask(folder: Path) -> None:
    """Directories on the way are open, the last one is its readers', also under a finisher's umask."""
    config = configured(folder, f'group = "{GROUP}"')
    before = os.umask(0o077)
    try:
        done = admin("init", "--config", config)
    finally:
        os.umask(before)
    assert (0, [0o755, 0o750]) == (
        done.exit_code,
        [(folder / name).stat().st_mode & 0o777 for name in ("a", "a/b")],
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to any group")
@pytest.mark.parametrize(
    ("settings", "readers"),
    [(f'group = "{GROUP}"', f"members of the group {GROUP}"), ("world_readable = true", "other users")],
)
def test_a_database_out_of_its_readers_reach(folder: Path, settings: str, readers: str) -> None:
    """The directory that its readers cannot enter is named, and what to do; mended, all is well."""
    config = configured(folder, settings + ("" if "group" in settings else '\ngroup = ""'))
    (folder / "a").mkdir(mode=0o700)
    done = admin("init", "--config", config)
    assert 1 == done.exit_code
    assert f"{readers} cannot enter {folder}/a: let them pass (chmod a+x {folder}/a)" in done.stderr
    (folder / "a").chmod(0o711)
    assert 0 == admin("init", "--config", config).exit_code


def test_ingest_follows_no_link(folder: Path) -> None:
    """A link in the inbox is set aside and not read."""
    config = configured(folder, 'group = ""')
    (folder / "inbox").mkdir(mode=0o700)
    (folder / "elsewhere").write_bytes(encode(noisy_record(1)))
    (folder / "inbox/x.record").symlink_to(folder / "elsewhere")
    done = admin("ingest", "--config", config, f"{folder}/inbox")
    assert (1, "0 records stored, 1 rejected\n") == (done.exit_code, done.stdout)
    assert "x.record: not a regular file" in done.stderr
    assert (folder / "inbox/rejected/x.record").is_symlink()


def test_ingest_from_a_shared_directory(folder: Path) -> None:
    """A directory like /tmp is refused, and nobody is told to change its mode."""
    (folder / "shared").mkdir()
    (folder / "shared").chmod(0o1777)
    done = admin("ingest", "--config", configured(folder, ""), f"{folder}/shared")
    assert 1 == done.exit_code
    assert "use a directory of its own, owned by root, mode 0700" in done.stderr
    assert "chmod" not in done.stderr
