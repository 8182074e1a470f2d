"""ofu-node as an administrator runs it, errors and all."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_ofu import __version__
from slurm_ofu.delivery.spool import Spool
from slurm_ofu.records.codec import decode, encode
from slurm_ofu.wiring.host import boot_epoch_s
from tests.hooks.node import Node, poll
from tests.records.generated import noisy_record

#: Root may read anything; without these capabilities another user's directory is closed.
PLAIN_ROOT = ("/usr/bin/setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
MAIN = "from slurm_ofu.cli.node import main; main(prog_name='ofu-node')"


def ofu_node(*arguments: str, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    command = [*prefix, sys.executable, "-c", MAIN, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def hook_process(node: Node, module: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Run what a hook starts; its lines for syslog come on standard error too."""
    where = ("--config", str(node.config), "--spool", str(node.spool))
    command = [sys.executable, "-I", "-m", f"slurm_ofu.hooks.{module}", *where, *more]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    its = Node(tmp_path)
    Spool(its.spool).make()
    try:
        yield its
    finally:
        its.close()


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_version(option: str) -> None:
    """Both spellings say the version."""
    done = ofu_node(option)
    assert (0, f"ofu-node, version {__version__}\n") == (done.returncode, done.stdout)


def test_rejected_records_are_named_until_somebody_acts(node: Node) -> None:
    """A rejected record fails every delivery, by name; renamed back it is delivered."""
    record = node.spool / "outbox/7.0.5.record"
    record.write_bytes(b"nonsense")
    for _ in range(2):
        done = ofu_node("deliver", "--config", str(node.config))
        assert (1, "0 runs finished, 0 records delivered, 0 waiting, 1 rejected\n") == (
            done.returncode,
            done.stdout,
        )
        assert str(record.with_suffix(".rejected")) in done.stderr
        assert 1 == len(done.stderr.splitlines())
    record.write_bytes(encode(noisy_record(1)))
    record.with_suffix(".rejected").unlink()
    assert 0 == ofu_node("deliver", "--config", str(node.config)).returncode


def test_a_link_in_the_outbox_is_not_followed(node: Node) -> None:
    """A link or a pipe in the outbox is rejected, not read."""
    (node.folder / "elsewhere").write_bytes(encode(noisy_record(1)))
    (node.spool / "outbox/7.0.5.record").symlink_to(node.folder / "elsewhere")
    os.mkfifo(node.spool / "outbox/8.0.5.record")
    done = ofu_node("deliver", "--config", str(node.config))
    assert (1, 2) == (done.returncode, done.stderr.count("not a regular file"))


@as_root
def test_who_may_not_read_the_spool_is_told_where(node: Node) -> None:
    """Without the rights, check goes on with a bad line, and the others name the path."""
    for path in (*node.spool.rglob("*"), node.spool):
        os.chown(path, 12345, -1)
    done = ofu_node("check", "--config", str(node.config), prefix=PLAIN_ROOT)
    assert f"BAD   spool         {node.spool}/outbox: Permission denied: run as root\n" in done.stdout
    assert "GPU 0" in done.stdout
    done = ofu_node("deliver", "--config", str(node.config), prefix=PLAIN_ROOT)
    said = f"ofu-node: {node.spool}/outbox: Permission denied: run as root\n"
    assert (1, said) == (done.returncode, done.stderr)


@as_root
def test_who_may_not_install_is_told_where() -> None:
    """Without the rights to write, install names the file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "p").mkdir()
        os.chown(folder / "p", 12345, -1)
        where = ("--config", f"{name}/c.toml", "--spool-dir", f"{name}/s", "--prolog-dir", f"{name}/p")
        done = ofu_node("install", *where, "--epilog-dir", f"{name}/e", "--no-systemd", prefix=PLAIN_ROOT)
    said = f"ofu-node: {name}/p/00-slurm-ofu: Permission denied: run as root\n"
    assert (1, said) == (done.returncode, done.stderr)


def test_install_with_another_spool_than_configured(node: Node) -> None:
    """--spool-dir beside a configuration that says otherwise is an error that names both."""
    done = ofu_node("install", "--config", str(node.config), "--spool-dir", "/x", "--no-systemd")
    assert 1 == done.returncode
    assert f"spool_dir is {node.spool}, and not /x as --spool-dir says" in done.stderr


def test_a_wrong_key_is_named_by_everybody(node: Node) -> None:
    """Sampler, finisher, check and deliver each say which key is wrong, and the run is recorded later."""
    good = node.config.read_text()
    node.config.write_text(good.replace("clock_readings", "clock_reading"))
    node.prolog()
    sampler = hook_process(node, "sample", "--tag", "7.0.5")
    finisher = hook_process(node, "finish")
    key = "[sampler] key clock_reading is not known; did you mean clock_readings?"
    stops = "run 7.0.5: the sampler stops: ConfigError: the configuration cannot be used"
    assert stops in sampler.stderr
    assert f"wait in {node.spool} until it is mended" in finisher.stderr
    for command in ("check", "deliver"):
        done = ofu_node(command, "--config", str(node.config))
        assert (1, True) == (done.returncode, key in done.stdout + done.stderr)
    assert key in sampler.stderr
    assert key in finisher.stderr
    node.gone()
    time.sleep(0.5)  # longer than two intervals: no short run
    node.config.write_text(good)
    node.epilog()
    assert {"sampler_died"} == {row["reason"] for row in node.stored()}


def test_why_there_is_no_source_travels(node: Node) -> None:
    """The record says why no counter could be read."""
    node.write_config(source="nvml", nvml_library="/absent/libnvidia-ml.so.1")
    text = node.config.read_text().replace('to = "sqlite:', 'to = "dir:')  # no such directory: it waits
    node.config.write_text(text)
    node.prolog()
    node.state("checkpoint")
    node.epilog()
    (file,) = poll("the record", lambda: list(node.spool.glob("outbox/7.*.record")))
    record = decode(file.read_bytes())
    assert ["no_source"] * 2 == [gpu.reason for gpu in record.gpus]
    assert (record.health.source or "").startswith("none: NVML cannot be used: /absent/libnvidia-ml.so.1")


def test_a_name_alone_is_a_run_only_where_a_full_disk_left_it(node: Node) -> None:
    """An empty file is a run only under the name that a hook of this boot would have given it."""
    now = round((time.time() - boot_epoch_s()) * 100)
    state = node.spool / "state"
    for name in ("777.0.1.epilog", "x.0.1.epilog", "1.2.epilog", "8.0.-5.epilog", f"7.0.{now}.epilog"):
        (state / name).write_text("")
    done = ofu_node("deliver", "--config", str(node.config))
    assert "777.0.1: forgotten" in done.stderr
    assert [{"job_id": 7}] == node.rows("SELECT job_id FROM run")
    assert not (state / "777.0.1.epilog").exists()
    assert 0 == ofu_node("deliver", "--config", str(node.config)).returncode
