"""What DcgmSource makes of trouble: fields, locks, engines and lines that are not as they should be."""

import os
import signal
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from slurm_ofu.counters.dcgm_child import ask, failure_of
from slurm_ofu.counters.dcgm_rows import Entity
from slurm_ofu.counters.dcgm_watch import Watch
from slurm_ofu.errors import SourceError
from tests.counters.dcgm_stage import (
    DELAY_S,
    PATIENT_S,
    STEADY,
    TWO,
    Opener,
    by_uuid,
    dmons,
    lives,
    measured,
    opened,
    option,
    until,
)
from tests.standins.dcgmi_standin import Card, Scenario, install

__all__ = ["opened"]


@pytest.mark.parametrize(
    ("unsupported", "fields"),
    [((1005,), "1004,100,1002"), ((1002,), "1004,100"), ((203, 1002), "1004,100")],
)
def test_one_field_cannot_kill_the_rest(
    tmp_path: Path, opened: Opener, unsupported: tuple[int, ...], fields: str
) -> None:
    """Where a field cannot be watched fewer are, until it works; after a restart the set is known."""
    installed = install(tmp_path, replace(TWO, unsupported=unsupported))
    source = opened()
    assert 0.5 == until(source, "GPU-a", measured).tensor_active_ratio
    assert fields == option(dmons(installed)[-1], "-e")
    before = len(dmons(installed))
    os.kill(dmons(installed)[-1]["pid"], signal.SIGKILL)
    until(source, "GPU-a", lambda reading: reading.fault is not None)
    until(source, "GPU-a", measured)
    assert [fields] == [option(call, "-e") for call in dmons(installed)[before:]]


def test_a_set_that_worked_stays(tmp_path: Path, opened: Opener) -> None:
    """A host engine that comes up without its profiling module is lost, and the fields are not given up."""
    installed = install(tmp_path, TWO)
    source = opened()
    until(source, "GPU-a", measured)
    installed.play(unsupported=(1005,))
    os.kill(dmons(installed)[-1]["pid"], signal.SIGKILL)
    until(source, "GPU-a", lambda _: source.watch.trouble == "fields")
    assert "source_lost" == source.read(by_uuid(source, "GPU-a")).fault
    installed.play(unsupported=())
    assert 0.75 == until(source, "GPU-a", measured).sm_active_ratio
    assert {"1004,100,1002,1005,203,155"} == {option(call, "-e") for call in dmons(installed)}


def test_without_tensor_activity_there_is_no_source(tmp_path: Path, opened: Opener) -> None:
    """Where 1004 itself cannot be watched the GPU has no source, whatever else answers."""
    install(tmp_path, replace(TWO, unsupported=(1004,)))
    source = opened()
    assert "no_source" == until(source, "GPU-a", lambda reading: reading.fault is not None).fault
    with pytest.raises(SourceError, match="Feature not supported") as caught:
        source.probe(by_uuid(source, "GPU-a"))
    assert "no_source" == caught.value.reason


def test_a_v100_is_asked_for_no_sm_activity(tmp_path: Path, opened: Opener) -> None:
    """It cannot count both at once, and DCGM would take turns."""
    card = Card(number=0, uuid="GPU-v", segments=STEADY, name="Tesla V100-SXM2-16GB")
    installed = install(tmp_path, Scenario(cards=(card,)))
    assert until(opened(), "GPU-v", measured).sm_active_ratio is None
    assert ["1004,100"] == [option(call, "-e") for call in dmons(installed)]


@pytest.mark.parametrize("version", [2, 3])
def test_a_profiling_lock_is_waited_out(tmp_path: Path, opened: Opener, version: int) -> None:
    """While somebody else holds the profiling hardware the reason is that, and it is tried again."""
    installed = install(tmp_path, replace(TWO, version=version, locked=True))
    source = opened()
    source.watch.locked_back_off_seconds = 0.5
    first = until(source, "GPU-a", lambda reading: reading.fault is not None)
    assert ("profiling_locked", None) == (first.fault, first.tensor_active_ratio)
    assert "unrecoverable error" in (source.choice(by_uuid(source, "GPU-a")).note or "")
    with pytest.raises(SourceError) as caught:
        source.probe(by_uuid(source, "GPU-a"))
    assert "profiling_locked" == caught.value.reason
    until(source, "GPU-a", lambda _: len(dmons(installed)) >= 3)
    installed.play(locked=False)
    assert 0.5 == until(source, "GPU-a", measured).tensor_active_ratio
    assert source.choice(by_uuid(source, "GPU-a")).note is None
    source.probe(by_uuid(source, "GPU-a"))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"paused": True}, "profiling_locked"),
        ({"engine": "dies", "locked": True}, "source_lost"),
        ({"stalled": True}, "source_lost"),
        ({"blank": "140737488355328.000000", "paused": True}, "profiling_locked"),
        ({"values": {"1004": "1.74"}}, "source_lost"),
        ({"values": {"1004": "43.21"}}, "source_lost"),
        ({"values": {"100": "N/A", "1004": "N/A", "1002": "N/A"}}, "profiling_locked"),
    ],
)
def test_nothing_is_invented_in_the_middle(
    tmp_path: Path, opened: Opener, change: dict[str, Any], reason: str
) -> None:
    """Once figures stop there are none, with the reason; when they come again no gap is counted."""
    installed = install(tmp_path, TWO)
    source = opened()
    until(source, "GPU-a", measured)
    installed.play(**change)
    last = until(source, "GPU-a", lambda reading: reading.fault is not None)
    assert (reason, None, None) == (last.fault, last.tensor_active_ratio, last.sm_active_ratio)
    lost_ns = last.taken_ns
    installed.play(**{name: getattr(TWO, name) for name in change})
    again = until(source, "GPU-a", measured)
    assert again.since_ns is not None
    assert 0.5 == again.tensor_active_ratio
    assert again.since_ns >= lost_ns - DELAY_S * 1e9


