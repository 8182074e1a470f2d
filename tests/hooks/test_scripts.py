"""The prolog and the epilog as scripts, called as slurmd calls them: whatever happens, exit 0 and in time."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_ofu.delivery.spool import Spool
from slurm_ofu.records.codec import decode
from slurm_ofu.samples.checkpoint import decode_checkpoint, encode_checkpoint
from tests.hooks.node import Node, poll
from tests.services.processes import Process

QUICK_S = 3.0  # for a prolog, and for an epilog that has nobody to wait for; on a busy machine
EPILOG_LIMIT_S = 6.0
OTHER_BOOT = "00000000-0000-4000-8000-000000000000"
#: Root may write anywhere; without these capabilities a mode of 0500 means what it says.
PLAIN_ROOT = ("/usr/bin/setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner")
WITHOUT_CAPABILITIES = PLAIN_ROOT if os.geteuid() == 0 else ()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    its = Node(tmp_path)
    try:
        yield its
    finally:
        its.close()


@pytest.fixture
def sleeper() -> Iterator[Process]:
    """A process of somebody else's."""
    with subprocess.Popen(["/bin/sleep", "60"], start_new_session=True) as process:
        yield Process.of(process.pid)
        process.kill()


# --------------------------------------------------------------- the whole way


def test_a_run_ends_in_the_database(node: Node) -> None:
    """Prolog, sampler, epilog: the run is in the accounting database, with the truth as its figures."""
    assert 0 == node.prolog().code
    node.sampling(1.0)
    assert 0 == node.epilog().code
    rows = node.stored()
    assert [(0, "ok"), (1, "ok")] == [(row["position"], row["reason"]) for row in rows]
    for row in rows:
        assert 0.5 == pytest.approx(row["tensor_ref_seconds"] / row["covered_seconds"], abs=1e-4)
        assert 1.0 <= row["covered_seconds"] <= row["allocated_seconds"]
        assert ("sampled", "plain_order", "0:0") == (row["estimator"], row["mapped_by"], row["exit_code"])
        assert ("trial", "somebody", "physics") == (row["cluster"], row["user_name"], row["account"])
    poll("an empty spool", node.is_settled)
    assert [] == [path.name for path in (node.spool / "state").iterdir()]


def test_the_epilog_leaves_no_process(node: Node) -> None:
    """Soon after the epilog nothing of ours runs any more."""
    node.prolog()
    node.sampling()
    node.epilog()
    node.gone()


def test_the_sampler_survives_the_prologs_process_group(node: Node) -> None:
    """slurmd kills the prolog's process group as soon as the script ends: the sampler is out of it."""
    for job in range(1, 6):
        node.prolog(job)
        os.kill(node.sampler_process(job).pid, 0)
    assert all(node.sampling(0.2, job).alive() for job in range(1, 6))


def test_the_prologs_output_ends_with_it(node: Node) -> None:
    """End-of-file comes at once, not when the sampler ends: slurmd waits for it."""
    called = node.prolog()
    assert (0, b"") == (called.code, called.output)
    assert called.seconds < QUICK_S
    assert node.sampler_process().alive()


def test_a_short_run_is_a_record_too(node: Node) -> None:
    """A job that ends while its sampler is still starting has its record."""
    node.prolog()
    node.epilog()
    assert {"short"} == {row["reason"] for row in node.stored()}
    poll("an empty spool", node.is_settled)


def test_a_sampler_that_comes_too_late_does_not_stay(node: Node) -> None:
    """A run may be finished by somebody else before its sampler is up: the sampler goes at once."""
    node.prolog()
    process = node.sampler_process()
    process.send(signal.SIGSTOP)
    tag = node.state("prolog").name.removesuffix(".prolog")
    spool = Spool(node.spool)
    with spool.hold(tag) as alone:
        held = alone  # else the sampler was quicker, and has been told nothing yet
        if held:
            spool.finish(tag, b"", done_note="0 1764424800 - 0 0,1")
    process.send(signal.SIGCONT)
    if held:
        poll("the sampler's end", lambda: not process.alive())
        assert [] == list(node.spool.glob("state/*"))


def test_two_runs_of_a_job_are_two_runs(node: Node) -> None:
    """After a requeue the epilog's restart count is one too high; the prolog's counts."""
    for count in ("0", "1"):
        node.prolog(SLURM_JOB_RESTART_COUNT=count)
        node.sampling(0.3)
        node.epilog(SLURM_JOB_RESTART_COUNT=str(int(count) + 1))
        poll("an empty spool", node.is_settled)
    assert [0, 0, 1, 1] == [row["restart_count"] for row in node.stored()]


# --------------------------------------------------------------- whatever happens


