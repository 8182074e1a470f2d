"""The collector's unit, inbox and database put where they belong."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from slurm_ofu.config import load_config
from slurm_ofu.errors import ConfigError
from slurm_ofu.wiring.installing import default_python
from slurm_ofu.wiring.installing_collector import MAIL_TIMER, UNIT, UNITS, install_collector

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def written(folder: Path, settings: str = "", name: str = "var") -> Path:
    """A configuration."""
    path = folder / "slurm-ofu.toml"
    path.write_text(
        f'[collector]\ninbox = "{folder}/{name}/inbox"\n'
        f'[database]\nurl = "sqlite://{folder}/{name}/ofu.db"\n{settings}\n'
    )
    return path


def installed(config: Path, units: Path) -> tuple[list[str], str]:
    """What was said, and the unit."""
    said = install_collector(config, units, python=default_python())
    return said, (units / UNIT).read_text()


def test_everything_is_there(tmp_path: Path) -> None:
    """The inbox is its user's alone, the database is made, and the unit names this installation."""
    config = written(tmp_path, 'group = ""')
    said, unit = installed(config, tmp_path / "units")
    assert 0o700 == stat.S_IMODE((tmp_path / "var/inbox").stat().st_mode)
    assert (tmp_path / "var/ofu.db").exists()
    assert f"ExecStart={default_python().parent}/ofu-admin collect --config {config}\n" in unit
    assert f"ReadWritePaths=-{tmp_path}/var\n" in unit
    assert "\nUser=" not in unit
    assert "@OFU" not in unit
    assert f"then `systemctl daemon-reload` and `systemctl enable --now {UNIT}`" == said[-1]
    assert unit == installed(config, tmp_path / "units")[1]


def test_an_inbox_elsewhere_is_writable_too(tmp_path: Path) -> None:
    """An inbox on another disk than the database may be written as well."""
    config = written(tmp_path, 'group = ""')
    config.write_text(config.read_text().replace("var/inbox", "in/box"))
    assert f"ReadWritePaths=-{tmp_path}/var -{tmp_path}/in/box\n" in installed(config, tmp_path / "units")[1]


@as_root
def test_a_service_user_owns_it_all(tmp_path: Path) -> None:
    """With [database] owner the unit runs as that user, whose inbox and database they are."""
    config = written(tmp_path, 'owner = "nobody"\ngroup = "daemon"')
    _, unit = installed(config, tmp_path / "units")
    assert "\nUser=nobody\nSupplementaryGroups=daemon\n" in unit
    owners = {path.stat().st_uid for path in (tmp_path / "var/inbox", tmp_path / "var/ofu.db")}
    assert {65534} == owners


@as_root
@pytest.mark.parametrize("name", ["ofu.db", "ofu.db.lock"])
def test_a_service_user_is_given_no_other_file(tmp_path: Path, name: str) -> None:
    """A link that the service user has put in its directory has root neither give away nor open to others
    what it leads to."""
    config = written(tmp_path, 'owner = "nobody"\ngroup = "daemon"')
    installed(config, tmp_path / "units")
    secret = tmp_path / "secret"
    (tmp_path / "var" / name).replace(secret)  # a database or a lock, so that nothing else is amiss
    os.chown(secret, 0, 0)
    secret.chmod(0o600)
    (tmp_path / "var" / name).symlink_to(secret)
    installed(config, tmp_path / "units")
    found = secret.stat()
    assert (0, 0, 0o600) == (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode))


def test_a_group_that_is_missing_keeps_nobody_from_installing(tmp_path: Path) -> None:
    """Where the database cannot be made yet, that is said, and the rest is installed."""
    said, _ = installed(written(tmp_path, 'group = "nosuchgroup"'), tmp_path / "units")
    assert any("nosuchgroup" in line for line in said)
    assert (tmp_path / "var/inbox").is_dir()


def test_a_configuration_is_written_where_there_is_none(tmp_path: Path) -> None:
    """Without a configuration the shipped one is written, and it is the defaults."""
    config = tmp_path / "etc/slurm-ofu.toml"
    with pytest.raises(ConfigError, match="spaces"):  # before anything else of it is used
        install_collector(config, None, python=Path("/a b/python"))
    assert load_config(str(config)).collector.inbox == "/var/lib/slurm-ofu/inbox"


@pytest.mark.parametrize("name", ["a b", "50%"])
def test_paths_that_a_unit_would_misread_are_refused(tmp_path: Path, name: str) -> None:
    """Spaces and per cent signs mean something else in a unit: such a path is an error."""
    with pytest.raises(ConfigError, match="a unit cannot hold a path"):
        installed(written(tmp_path, 'group = ""', name), tmp_path / "units")


def test_mail_waits_until_it_is_asked_for(tmp_path: Path) -> None:
    """Its timer is there, and named where mail is configured; nothing enables it."""
    assert not any(MAIL_TIMER in line and "enable" in line for line in _said(tmp_path, ""))
    assert any(f"enable --now {MAIL_TIMER}" in line for line in _said(tmp_path, '[mail]\nsender = "a@b.org"'))
    service = (tmp_path / "units/slurm-ofu-mail.service").read_text()
    config = tmp_path / "slurm-ofu.toml"
    assert f"ExecStart={default_python().parent}/ofu-admin mail --send --config {config}\n" in service
    assert "@OFU" not in service


def _said(folder: Path, settings: str) -> list[str]:
    said, _ = installed(written(folder, f'group = ""\n{settings}'), folder / "units")
    return said


@pytest.mark.parametrize("name", UNITS)
def test_systemd_understands_the_unit(tmp_path: Path, name: str) -> None:
    """systemd's own check finds nothing wrong with a unit, and little to harden further in a service."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is missing")
    installed(written(tmp_path, 'group = ""'), tmp_path / "units")
    unit = tmp_path / "units" / name
    if not (default_python().parent / "ofu-admin").exists():
        unit.write_text(unit.read_text().replace(f"{default_python().parent}/ofu-admin", "/bin/true"))
    done = subprocess.run(
        [analyze, "verify", "--man=no", "--recursive-errors=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (0, "") == (done.returncode, done.stderr)
    if unit.suffix == ".timer":
        return
    rated = subprocess.run(
        [analyze, "security", "--offline=yes", "--threshold=35", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == rated.returncode, rated.stdout


def test_a_missing_key_is_said(tmp_path: Path) -> None:
    """With keys instead of munge nothing is believed before there is one."""
    keyed = written(tmp_path, 'group = ""')
    key = f'authentication = "key"\nkey_file = "{tmp_path}/key"\n'
    keyed.write_text(keyed.read_text().replace("[database]", f"{key}[database]"))
    said, _ = installed(keyed, tmp_path / "units")
    assert any("run ofu-admin new-key" in line for line in said)
