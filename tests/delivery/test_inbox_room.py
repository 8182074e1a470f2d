"""How full an inbox is."""

import os
from pathlib import Path

from slurm_ofu.delivery import inbox_room
from slurm_ofu.delivery.inbox_room import LOOK_SECONDS, InboxRoom


def filled(folder: Path, *sizes: int) -> Path:
    for number, size in enumerate(sizes):
        (folder / f"{number}.record").write_bytes(b"x" * size)
    (folder / ".half.record.1.2").write_bytes(b"x" * 999)
    (folder / "rejected").mkdir()
    return folder


def test_records_count_and_nothing_else(tmp_path: Path) -> None:
    """What waits is the records; halves of files, what was rejected and other files are not counted."""
    assert (3, 60) == InboxRoom(filled(tmp_path, 10, 20, 30), 100).waiting()


def test_the_limit_holds_for_what_comes(tmp_path: Path) -> None:
    """There is room up to the limit, the message that comes included."""
    room = InboxRoom(filled(tmp_path, 10, 20, 30), 100)
    assert room.problem(40) is None
    assert room.problem(41) is not None


def test_what_was_added_is_known_without_a_look(tmp_path: Path) -> None:
    """Between two looks what was taken is added up, so that many at once do not pass the limit together;
    the next look sees what went."""
    now = [0.0]
    room = InboxRoom(filled(tmp_path, 10), 100, now=lambda: now[0])
    assert room.problem(90) is None
    room.added(2, 50)
    assert (3, 60) == room.waiting()
    assert room.problem(90) is not None
    now[0] += LOOK_SECONDS + 0.1
    assert (1, 10) == room.waiting()


def test_an_inbox_that_is_gone_has_no_room(tmp_path: Path) -> None:
    """A directory that cannot be used has no room, and says why."""
    problem = InboxRoom(tmp_path / "nowhere", 100).problem(0)
    assert problem is not None
    assert "No such file" in problem


def test_the_disk_is_left_to_others(tmp_path: Path) -> None:
    """Where the disk has less than what is left to others, there is no room whatever the limit is."""
    disk = os.statvfs(tmp_path)
    room = InboxRoom(tmp_path, 1 << 62)
    assert room.problem(1000) is None
    assert room.problem(disk.f_blocks * disk.f_frsize) == "the inbox's disk is full"
    assert inbox_room.FREE_BYTES >= 1 << 26


def test_a_look_costs_a_twentieth_of_the_time_at_most() -> None:
    """The longer a look at a full inbox takes, the longer it is good."""
    assert [1.0, 1.0, 6.0] == [inbox_room.good_seconds(took) for took in (0.0, 0.05, 0.3)]