def broken_config(node: Node) -> None:
    node.config.write_text(f'[node]\nspool_dir = "{node.spool}"\nthis is not TOML\n')


def no_config(node: Node) -> None:
    node.config.unlink()


def no_source(node: Node) -> None:
    node.source.unlink()


def no_spool_possible(node: Node) -> None:
    (node.folder / "file").write_text("")
    node.spool = node.folder / "file" / "spool"
    node.write_config()


def no_python(node: Node) -> None:
    node.python = str(node.folder / "no-python")
    for hook in ("prolog/00-slurm-ofu", "epilog/zz-slurm-ofu"):
        node.install(hook)


#: No process may write a byte into a file, as on a full disk; names can still be made.
FULL_DISK = ("/bin/sh", "-c", 'trap "" XFSZ; exec /usr/bin/prlimit --fsize=0 "$@"', "sh")


NOTHING_SAID: dict[str, Any] = {}
FAULTS: list[tuple[Callable[[Node], None], dict[str, Any]]] = [
    (lambda node: None, {"SLURM_JOB_GPUS": None}),
    (lambda node: None, {"SLURM_JOB_GPUS": ""}),
    (lambda node: None, {"SLURM_JOB_GPUS": "x,y"}),
    (lambda node: None, {"SLURM_JOB_GPUS": "99"}),
    (lambda node: None, {"SLURM_JOB_ID": None}),
    (lambda node: None, {"SLURM_JOB_ID": "7; echo hacked"}),
    (lambda node: None, {"SLURM_JOB_ID": "-1"}),
    (lambda node: None, {"SLURM_JOB_RESTART_COUNT": "$(exit 3)"}),
    (lambda node: None, {"SLURM_JOB_COMMENT": "two\nlines, 'quotes' \"and\" $(exit 3) `exit 4`"}),
    (no_config, NOTHING_SAID),
    (broken_config, NOTHING_SAID),
    (no_source, NOTHING_SAID),
    (no_spool_possible, NOTHING_SAID),
    (no_python, NOTHING_SAID),
]


@pytest.mark.parametrize(("fault", "said"), FAULTS)
def test_hooks_exit_0_whatever_happens(
    node: Node, fault: Callable[[Node], None], said: dict[str, Any]
) -> None:
    """Exit 0 whatever happens: any other code drains the node. Nothing is printed, nobody waits."""
    fault(node)
    prolog = node.prolog(**said)
    epilog = node.epilog(**said)
    assert [(0, b"")] * 2 == [(called.code, called.output) for called in (prolog, epilog)]
    assert prolog.seconds < QUICK_S
    assert epilog.seconds < EPILOG_LIMIT_S


@pytest.mark.parametrize("said", [{"SLURM_JOB_GPUS": None}, {"SLURM_JOB_GPUS": ""}, {"SLURM_JOB_ID": "x"}])
def test_a_job_without_gpus_leaves_nothing(node: Node, said: dict[str, Any]) -> None:
    """A job without a GPU costs nothing: no spool, no process, no record."""
    node.prolog(**said)
    node.epilog(**said)
    assert (False, []) == (node.spool.exists(), node.processes())


def test_a_read_only_spool(node: Node) -> None:
    """A spool that cannot be written costs the record, not the node, and leaves no sampler behind that
    nobody could ever end."""
    for name in ("state", "outbox", "done"):
        (node.spool / name).mkdir(parents=True)
    folders = (node.spool / "state", node.spool / "outbox", node.spool / "done", node.spool)
    for folder in folders:
        folder.chmod(0o500)
    try:
        prolog = node.prolog(prefix=WITHOUT_CAPABILITIES)
        epilog = node.epilog(prefix=WITHOUT_CAPABILITIES)
        node.gone()
    finally:
        for folder in folders:
            folder.chmod(0o700)
    assert [(0, b"")] * 2 == [(called.code, called.output) for called in (prolog, epilog)]
    assert [] == list((node.spool / "state").iterdir())


def test_a_full_disk(node: Node) -> None:
    """A spool that is full costs the figures, not the node; the run's name is kept."""
    prolog = node.prolog(prefix=FULL_DISK)
    epilog = node.epilog(prefix=FULL_DISK)
    assert [(0, b"")] * 2 == [(called.code, called.output) for called in (prolog, epilog)]
    assert max(prolog.seconds, epilog.seconds) < EPILOG_LIMIT_S
    names = [Path(f"/proc/{process.pid}/comm").read_text().strip() for process in node.processes()]
    assert "ofu-sampler" not in names


