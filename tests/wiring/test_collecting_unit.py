"""The collector as its unit runs it, hardening and all, under a real systemd."""

import os
import shutil
import sys
from collections.abc import Iterator

import pytest

from slurm_ofu.wiring.installing_collector import UNIT
from tests.delivery.examples import packed
from tests.delivery.munged import missing as munge_missing
from tests.delivery.munged import new_key
from tests.services.isolated_systemd import IsolatedSystemd, missing_requirements, poll

URL = "http://127.0.0.1:16825"
FOLDER = "/run/ofu-collector"
CONFIG = f"{FOLDER}/slurm-ofu.toml"
MUNGED = f"""
set -e
install -d -o munge {FOLDER}/munge
install -o munge -m 600 {FOLDER}/munge.key {FOLDER}/munge/key
exec setpriv --reuid=munge --clear-groups munged --foreground --socket={FOLDER}/munge/socket \
    --key-file={FOLDER}/munge/key --pid-file={FOLDER}/munge/pid --log-file={FOLDER}/munge/log \
    --seed-file={FOLDER}/munge/seed
"""
SLURM_CONF = f"""
ClusterName=trial
SlurmctldHost=localhost(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={FOLDER}/munge/socket
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePass={FOLDER}/munge/socket
"""


@pytest.fixture(scope="module")
def systemd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IsolatedSystemd]:
    """A real systemd with a munged, whose network is the loopback alone; the collector runs."""
    reason = missing_requirements("unified") or munge_missing()
    reason = reason or (None if shutil.which("ip") else "ip is missing")
    if reason and os.environ.get("OFU_TEST_REQUIRE_ALL") == "1":
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)
    its = IsolatedSystemd("unified", tmp_path_factory.mktemp("systemd"))
    try:
        its.start()
        its.run("ip", "link", "set", "lo", "up")
        # Names resolve only where there is an address besides the loopback.
        its.run("ip", "address", "add", "198.51.100.1/32", "dev", "lo")
        installed(its)
        yield its
    finally:
        its.close()


def installed(systemd: IsolatedSystemd) -> None:
    """Start munged, install the collector and start its unit."""
    folder = systemd.file(FOLDER)
    folder.mkdir(mode=0o755)
    (folder / "munge.key").write_bytes(new_key())
    socket = f'munge_socket = "{FOLDER}/munge/socket"\n'
    (folder / "slurm-ofu.toml").write_text(
        f'[node]\nspool_dir = "{FOLDER}/spool"\n[delivery]\nto = "{URL}"\n{socket}'
        f'[collector]\nlisten = "{URL.removeprefix("http://")}"\ninbox = "{FOLDER}/var/inbox"\n{socket}'
        f'[accounting]\nsource = "none"\n'
        f'[database]\nurl = "sqlite://{FOLDER}/var/ofu.db"\ngroup = "daemon"\n'
    )
    systemd.start_service("munged.service", ["/bin/sh", "-c", MUNGED])
    poll("munged", (folder / "munge/socket").exists)
    admin(systemd, "install", "--config", CONFIG)
    unit = systemd.file(f"/etc/systemd/system/{UNIT}")
    unit.write_text(bare(with_this_checkout(unit.read_text())))
    systemd.run("systemctl", "daemon-reload")
    systemd.run("systemctl", "start", UNIT)
    poll("the collector", lambda: "ok" in health(systemd))


def with_this_checkout(unit: str) -> str:
    """The unit, able to run a checkout that lies where it hides what others have."""
    hidden = sys.executable.startswith(("/tmp/", "/var/tmp/"))
    return unit.replace("PrivateTmp=yes\n", "") if hidden else unit


def bare(unit: str) -> str:
    """The unit without what any unit needs and this systemd has not: the targets of a whole host."""
    return unit.replace("[Unit]\n", "[Unit]\nDefaultDependencies=no\n", 1)


def admin(systemd: IsolatedSystemd, *arguments: str) -> str:
    script = "from slurm_ofu.cli.admin import main; main(prog_name='ofu-admin')"
    return systemd.run(sys.executable, "-c", script, *arguments)


