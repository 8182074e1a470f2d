"""ofu-admin mail: shown by default, sent on demand, over a real mail server."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from slurm_ofu.cli.admin import main
from slurm_ofu.store.warned import WarnedReader
from tests.services.mail_server import Post, mail_server
from tests.services.processes import free_ports
from tests.store.databases import make_store
from tests.store.records import START
from tests.wiring.mail_stage import run

SINCE = ("-S", "2025-06-01")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Two users with an idle run each."""
    make_store(tmp_path / "ofu.db").write([run(1, "ada"), run(2, "bob")])
    return tmp_path / "slurm-ofu.toml"


def write(config: Path, place: str = "127.0.0.1:1", more: str = "") -> None:
    """The configuration, with this mail server."""
    config.write_text(
        f'[database]\nurl = "sqlite://{config.parent}/ofu.db"\ngroup = ""\n'
        f'[mail]\nserver = "{place}"\nsender = "ofu@example.org"\ndomain = "example.org"\n'
        f'audits = ["idle"]\n{more}\n'
    )


def mail(config: Path, *arguments: str) -> Result:
    """The command."""
    return CliRunner().invoke(main, ["mail", "--config", str(config), *SINCE, *arguments])


def told(config: Path) -> list[str]:
    """Who was."""
    return [one.user for one in WarnedReader(config.with_name("ofu.db")).told()]


def test_it_is_shown_and_nothing_is_sent(config: Path) -> None:
    """To whom, why, and the text; no server is needed, and nothing is noted."""
    write(config)
    done = mail(config)
    assert 0 == done.exit_code
    for words in ("ada@example.org: idle alpha:1\n", "Subject: Your GPU jobs: 1 thing", "Hello bob,"):
        assert words in done.stdout
    assert done.stdout.endswith("2 mails would be sent: --send sends\n")
    assert [] == told(config)


def test_it_is_sent(config: Path) -> None:
    """To each, once; right after that there is nothing to send, and it says why."""
    with mail_server(post := Post()) as place:
        write(config, place)
        done, again = mail(config, "--send"), mail(config, "--send")
    assert ["ada@example.org", "bob@example.org"] == post.recipients
    assert (0, 0) == (done.exit_code, again.exit_code)
    assert "sent ada@example.org: idle alpha:1\n" in done.stdout
    assert done.stdout.endswith("2 mails sent\n")
    assert "ada: not now: the last mail was 0.0 days ago" in again.stdout
    assert again.stdout.endswith("0 mails sent\n")
    assert ["ada", "bob"] == sorted(told(config))


def test_to_whom_it_is_restricted(config: Path) -> None:
    """--user names them; who had no runs in the window has nothing to be told."""
    write(config)
    done = mail(config, "--user", "bob,carol")
    assert "bob@example.org: idle alpha:2" in done.stdout
    assert "carol: nothing to tell" in done.stdout
    assert "ada" not in done.stdout
    outside = CliRunner().invoke(main, ["mail", "--config", str(config)])
    said = "idle: 0 runs judged, none left out\nnothing would be sent\n"
    assert (0, said) == (outside.exit_code, outside.stdout)


def test_nothing_to_send_says_why(config: Path) -> None:
    """What was judged, and why the rest was not."""
    write(config, more="[audits]\nminimum_seconds = 1e8")
    done = mail(config)
    assert "idle: 0 runs judged; not judged: 2 too short\nnothing would be sent\n" == done.stdout


def test_a_refused_mail_is_exit_code_1(config: Path) -> None:
    """The reason on stderr, the other mail on its way."""
    with mail_server(post := Post(refused={"ada@example.org"})) as place:
        write(config, place)
        done = mail(config, "--send")
    assert (1, ["bob@example.org"]) == (done.exit_code, post.recipients)
    assert "not sent: ada@example.org: refused" in done.stderr
    assert done.stdout.endswith("1 mail sent, 1 not\n")


def test_a_dead_server_is_exit_code_1(config: Path) -> None:
    """Every mail is named that did not go, and none is noted."""
    [port] = free_ports(1)
    write(config, f"127.0.0.1:{port}")
    done = mail(config, "--send")
    assert 1 == done.exit_code
    assert 2 == done.stderr.count("cannot be reached")
    assert [] == told(config)


def test_two_at_once_send_everything_once(config: Path) -> None:
    """Of commands that run at the same time one sends, the others say so (4) or find nothing left to send."""
    with mail_server(post := Post()) as place:
        write(config, place)
        command = [sys.executable, "-c", "from slurm_ofu.cli.admin import main; main()"]
        arguments = ["mail", "--config", str(config), *SINCE, "--send"]
        children = [
            subprocess.Popen(
                [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            for _ in range(4)
        ]
        said = [child.communicate(timeout=240) for child in children]
    assert ["ada@example.org", "bob@example.org"] == sorted(post.recipients)
    assert {0, 4} >= {child.returncode for child in children}
    for child, (_, errors) in zip(children, said, strict=True):
        assert ("another process is sending mail" in errors) == (child.returncode == 4)


@pytest.mark.parametrize(
    ("more", "arguments", "words"),
    [
        ("", ["--admins"], "[mail] admins names nobody"),
        ('admins = ["a@b.org"]', ["--admins", "-u", "ada"], "--admins and --user exclude each other"),
        ('admins = ["a@@b.org"]', ["--admins"], "not one e-mail address"),
        ('reply_to = "nobody in particular"', [], "[mail] reply_to"),
        ('templates_dir = "/nowhere/at/all"', [], "/nowhere/at/all"),
    ],
)
def test_what_cannot_be_used_is_exit_code_1(
    config: Path, more: str, arguments: list[str], words: str
) -> None:
    """The option or the key is named."""
    write(config, more=more)
    done = mail(config, *arguments)
    assert 1 == done.exit_code
    assert words in done.stderr


def test_without_a_database_is_exit_code_4(tmp_path: Path) -> None:
    """Shown or sent."""
    config = tmp_path / "slurm-ofu.toml"
    write(config)
    assert [4, 4] == [mail(config).exit_code, mail(config, "--send").exit_code]


def test_the_window_is_slurms(config: Path) -> None:
    """-S and -E take Slurm's times, runs outside it count for nothing."""
    write(config)
    done = mail(config, "-S", f"uts{int(START) - 7200}", "-E", f"uts{int(START) - 3600}")
    assert (0, "idle: 0 runs judged, none left out\nnothing would be sent\n") == (done.exit_code, done.stdout)