def test_without_pynvml_there_is_no_source(node: Node) -> None:
    """Without a counter source the run is recorded, its GPUs with the reason no_source."""
    bare = node.folder / "bare"
    venv.create(bare, symlinks=True, with_pip=False)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(bare), "platbase": str(bare)}))
    (packages / "ours.pth").write_text(str(Path(__file__).parents[2]))
    tomli = Path(sysconfig.get_path("purelib")) / "tomli"
    if sys.version_info < (3, 11):
        (packages / "tomli").symlink_to(tomli)
    node.python = str(bare / "bin" / "python")
    for hook in ("prolog/00-slurm-ofu", "epilog/zz-slurm-ofu"):
        node.install(hook)
    node.write_config(source="auto")
    prolog = node.prolog()
    node.state("checkpoint")
    epilog = node.epilog()
    assert (0, 0) == (prolog.code, epilog.code)
    (file,) = poll("the record", lambda: list(node.spool.glob("outbox/7.*.record")))
    assert ["no_source"] * 2 == [gpu.reason for gpu in decode(file.read_bytes()).gpus]


def test_a_configuration_mended_later_loses_no_run(node: Node) -> None:
    """A configuration that cannot be read costs the figures, not the run: it is recorded once mended."""
    broken_config(node)
    node.prolog()
    node.epilog()
    node.gone()
    node.write_config()
    node.finisher()
    assert {"short"} == {row["reason"] for row in node.stored()}
    assert node.is_settled()


# --------------------------------------------------------------- epilogs


def test_a_second_epilog_adds_nothing(node: Node) -> None:
    """A second epilog is known as one, before the record is delivered and after."""
    node.prolog()
    node.sampling()
    for _ in range(3):
        assert 0 == node.epilog().code
    poll("an empty spool", node.is_settled)
    assert 0 == node.epilog().code
    node.gone()
    assert ["ok", "ok"] == [row["reason"] for row in node.stored()]
    assert [] == list(node.spool.glob("state/*.epilog"))


def test_epilogs_at_the_same_time_make_one_record(node: Node) -> None:
    """Two epilogs at once (slurmctld may repeat the request) make one record."""
    node.prolog()
    node.sampling()
    processes = [node.start("epilog") for _ in range(4)]
    assert [0] * 4 == [process.wait(timeout=20) for process in processes]
    for process in processes:
        process.stdout.close()
    poll("an empty spool", node.is_settled)
    node.gone()
    assert ["ok", "ok"] == [row["reason"] for row in node.stored()]


def test_an_epilog_without_a_prolog_says_not_started(node: Node) -> None:
    """not_started (no prolog ran on that node): how long the GPUs were held is unknown."""
    assert 0 == node.epilog().code
    rows = node.stored()
    assert [("not_started", None, None)] * 2 == [
        (row["reason"], row["allocated_seconds"], row["tensor_ref_seconds"]) for row in rows
    ]


# --------------------------------------------------------------- samplers that die


def test_a_killed_sampler_leaves_its_checkpoint(node: Node) -> None:
    """kill -9: the finisher makes the record from the last checkpoint, with the reason sampler_died."""
    node.prolog()
    process = node.sampling()
    process.send(signal.SIGKILL)
    poll("the sampler's end", lambda: not process.alive())
    called = node.epilog()
    assert called.code == 0
    assert called.seconds < QUICK_S
    for row in node.stored():
        assert "sampler_died" == row["reason"]
        assert 0.5 == pytest.approx(row["tensor_ref_seconds"] / row["covered_seconds"], abs=1e-4)
        assert 0.5 <= row["covered_seconds"] <= row["allocated_seconds"]


def test_a_strangers_sigterm_leaves_a_valid_record(node: Node) -> None:
    """SIGTERM by a stranger ends the sampler with a checkpoint; the epilog makes a record of it."""
    node.prolog()
    process = node.sampling()
    process.send(signal.SIGTERM)
    poll("the sampler's end", lambda: not process.alive())
    assert 0 == node.epilog().code
    rows = node.stored()
    assert {"sampler_died"} == {row["reason"] for row in rows}
    assert all(
        0.5 == pytest.approx(row["tensor_ref_seconds"] / row["covered_seconds"], abs=1e-4) for row in rows
    )


def hanging_python(node: Node) -> None:
    """A Python that never gets to run, and hears no signal but the last."""
    python = node.folder / "python"
    python.write_text("#!/bin/sh\ntrap '' TERM USR1 INT HUP\nexec /bin/sleep 30 # \"$@\"\n")
    python.chmod(0o755)
    node.python = str(python)
    for hook in ("prolog/00-slurm-ofu", "epilog/zz-slurm-ofu"):
        node.install(hook)