def test_a_lock_in_the_middle_shows_when_dmon_is_started_again(tmp_path: Path, opened: Opener) -> None:
    """A host engine that restarts into somebody else's lock: first it is lost, then locked."""
    installed = install(tmp_path, TWO)
    source = opened()
    until(source, "GPU-a", measured)
    installed.play(engine="dies")
    until(source, "GPU-a", lambda reading: reading.fault == "source_lost")
    installed.play(engine="up", locked=True)
    until(source, "GPU-a", lambda reading: reading.fault == "profiling_locked")


def test_a_restarted_engine_is_found_again(tmp_path: Path, opened: Opener) -> None:
    """No engine any more is a loss, not the end."""
    installed = install(tmp_path, TWO)
    source = opened()
    until(source, "GPU-a", measured)
    installed.play(engine="dies")
    until(source, "GPU-a", lambda reading: reading.fault == "source_lost")
    installed.play(engine="down")
    time.sleep(1.5)
    installed.play(engine="up")
    assert 0.5 == until(source, "GPU-a", measured).tensor_active_ratio


def test_an_engine_that_numbers_its_gpus_anew(tmp_path: Path, opened: Opener) -> None:
    """Numbers are the host engine's own: after a restart each GPU has its own figures, whatever its number is
    now, and one that is gone has none."""
    a, b = TWO.cards
    installed = install(tmp_path, TWO)
    source = opened()
    until(source, "GPU-a", measured)
    until(source, "GPU-b", measured)
    installed.play(engine="dies")
    until(source, "GPU-a", lambda reading: reading.fault == "source_lost")
    installed.play(engine="up", cards=(replace(a, number=b.number), replace(b, number=a.number)))
    assert 0.5 == until(source, "GPU-a", measured).tensor_active_ratio
    assert 0.0 == until(source, "GPU-b", measured).tensor_active_ratio
    installed.play(engine="dies")
    until(source, "GPU-a", lambda reading: reading.fault == "source_lost")
    installed.play(engine="up", cards=(replace(a, number=0),))
    assert 0.5 == until(source, "GPU-a", measured).tensor_active_ratio
    assert "source_lost" == source.read(by_uuid(source, "GPU-b")).fault


LOCKED = "The third-party Profiling module returned an unrecoverable error"
ENDS = [1, 2, 4, 8, 16, 32, 64, 128, 240, 240, 240]
IS_LOCKED = [60, 120, 240, 480, 960, 960]


@pytest.mark.parametrize(("said", "expected"), [("", ENDS), (LOCKED, IS_LOCKED)])
def test_retries_take_ever_longer(tmp_path: Path, said: str, expected: list[int]) -> None:
    """A child that keeps ending is started after 1, 2, 4 … seconds, and at least every 240; where somebody
    else has the hardware, after minutes, so that their next run finds it free."""
    program = tmp_path / "dcgmi"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    program.chmod(0o755)
    now = [0]
    watch = Watch(command=lambda subsystem: [str(program)], delay_seconds=1.0, now_ns=lambda: now[0])
    watch.want([Entity(kind="GPU", number=0)])
    starts: list[float] = []
    for _ in range(len(expected) + 1):
        count = watch.start_count
        while watch.start_count == count:
            now[0] += 10**9
            watch.look()
        starts.append(now[0] / 1e9)
        deadline = time.monotonic() + PATIENT_S
        while watch.trouble is None or watch._child is not None:
            watch.look()
            assert time.monotonic() < deadline
    waits = [round(later - sooner) for sooner, later in pairwise(starts)]
    assert expected == waits


