"""Where records go, and the outbox emptied into it."""

from pathlib import Path

import pytest

from slurm_ofu.delivery.directory import DirectoryDelivery
from slurm_ofu.delivery.sending import HttpDelivery
from slurm_ofu.delivery.spool import Spool
from slurm_ofu.records.codec import decode, encode
from slurm_ofu.values import Config
from slurm_ofu.wiring.delivering import StoreDelivery, deliver, finish_ended_runs, open_delivery
from tests.records.generated import noisy_record
from tests.wiring.left_behind import (
    BOOT,
    EARLIER_BOOT,
    PROLOG_S,
    config_for,
    leave_checkpoint,
    leave_facts,
    tag_of,
)


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    its = Spool(tmp_path / "spool")
    its.make()
    return its


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return config_for(tmp_path)


def delivered_jobs(folder: Path) -> list[int]:
    return sorted(decode(path.read_bytes()).job.key.job_id for path in (folder / "inbox").glob("*.record"))


def test_only_ended_runs_are_finished(spool: Spool, config: Config) -> None:
    """A run is finished when an epilog spoke or another boot began; one that goes on is left alone."""
    leave_facts(spool, tag_of(1), "prolog", PROLOG_S)
    leave_facts(spool, tag_of(2), "prolog", PROLOG_S)
    leave_facts(spool, tag_of(2), "epilog", PROLOG_S + 50)
    leave_facts(spool, tag_of(3), "prolog", PROLOG_S, boot=EARLIER_BOOT)
    leave_facts(spool, tag_of(4), "epilog", PROLOG_S)
    assert (3, ()) == finish_ended_runs(spool, config, BOOT)
    assert (tag_of(1),) == spool.tags()
    assert [f"{tag_of(job)}.record" for job in (2, 3, 4)] == sorted(path.name for path in spool.waiting())


def test_a_run_that_somebody_works_on_is_left_to_them(spool: Spool, config: Config) -> None:
    """A run that its sampler or another finisher holds is left to them."""
    leave_facts(spool, tag_of(2), "prolog", PROLOG_S)
    leave_facts(spool, tag_of(2), "epilog", PROLOG_S + 50)
    with spool.hold(tag_of(2)):
        assert (0, ()) == finish_ended_runs(spool, config, BOOT)
    assert (1, ()) == finish_ended_runs(spool, config, BOOT)
    assert (0, ()) == finish_ended_runs(spool, config, BOOT)


def test_what_a_second_epilog_left_is_not_finished_again(spool: Spool, config: Config) -> None:
    """A run is finished once: what a second epilog leaves makes no second record."""
    tag = tag_of(2)
    leave_facts(spool, tag, "prolog", PROLOG_S)
    leave_checkpoint(spool, tag, PROLOG_S + 40)
    leave_facts(spool, tag, "epilog", PROLOG_S + 50)
    assert (1, ()) == finish_ended_runs(spool, config, BOOT)
    (path,) = spool.waiting()
    data = path.read_bytes()
    leave_facts(spool, tag, "epilog", PROLOG_S + 51)
    assert (0, ()) == finish_ended_runs(spool, config, BOOT)
    assert (data, []) == (path.read_bytes(), list(spool.state.iterdir()))


def test_one_run_that_cannot_be_finished_does_not_hold_up_the_others(spool: Spool, config: Config) -> None:
    """A run that makes no record yet is a problem that is told, and the others are finished."""
    leave_facts(spool, tag_of(1), "prolog", PROLOG_S)
    leave_facts(spool, tag_of(1), "epilog", PROLOG_S, {"SLURM_JOB_ID": "x"})
    leave_facts(spool, tag_of(1), "prolog", PROLOG_S, {"SLURM_JOB_ID": "x"})
    leave_facts(spool, tag_of(2), "epilog", PROLOG_S + 50)
    finished, problems = finish_ended_runs(spool, config, BOOT)
    assert (1, 1, True) == (finished, len(problems), "no record yet" in problems[0])


def test_the_outbox_is_emptied(spool: Spool, config: Config, tmp_path: Path) -> None:
    """What is handed on leaves the outbox; doing it again does nothing."""
    for job in (1, 2, 3):
        leave_facts(spool, tag_of(job), "epilog", PROLOG_S)
    finish_ended_runs(spool, config, BOOT)
    its = deliver(spool, config)
    assert (3, 0, ()) == (its.sent, its.left, its.problems)
    assert [1, 2, 3] == delivered_jobs(tmp_path)
    again = deliver(spool, config)
    assert (0, 0, ()) == (again.sent, again.left, again.problems)


def test_only_some_are_handed_on(spool: Spool, config: Config, tmp_path: Path) -> None:
    """A sampler hands on its own record only."""
    for job in (1, 2):
        leave_facts(spool, tag_of(job), "epilog", PROLOG_S)
    finish_ended_runs(spool, config, BOOT)
    its = deliver(spool, config, [spool.outbox / f"{tag_of(2)}.record"])
    assert (1, 0, [2]) == (its.sent, its.left, delivered_jobs(tmp_path))
    assert 1 == len(spool.waiting())


def test_what_cannot_be_handed_on_stays(spool: Spool, config: Config, tmp_path: Path) -> None:
    """A receiver that is not there costs nothing: the records wait."""
    leave_facts(spool, tag_of(1), "epilog", PROLOG_S)
    finish_ended_runs(spool, config, BOOT)
    (tmp_path / "inbox").chmod(0o777)
    its = deliver(spool, config)
    assert (0, 1, 1) == (its.sent, its.left, len(its.problems))
    (tmp_path / "inbox").chmod(0o700)
    assert 1 == deliver(spool, config).sent


def test_what_is_no_record_stands_aside(spool: Spool, config: Config, tmp_path: Path) -> None:
    """A file that is no record does not hold up the others, and is kept for a person to look at."""
    (spool.outbox / "1.0.5.record").write_bytes(b"nonsense")
    leave_facts(spool, tag_of(2), "epilog", PROLOG_S)
    finish_ended_runs(spool, config, BOOT)
    its = deliver(spool, config)
    assert (1, 0, 1, [2]) == (its.sent, its.left, len(its.problems), delivered_jobs(tmp_path))
    assert b"nonsense" == (spool.outbox / "1.0.5.rejected").read_bytes()


def test_a_database_takes_the_same_record_twice(spool: Spool, tmp_path: Path) -> None:
    """Handing on the same record twice leaves one result."""
    database = tmp_path / "ofu.db"
    config = config_for(
        tmp_path, delivery_to=f"sqlite://{database}", database=f"sqlite://{database}", database_group=None
    )
    record = noisy_record(2)
    for _ in range(2):
        (spool.outbox / "1.0.5.record").write_bytes(encode(record))
        its = deliver(spool, config)
        assert (1, 0, ()) == (its.sent, its.left, its.problems)


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("dir:///x", DirectoryDelivery),
        ("sqlite:///x/ofu.db", StoreDelivery),
        ("http://localhost:6825", HttpDelivery),
        ("https://localhost:6825", HttpDelivery),
    ],
)
def test_the_configuration_says_where(tmp_path: Path, url: str, kind: type) -> None:
    """[delivery] to names a directory, a database or a collector."""
    assert isinstance(open_delivery(config_for(tmp_path, delivery_to=url)), kind)
