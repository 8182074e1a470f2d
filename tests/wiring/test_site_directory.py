"""The directory of the static pages: written in whole files, and only where it is ours."""

import fcntl
import json
import os
import stat
from pathlib import Path

import pytest

from slurm_ofu.errors import UsageError
from slurm_ofu.wiring.site_directory import MARKER, site_directory


def write(path: Path, files: dict[str, str]) -> int:
    """These files, as one run; how many former ones it took away."""
    with site_directory(path) as target:
        target.plan(files)
        for name, text in files.items():
            target.write(name, text.encode())
        return target.finish()


def found(path: Path) -> dict[str, str]:
    """What lies there, without the marker."""
    files = (file for file in path.rglob("*") if file.is_file() and file.name != MARKER)
    return {str(file.relative_to(path)): file.read_text() for file in files}


def test_what_is_no_longer_there_goes(tmp_path: Path) -> None:
    """A later run replaces its files, takes away those of jobs no longer shown, and says how many."""
    site = tmp_path / "site"
    assert 0 == write(site, {"index.html": "1", "jobs/a-1.html": "1", "jobs/a-2.html": "1"})
    assert 1 == write(site, {"index.html": "2", "jobs/a-2.html": "2", "assets/site.css": "2"})
    assert {"index.html": "2", "jobs/a-2.html": "2", "assets/site.css": "2"} == found(site)


def test_the_umask_has_no_say(tmp_path: Path) -> None:
    """Pages are for everybody to read, whoever wrote them with whatever umask."""
    site = tmp_path / "site"
    before = os.umask(0o077)
    try:
        write(site, {"index.html": "1", "jobs/a-1.html": "1"})
    finally:
        os.umask(before)
    modes = {str(file.relative_to(site)): stat.S_IMODE(file.stat().st_mode) for file in site.rglob("*")}
    assert {"index.html": 0o644, "jobs": 0o755, "jobs/a-1.html": 0o644, MARKER: 0o644} == modes
    assert 0o755 == stat.S_IMODE(site.stat().st_mode)


def test_an_empty_directory_keeps_its_own_mode(tmp_path: Path) -> None:
    """Who made the directory says who may look into it."""
    tmp_path.chmod(0o700)
    write(tmp_path, {"index.html": "1"})
    assert 0o700 == stat.S_IMODE(tmp_path.stat().st_mode)


def test_somebody_elses_directory_is_left_alone(tmp_path: Path) -> None:
    """A directory with anything in it that does not bear our mark is not written to."""
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="not empty"):
        write(tmp_path, {"index.html": "1"})
    assert {"thesis.tex": "years of work"} == found(tmp_path)


def test_somebody_elses_file_among_ours_is_left_alone(tmp_path: Path) -> None:
    """A file that we did not write is neither overwritten nor taken away, and nothing else is done either."""
    write(tmp_path, {"index.html": "1"})
    (tmp_path / "users.html").write_text("theirs")
    (tmp_path / "robots.txt").write_text("theirs")
    with pytest.raises(UsageError, match=r"users\.html is not one of our pages"):
        write(tmp_path, {"index.html": "2", "users.html": "2"})
    write(tmp_path, {"index.html": "3"})
    assert {"index.html": "3", "users.html": "theirs", "robots.txt": "theirs"} == found(tmp_path)


@pytest.mark.parametrize("name", ["../outside", "jobs/../../outside", "/etc/outside", "other/x", ".hidden"])
def test_a_forged_mark_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    """What a marker lists outside our own folders is not taken away."""
    outside = tmp_path / "outside"
    outside.write_text("theirs")
    site = tmp_path / "site"
    site.mkdir()
    (site / MARKER).write_text(json.dumps({"files": [name, "gone.html"]}))
    write(site, {"index.html": "1"})
    assert "theirs" == outside.read_text()


def test_symbolic_links_are_not_followed(tmp_path: Path) -> None:
    """A link in the place of a page is replaced, not written through; in that of a folder it stops us."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("theirs")
    site = tmp_path / "site"
    write(site, {"index.html": "1"})
    (site / "index.html").unlink()
    (site / "index.html").symlink_to(outside / "file")
    write(site, {"index.html": "2"})
    (site / "jobs").symlink_to(outside)
    with pytest.raises(UsageError, match="cannot be written"):
        write(site, {"index.html": "3", "jobs/a-1.html": "3"})
    assert {"file": "theirs"} == found(outside)
    assert "2" == (site / "index.html").read_text()


def test_a_run_that_was_killed_leaves_nothing_behind(tmp_path: Path) -> None:
    """What a run had planned is known to the next one, which takes away what it no longer wants, and
    unfinished files, too."""
    with site_directory(tmp_path) as target:
        target.plan(["index.html", "jobs/a-1.html"])
        target.write("jobs/a-1.html", b"1")
    (tmp_path / "jobs" / (".ofu-" + "0" * 16 + ".tmp")).write_text("half")
    write(tmp_path, {"index.html": "2"})
    assert {"index.html": "2"} == found(tmp_path)


def test_two_runs_do_not_meet(tmp_path: Path) -> None:
    """While one run writes another is told so."""
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="another"):
            write(tmp_path, {"index.html": "1"})
    finally:
        os.close(folder)


@pytest.mark.parametrize("text", ["", "[]", '{"files": 7}', "nonsense"])
def test_a_mark_that_is_not_ours_stops_us(tmp_path: Path, text: str) -> None:
    """A marker that we cannot have written makes the directory somebody else's."""
    (tmp_path / MARKER).write_text(text)
    with pytest.raises(UsageError, match="not what we wrote"):
        write(tmp_path, {"index.html": "1"})


@pytest.mark.parametrize("where", ["file", "gone/site"])
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, where: str) -> None:
    """A file in its place, or no directory to make it in, is said with its path."""
    (tmp_path / "file").write_text("theirs")
    with pytest.raises(UsageError, match=where.split("/", maxsplit=1)[0]):
        write(tmp_path / where, {"index.html": "1"})


def test_a_page_that_went_is_no_longer_ours(tmp_path: Path) -> None:
    """A file that somebody puts where a page of ours was, before we took it away, is theirs."""
    write(tmp_path, {"index.html": "1", "users.html": "1"})
    write(tmp_path, {"index.html": "2"})
    (tmp_path / "users.html").write_text("theirs")
    write(tmp_path, {"index.html": "3"})
    assert {"index.html": "3", "users.html": "theirs"} == found(tmp_path)


def test_what_cannot_be_written_is_named_as_its_reader_knows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path stands in the message once, and a page by its own name."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"^no/where: the pages cannot be written"):
        write(Path("no/where"), {"index.html": "1"})
    write(Path("site"), {"index.html": "1"})
    Path("site/index.html").unlink()
    Path("site/index.html").mkdir()
    with pytest.raises(UsageError, match=r"^site/index\.html: the pages cannot be written"):
        write(Path("site"), {"index.html": "2"})