def health(systemd: IsolatedSystemd) -> str:
    script = f"import urllib.request as r; print(r.urlopen('{URL}/v1/health', timeout=20).read().decode())"
    code, said = systemd.call(sys.executable, "-c", script)
    return "" if code else said


def delivered(systemd: IsolatedSystemd, *jobs: int) -> str:
    """What ofu-node deliver says of records of these jobs."""
    for name in ("state", "outbox", "done"):
        systemd.file(f"{FOLDER}/spool/{name}").mkdir(parents=True, exist_ok=True)
    for job in jobs:
        systemd.file(f"{FOLDER}/spool/outbox/{job}.0.5.record").write_bytes(packed(job))
    script = "from slurm_ofu.cli.node import main; main(prog_name='ofu-node')"
    return systemd.run(sys.executable, "-c", script, "deliver", "--config", CONFIG)


def count(systemd: IsolatedSystemd) -> int:
    """Runs in the database."""
    query = f"sqlite3.connect('{FOLDER}/var/ofu.db').execute('SELECT COUNT(*) FROM run').fetchone()[0]"
    return int(systemd.run(sys.executable, "-c", f"import sqlite3; print({query})"))


def shown(systemd: IsolatedSystemd, name: str) -> str:
    return systemd.run("systemctl", "show", "--value", f"--property={name}", UNIT)


def test_it_takes_records(systemd: IsolatedSystemd) -> None:
    """Hardened as it is, it verifies with munge, writes its inbox and its database, and answers."""
    before = count(systemd)
    assert "2 records delivered, 0 waiting" in delivered(systemd, 1, 2)
    poll("both in the database", lambda: count(systemd) == before + 2)
    assert "0" == shown(systemd, "NRestarts")


def test_killed_it_comes_back(systemd: IsolatedSystemd) -> None:
    """Killed it is started again, and goes on."""
    before, pid = count(systemd), shown(systemd, "MainPID")
    systemd.run("systemctl", "kill", "--signal=KILL", UNIT)
    poll("another process", lambda: shown(systemd, "MainPID") not in (pid, "0"), 60)
    poll("the collector", lambda: "ok" in health(systemd))
    assert "1 records delivered, 0 waiting" in delivered(systemd, 3)
    poll("it in the database", lambda: count(systemd) == before + 1)


def test_slurms_commands_run(systemd: IsolatedSystemd) -> None:
    """Under the same hardening Slurm's own commands and munge start, and nothing else can be written."""
    unit = systemd.file(f"/etc/systemd/system/{UNIT}").read_text()
    systemd.file(f"{FOLDER}/slurm.conf").write_text(SLURM_CONF)
    # Plugins are loaded, a credential is made, and a connection is tried: nobody listens.
    slurm = f"export SLURM_CONF={FOLDER}/slurm.conf\nsacct -j 1 2>&1 | grep refused\n"
    slurm += "sacctmgr --readonly list cluster 2>&1 | grep refused\n"
    script = (
        f"exec >{FOLDER}/var/said 2>&1\nset -ex\n{slurm if shutil.which('sacct') else ''}"
        f"munge -n -S {FOLDER}/munge/socket | unmunge -n -S {FOLDER}/munge/socket\n"
        "for folder in /etc /usr /root; do if touch $folder/written; then exit 1; fi; done\n"
        "test ! -e /dev/kmsg\n"
    )
    systemd.file(f"{FOLDER}/try").write_text(script)
    start = next(line for line in unit.splitlines() if line.startswith("ExecStart="))
    other = unit.replace(start, f"ExecStart=/bin/sh {FOLDER}/try").replace("Type=exec", "Type=oneshot")
    systemd.file("/etc/systemd/system/ofu-try.service").write_text(other.replace("Restart=always\n", ""))
    systemd.run("systemctl", "daemon-reload")
    code, said = systemd.call("systemctl", "start", "ofu-try.service")
    assert 0 == code, said + systemd.file(f"{FOLDER}/var/said").read_text()


def test_a_clean_stop(systemd: IsolatedSystemd) -> None:
    """Stopped it ends by itself, with success, and nothing waits."""
    systemd.run("systemctl", "stop", UNIT)
    assert ["inactive", "success", "0"] == [
        shown(systemd, name) for name in ("ActiveState", "Result", "ExecMainStatus")
    ]
    assert "" == health(systemd)
