"""Hooks, configuration, spool and units put where the host looks for them."""

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_ofu.config import load_config
from slurm_ofu.errors import ConfigError
from slurm_ofu.wiring.installing import EPILOG, PROLOG, Places, default_python, install


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(
        config=tmp_path / "etc/slurm-ofu.toml",
        prolog_dir=tmp_path / "prolog.d",
        epilog_dir=tmp_path / "epilog.d",
        systemd_dir=None,
        python=default_python(),
        spool_dir=tmp_path / "spool",
    )


def test_nothing_is_written_outside_the_places(places: Places) -> None:
    """The spool that is asked for is the configuration's, and the hooks know no other."""
    install(places)
    assert str(places.spool_dir) == load_config(str(places.config)).spool_dir
    for hook in (places.prolog_dir / PROLOG, places.epilog_dir / EPILOG):
        text = hook.read_text()
        assert f"ofu_spool='{places.spool_dir}'\n" in text
        assert "/var/spool" not in text
    assert places.spool_dir is not None
    assert {"state", "outbox", "done"} == {path.name for path in places.spool_dir.iterdir()}


def test_an_existing_configuration_is_kept(places: Places) -> None:
    """Installing again keeps the configuration, with the same spool named or none."""
    install(places)
    text = places.config.read_text() + "# ours\n"
    places.config.write_text(text)
    install(places)
    install(replace(places, spool_dir=None))
    assert text == places.config.read_text()


def test_a_configuration_that_says_otherwise_is_an_error(places: Places, tmp_path: Path) -> None:
    """Another spool than the existing configuration's is refused before anything is written."""
    places.config.parent.mkdir()
    places.config.write_text(f'[node]\nspool_dir = "{tmp_path}/other"\n')
    with pytest.raises(ConfigError, match=r"spool_dir is .*/other, and not .*/spool as --spool-dir says"):
        install(places)
    assert ["etc"] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize("name", ["it's", 'a"b', "a\\b", "a\nb"])
def test_paths_that_the_shell_would_misread_are_refused(places: Places, tmp_path: Path, name: str) -> None:
    """Quotes, backslashes and newlines in a path are an error."""
    with pytest.raises(ConfigError, match="cannot hold a path with quotes"):
        install(replace(places, spool_dir=tmp_path / name))
