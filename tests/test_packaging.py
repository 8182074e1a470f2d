"""What is installed is what was tested."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = (
    "prolog/00-slurm-ofu",
    "epilog/zz-slurm-ofu",
    "etc/slurm-ofu.toml",
    "etc/slurm.conf.fragment",
    "etc/systemd/slurm-ofu-collect.service",
    "etc/systemd/slurm-ofu-deliver.service",
    "etc/systemd/slurm-ofu-deliver.timer",
    "etc/systemd/slurm-ofu-mail.service",
    "etc/systemd/slurm-ofu-mail.timer",
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as pip builds it."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(folder),
        str(ROOT),
    ]
    subprocess.run(command, check=True, timeout=300)
    [built] = folder.glob("*.whl")
    return built


def test_the_wheel_brings_hooks_and_configuration(wheel: Path) -> None:
    """An installed copy has the hooks, the configuration and the units, as they are in the repository."""
    with zipfile.ZipFile(wheel) as archive:
        for name in SHIPPED:
            assert (ROOT / name).read_bytes() == archive.read(f"slurm_ofu/shipped/{name}")


def test_the_wheel_brings_every_template(wheel: Path) -> None:
    """What mails and pages are made from comes along."""
    templates = {path.relative_to(ROOT).as_posix() for path in (ROOT / "slurm_ofu").rglob("*.jinja")}
    assert "slurm_ofu/templates/mail/user.txt.jinja" in templates
    with zipfile.ZipFile(wheel) as archive:
        assert templates == {name for name in archive.namelist() if name.endswith(".jinja")}


def test_the_wheel_brings_templates_and_what_pages_bring_along(wheel: Path) -> None:
    """An installed copy has every template, script and style of the pages, as they are in the repository."""
    files = [path for room in ("templates", "assets") for path in (ROOT / "slurm_ofu" / room).rglob("*")]
    with zipfile.ZipFile(wheel) as archive:
        for path in filter(Path.is_file, files):
            assert path.read_bytes() == archive.read(str(path.relative_to(ROOT)))


def test_the_wheel_brings_nothing_else(wheel: Path) -> None:
    """Tests, demo and benchmarks stay out of an installation."""
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert {"slurm_ofu"} == {top for top in tops if not top.endswith((".dist-info", ".data"))}


def test_the_wheel_brings_completion_and_manual_pages(wheel: Path) -> None:
    """What shells and man look for goes where they look, under the prefix of the installation."""
    names = [str(path.relative_to(ROOT)) for path in ROOT.glob("share/**/*") if path.is_file()]
    assert "share/man/man1/ofu-report.1" in names
    with zipfile.ZipFile(wheel) as archive:
        found = {
            name.partition(".data/data/")[2]: archive.read(name)
            for name in archive.namelist()
            if ".data/" in name
        }
    assert {name: (ROOT / name).read_bytes() for name in names} == found


def test_an_installed_wheel_installs_a_node(wheel: Path, tmp_path: Path) -> None:
    """From the wheel alone `ofu-node install` writes hooks that name their Python and configuration."""
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    config = tmp_path / "slurm-ofu.toml"
    config.write_text(f'[node]\nspool_dir = "{tmp_path}/spool"\n')
    program = (
        f"import sys; sys.path.insert(0, {str(site)!r}); from slurm_ofu.cli.node import main; "
        f"main(['install', '--config', {str(config)!r}, '--prolog-dir', {str(tmp_path / 'p')!r}, "
        f"'--epilog-dir', {str(tmp_path / 'e')!r}, '--systemd-dir', {str(tmp_path / 's')!r}])"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=120)
    prolog = (tmp_path / "p/00-slurm-ofu").read_text()
    assert f"ofu_python='{sys.executable}'" in prolog
    assert str(config) in prolog
    assert "@OFU_" not in prolog + (tmp_path / "e/zz-slurm-ofu").read_text()
    assert (tmp_path / "s/slurm-ofu-deliver.timer").exists()