def test_smaller_sets_are_tried_at_once(tmp_path: Path) -> None:
    """That a field cannot be watched is no reason to wait; that none can, is."""
    program = tmp_path / "dcgmi"
    program.write_text(
        "#!/bin/sh\necho 'Error setting watches. Result: -6: Feature not supported' >&2\nexit 250\n"
    )
    program.chmod(0o755)
    watch = Watch(command=lambda subsystem: [str(program)], delay_seconds=1.0, now_ns=lambda: 0)
    watch.want([Entity(kind="GPU", number=0)])
    deadline = time.monotonic() + PATIENT_S
    while watch.start_count < 3 or watch.trouble is None or watch._child is not None:
        watch.look()
        assert time.monotonic() < deadline
    for _ in range(20):
        watch.look()
    assert (3, "fields") == (watch.start_count, watch.trouble)


def test_blanks_in_between_cost_their_own_time(tmp_path: Path, opened: Opener) -> None:
    """Every other row blank: figures are those of the others, over half of the time."""
    install(tmp_path, replace(TWO, every_other_blank=True))
    source = opened()
    first = until(source, "GPU-a", measured)
    covered = 0
    reading = first
    while reading.taken_ns < first.taken_ns + 3 * 10**9:
        time.sleep(0.5)
        reading = until(source, "GPU-a", lambda one: measured(one) or (one.since_ns is None))
        if measured(reading):
            assert reading.since_ns is not None
            assert 0.5 == reading.tensor_active_ratio
            covered += reading.taken_ns - reading.since_ns
    assert covered <= 0.75 * (reading.taken_ns - first.taken_ns)


def test_other_lines_are_no_rows(tmp_path: Path, opened: Opener) -> None:
    """Sentences, other entities, binary rubbish and endless lines between the rows change nothing."""
    noise = (
        "GPU 4 LINK 3  0.9  9999",
        "GPU-CI 4  0.9 9999 0.9 0.9 9 9",
        "GPU 99    0.9          9999         0.9          0.9          9            9",
        "Warning: something",
        "\udcff\x00\x01",
        "x" * 100_000,
        "GPU 4 was lost",
    )
    printable = tuple(line.encode("utf-8", "surrogateescape").decode("latin-1") for line in noise)
    install(tmp_path, replace(TWO, noise=printable))
    source = opened()
    for _ in range(3):
        assert 0.5 == until(source, "GPU-a", measured).tensor_active_ratio


def test_a_read_never_waits(tmp_path: Path, opened: Opener) -> None:
    """A dmon that prints nothing holds up nobody."""
    install(tmp_path, replace(TWO, stalled=True))
    source = opened()
    started = time.monotonic()
    first = source.read(by_uuid(source, "GPU-a"))
    assert (True, None) == (first.waiting, first.fault)
    for _ in range(20):
        source.read(by_uuid(source, "GPU-a"))
        source.sm_clock_mhz(by_uuid(source, "GPU-a"))
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("engine", "match"),
    [("down", "host engine.*is nvidia-dcgm running"), ("missing", "does .sampler. dcgmi name its program")],
)
def test_without_an_engine_there_is_no_source(
    tmp_path: Path, opened: Opener, engine: str, match: str
) -> None:
    """No DCGM, or no host engine: said with what to do, and none is started."""
    installed = install(tmp_path, replace(TWO, engine=engine))
    if engine == "missing":
        installed.program.unlink()
    with pytest.raises(SourceError, match=match) as caught:
        opened()
    assert "no_source" == caught.value.reason


def test_no_gpus_are_no_source(tmp_path: Path, opened: Opener) -> None:
    """A host engine without GPUs."""
    install(tmp_path, Scenario(cards=()))
    with pytest.raises(SourceError, match="lists no GPU"):
        opened()


def test_a_question_without_an_answer_is_given_up(tmp_path: Path) -> None:
    """A host engine that hangs holds up nobody for ever, and the asker leaves nothing behind."""
    installed = install(tmp_path, replace(TWO, engine="hung"))
    with pytest.raises(TimeoutError):
        ask([str(installed.program), "discovery", "-l"], 2.0)
    assert not any(lives(call["pid"]) for call in installed.calls())


WATCHES = "Error setting watches. Result: "


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (f"{WATCHES}-37: {LOCKED}", "locked"),
        (f"{WATCHES}{LOCKED}", "locked"),
        (f"{WATCHES}-6: Feature not supported", "fields"),
        (f"{WATCHES}-33: This request is serviced by a module that is not currently loaded", "fields"),
        (f"{WATCHES}-38: The requested profiling metrics cannot be collected in a single pass", "fields"),
        ("Error: Got invalid field ID. '1094'. See dcgm_fields.h for a list of valid field IDs.", "fields"),
        ("Error: unable to establish a connection to the specified host: localhost", "no_engine"),
        ("Error: Got error -1 Bad parameter while adding GPU 9 to our entity group.", "entity"),
        ("", "ended"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "ended"),
    ],
)
def test_what_dcgm_says_has_a_meaning(words: str, expected: str) -> None:
    """The words of DCGM 2, 3 and 4."""
    assert expected == failure_of(words)
