"""What a run says of itself while it goes on."""

from pathlib import Path

import pytest

from slurm_ofu.delivery.attempts import Attempts
from slurm_ofu.delivery.key_file import add_key
from slurm_ofu.delivery.spool import Spool
from slurm_ofu.errors import DeliveryError, RecordTooNew
from slurm_ofu.records.codec import decode
from slurm_ofu.values import Config, NodeRecord, SigningConfig
from slurm_ofu.wiring.finishing import finish_run
from slurm_ofu.wiring.interims import interim_record, publish_interim
from slurm_ofu.wiring.signing import node_signing
from tests.delivery.listener import Listener
from tests.delivery.receiving_end import ReceivingEnd
from tests.integrals.examples import near
from tests.services.processes import free_ports
from tests.wiring.left_behind import EPOCH_S, PROLOG_S, config_for, leave_checkpoint, leave_facts, tag_of

TAG = tag_of(7)


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    """With a run that has been sampled for 80 s."""
    its = Spool(tmp_path / "spool")
    leave_facts(its, TAG, "prolog", PROLOG_S)
    leave_checkpoint(its, TAG, PROLOG_S + 80)
    return its


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return config_for(tmp_path)


def test_it_is_what_is_known_so_far(spool: Spool, config: Config) -> None:
    """As of the checkpoint, with the same figures as at an end; the sampler has not died."""
    record = interim_record(spool, TAG, config)
    assert record is not None
    assert (True, EPOCH_S + PROLOG_S + 80, 80.0, None) == (
        *(record.interim, record.end_epoch_s, record.allocated_seconds, record.exit_code),
    )
    measured, unmapped = record.gpus
    assert ("ok", near(0.4 * 70), 70.0, 80.0) == (
        *(measured.reason, measured.tensor_ref_seconds, measured.covered_seconds, measured.allocated_seconds),
    )
    assert ("unmapped", 80.0) == (unmapped.reason, unmapped.allocated_seconds)
    assert 160.0 == pytest.approx(sum(row.allocated_seconds for row in record.quarters))


def test_those_who_share_a_gpu_so_far_count(spool: Spool, config: Config) -> None:
    """A GPU that another run holds too counts half."""
    other = tag_of(8, at_s=PROLOG_S + 10)
    leave_facts(spool, other, "prolog", PROLOG_S + 10, {"SLURM_JOB_GPUS": "0"})
    leave_checkpoint(spool, other, PROLOG_S + 80)
    record = interim_record(spool, TAG, config)
    assert record is not None
    assert [("shared", 40.0), ("unmapped", 80.0)] == [
        (gpu.reason, gpu.allocated_seconds) for gpu in record.gpus
    ]


@pytest.mark.parametrize("how", ["epilog", "finished", "no checkpoint", "no prolog"])
def test_there_is_none(spool: Spool, config: Config, how: str) -> None:
    """Of a run that is over, whose final record is on its way; and while nothing is known."""
    if how == "epilog":
        leave_facts(spool, TAG, "epilog", PROLOG_S + 90)
    elif how == "finished":
        finish_run(spool, TAG, config)
    else:
        (spool.state / f"{TAG}.{how.removeprefix('no ')}").unlink()
    assert interim_record(spool, TAG, config) is None
    publish_interim(spool, TAG, config)
    assert [] == list(Path(config.delivery_to.removeprefix("dir://")).iterdir())


def test_the_next_one_takes_its_place(spool: Spool, config: Config) -> None:
    """A collector that takes nothing in for a day has one file for each run, beside its final record."""
    for seconds in (80, 90, 100):
        leave_checkpoint(spool, TAG, PROLOG_S + seconds)
        publish_interim(spool, TAG, config)
    [path] = Path(config.delivery_to.removeprefix("dir://")).iterdir()
    assert EPOCH_S + PROLOG_S + 100 == decode(path.read_bytes()).end_epoch_s
    assert [] == list(spool.outbox.iterdir())


@pytest.fixture
def remote(config: Config, tmp_path: Path) -> Config:
    """Records go to a port where nobody listens."""
    add_key(tmp_path / "key", "one")
    signing = SigningConfig(authentication="key", key_file=str(tmp_path / "key"))
    [port] = free_ports(1)
    return config_for(
        tmp_path, delivery_to=f"http://127.0.0.1:{port}", delivery_signing=signing, delivery_wait_seconds=1.0
    )


def test_no_final_record_waits_for_an_interim_one(spool: Spool, remote: Config) -> None:
    """A collector that is away takes none, nothing of it is kept, and nobody is told to leave it alone."""
    with pytest.raises(DeliveryError):
        publish_interim(spool, TAG, remote)
    assert [] == list(spool.outbox.iterdir())
    assert Attempts(spool.directory / "attempts").due()


def test_a_collector_that_is_left_alone_is_left_alone(spool: Spool, remote: Config, tmp_path: Path) -> None:
    """While final records wait for a collector that did not answer, no interim one is tried."""
    listener = Listener(503)
    try:
        attempts = Attempts(spool.directory / "attempts")
        while attempts.due():  # the pause is drawn at random, and may be over at once
            attempts.failed()
        publish_interim(spool, TAG, config_for(tmp_path, **_changes(remote, listener.url)))
        assert [] == listener.bodies
    finally:
        listener.close()


def test_an_older_collector_refuses_nothing_for_ever(spool: Spool, remote: Config, tmp_path: Path) -> None:
    """One that knows no interim records stores none as a finished run's; upgraded, it takes the next."""

    def older(data: bytes) -> NodeRecord:
        raise RecordTooNew("record format 2 is not known here (this version reads 1)")

    signing = node_signing(remote)
    end = ReceivingEnd(tmp_path / "received", lambda _cluster: signing, decode=older)
    try:
        with pytest.raises(DeliveryError, match="upgrade the collector"):
            publish_interim(spool, TAG, config_for(tmp_path, **_changes(remote, end.url)))
        assert [] == end.files()
    finally:
        end.close()


def _changes(config: Config, url: str) -> dict[str, object]:
    return {"delivery_to": url, "delivery_signing": config.delivery_signing, "delivery_wait_seconds": 1.0}