def test_a_python_that_hangs_holds_nobody_up(node: Node) -> None:
    """An epilog waits two seconds, kills a sampler that hangs, and is gone."""
    hanging_python(node)
    prolog = node.prolog()
    process = node.sampler_process()
    epilog = node.epilog()
    assert (0, 0) == (prolog.code, epilog.code)
    assert prolog.seconds < QUICK_S
    assert 1.9 < epilog.seconds < EPILOG_LIMIT_S
    assert not process.alive()
    pid, began = poll("the finisher", (node.spool / "finisher").read_text).split()
    finisher = Process(int(pid), int(began))
    assert finisher.alive()
    finisher.send(signal.SIGKILL)


def test_a_reused_pid_is_never_signalled(node: Node, sleeper: Process) -> None:
    """Pid and start time together are the sampler's identity: a stranger with its pid is left alone."""
    node.prolog()
    process = node.sampling()
    process.send(signal.SIGKILL)
    poll("the sampler's end", lambda: not process.alive())
    node.state("sampler").write_text(f"{sleeper.pid} {sleeper.started + 1}\n")
    called = node.epilog()
    assert called.code == 0
    assert called.seconds < QUICK_S
    assert {"sampler_died"} == {row["reason"] for row in node.stored()}
    assert sleeper.alive()


@pytest.mark.parametrize("identity", ["", "x y\n", "-1 5\n", "0\n", "1 0\n"])
def test_a_nonsensical_identity_signals_nobody(node: Node, sleeper: Process, identity: str) -> None:
    """An identity file that makes no sense (a full disk) is nobody's."""
    node.prolog()
    process = node.sampling(0.2)
    process.send(signal.SIGKILL)
    poll("the sampler's end", lambda: not process.alive())
    node.state("sampler").write_text(identity)
    called = node.epilog()
    assert (0, True) == (called.code, sleeper.alive())
    assert called.seconds < QUICK_S


# --------------------------------------------------------------- what is left from before


def test_a_run_of_another_boot_is_finished_by_the_next_hook(node: Node) -> None:
    """After a reboot the next prolog finishes what the last boot left, from its checkpoints."""
    node.prolog(6)
    process = node.sampling(0.5, 6)
    process.send(signal.SIGKILL)
    poll("the sampler's end", lambda: not process.alive())
    facts = node.state("prolog", 6)
    facts.write_bytes(b"OFU1 " + OTHER_BOOT.encode() + facts.read_bytes()[41:])
    (node.spool / "boot").write_text(f"{OTHER_BOOT}\n")
    node.prolog(7)
    rows = node.stored(6)
    assert {"sampler_died"} == {row["reason"] for row in rows}
    assert all(0.5 <= row["covered_seconds"] <= row["allocated_seconds"] for row in rows)
    node.sampling(0.2, 7)
    assert [] == node.rows("SELECT * FROM run WHERE job_id = 7")
    node.epilog(7)
    assert {"ok", "short"} >= {row["reason"] for row in node.stored(7)}


@contextlib.contextmanager
def locked(database: Path) -> Iterator[None]:
    """Somebody else writes to the accounting database."""
    with database.with_name(database.name + ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def test_a_record_waits_for_a_locked_database(node: Node) -> None:
    """A record that cannot be delivered stays in the outbox, and the next hook hands it on."""
    node.wait_seconds = 0.3
    node.write_config()
    node.prolog(5)
    node.epilog(5)
    node.stored(5)
    with locked(node.database):
        node.prolog(6)
        node.sampling(0.3, 6)
        assert 0 == node.epilog(6).code
        node.gone()
        assert 1 == len(list(node.spool.glob("outbox/6.*.record")))
    assert [] == node.rows("SELECT * FROM run WHERE job_id = 6")
    node.prolog(7)
    assert 2 == len(node.stored(6))
    poll("an empty outbox", lambda: not list(node.spool.glob("outbox/*")))


def test_a_checkpoint_of_another_version_costs_only_its_figures(node: Node) -> None:
    """A checkpoint that cannot be read leaves a record without figures."""
    node.prolog()
    process = node.sampling()
    process.send(signal.SIGKILL)
    poll("the sampler's end", lambda: not process.alive())
    checkpoint = node.state("checkpoint")
    assert decode_checkpoint(checkpoint.read_bytes()).gpus
    checkpoint.write_bytes(encode_checkpoint(decode_checkpoint(checkpoint.read_bytes()))[:-5])
    node.epilog()
    assert [(None, 0.0)] * 2 == [(row["tensor_ref_seconds"], row["covered_seconds"]) for row in node.stored()]


def test_the_spool_is_for_roots_eyes_only(node: Node) -> None:
    """What Slurm said of a job is nobody else's business."""
    node.prolog()
    node.sampling(0.2)
    modes = {path: path.stat().st_mode & 0o077 for path in (node.spool, *node.spool.rglob("*"))}
    assert {0} == set(modes.values()), modes
    assert time.time() - node.state("prolog").stat().st_mtime < 60
