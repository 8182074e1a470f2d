"""Who is told what by e-mail, sparingly; over a real mail server."""

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timezone
from pathlib import Path
from typing import Any

import pytest

from slurm_ofu.audits.telling import MOST_TOLD
from slurm_ofu.errors import ConfigError, StoreBusy
from slurm_ofu.store.lock import writers_lock
from slurm_ofu.store.warned import WarnedReader
from slurm_ofu.values import Config, NodeRecord, Selection
from slurm_ofu.wiring.mailing import Mail, Mailing, Outcome
from tests.services.mail_server import Post, mail_server
from tests.store.databases import make_store
from tests.store.records import START
from tests.wiring.mail_stage import DAY, NOW, gpu, run, site

ALWAYS = Selection(start_epoch_s=START - DAY, end_epoch_s=START + 400 * DAY)


def mails(config: Config, *names: str, now: float = NOW) -> dict[str, Mail]:
    """What would be sent, by user."""
    mailing = Mailing(config, now_epoch_s=now, zone=timezone.utc)
    return {mail.name: mail for mail in mailing.to_users(ALWAYS, names)}


def send(config: Config, place: str, *, now: float = NOW) -> list[Outcome]:
    """Send what is due."""
    to = replace(config, mail=replace(config.mail, server=place))
    mailing = Mailing(to, now_epoch_s=now, zone=timezone.utc)
    return list(mailing.send(mailing.to_users(ALWAYS)))


def told(config: Config) -> list[tuple[str, str]]:
    """What the calendar says."""
    path = Path(config.database.removeprefix("sqlite://"))
    return sorted((one.user, one.subject) for one in WarnedReader(path).told())


def add(config: Config, *records: NodeRecord) -> None:
    """More runs."""
    make_store(Path(config.database.removeprefix("sqlite://"))).write(list(records))


def why(mail: Mail) -> str:
    """Why somebody gets none."""
    assert mail.letter is None
    return "; ".join(mail.why)


def text(mail: Mail) -> str:
    """What somebody gets."""
    assert mail.letter is not None
    return mail.letter.text


def test_everybody_is_told_of_their_own_alone(tmp_path: Path) -> None:
    """Nobody else's name, account or job stands in a mail, and its total is its reader's."""
    found = mails(site(tmp_path, run(11, "ada"), run(22, "bob"), run(23, "bob")))
    assert ["ada", "bob"] == list(found)
    assert ["ada@example.org", "bob@example.org"] == [str(mail.recipient) for mail in found.values()]
    assert "bob" not in text(found["ada"]) and "22" not in text(found["ada"]).split("All your jobs")[0]
    assert "1 job, 2.0 GPU-hours" in text(found["ada"])
    assert "2 jobs, 4.0 GPU-hours" in text(found["bob"])


@pytest.mark.parametrize(
    ("which", "gpus"),
    [
        ("busy", [gpu(0, idle=False), gpu(1, idle=False)]),
        ("not measured", [gpu(0, measured=False, reason="no_source")]),
        ("measured in part", [gpu(0), gpu(1, measured=False, reason="sampler_died")]),
        ("suspect", [gpu(0, reason="suspect"), gpu(1, reason="suspect")]),
        ("suspect in part", [gpu(0), gpu(1, reason="suspect")]),
        ("shared with others", [gpu(0, reason="shared")]),
    ],
)
def test_nobody_is_told_of_what_is_not_known(tmp_path: Path, which: str, gpus: Sequence[Any]) -> None:
    """Without an entry there is no mail, and a figure that is missing or doubtful makes no entry."""
    config = site(tmp_path, run(1, "ada", *gpus))
    assert (which, {}) == (which, mails(config))
    assert "nothing to tell" == why(mails(config, "ada")["ada"])


def test_a_run_is_told_once(tmp_path: Path) -> None:
    """One that left two of three GPUs unused was idle for most of its time, which is the same thing."""
    config = site(tmp_path, run(1, "ada", gpu(0), gpu(1), gpu(2, idle=False)))
    assert ("unused alpha:1",) == mails(config)["ada"].why


def test_a_name_that_is_no_address(tmp_path: Path) -> None:
    """Such a user is named, and gets nothing."""
    config = site(tmp_path, run(1, "eve@elsewhere.org"))
    assert "no address can be made of this name" == why(mails(config)["eve@elsewhere.org"])


def test_only_those_who_are_named(tmp_path: Path) -> None:
    """With names nobody else is told; one that nothing is known of gets nothing."""
    found = mails(site(tmp_path, run(1, "ada"), run(2, "bob")), "bob", "nobody")
    assert {"bob": True, "nobody": False} == {name: mail.letter is not None for name, mail in found.items()}


def test_a_long_list_is_cut(tmp_path: Path) -> None:
    """The most at stake come first; the others are not noted, and come another time."""
    records = [run(job_id, "ada") for job_id in range(1, MOST_TOLD + 4)]
    config = site(tmp_path, *records)
    mail = mails(config)["ada"]
    assert (MOST_TOLD, MOST_TOLD) == (len(mail.why), len(mail.told))
    assert "There is more (3)" in text(mail)
    with mail_server(Post()) as place:
        send(config, place)
    assert 3 == len(mails(config, now=NOW + 8 * DAY)["ada"].why)


def test_the_calendar_is_kept(tmp_path: Path) -> None:
    """At most one mail in days_between, and nothing again within again_days."""
    config = site(tmp_path, run(1, "ada"), days_between=7.0, again_days=28.0)
    with mail_server(post := Post()) as place:
        send(config, place)
        assert "the last mail was 6.9 days ago" in why(mails(config, now=NOW + 6.9 * DAY)["ada"])
        assert "nothing new: all 1 were told before" == why(mails(config, now=NOW + 7.1 * DAY)["ada"])
        add(config, run(2, "ada", days_later=3))
        assert "not now" in why(mails(config, now=NOW + 6.9 * DAY)["ada"])
        assert ("idle alpha:2",) == mails(config, now=NOW + 7.1 * DAY)["ada"].why
        send(config, place, now=NOW + 7.1 * DAY)
        assert ("idle alpha:1",) == mails(config, now=NOW + 28.1 * DAY)["ada"].why
    assert ["ada@example.org"] * 2 == post.recipients
    assert [("ada", "alpha:1"), ("ada", "alpha:2")] == told(config)


def test_what_arrives_is_what_was_shown(tmp_path: Path) -> None:
    """From, To and text; an answer goes to reply_to."""
    config = site(tmp_path, run(1, "ada"), reply_to="Hilfe für GPUs <hpc@example.org>")
    shown = text(mails(config)["ada"])
    with mail_server(post := Post()) as place:
        assert [None] == [outcome.problem for outcome in send(config, place)]
    [(sender, recipients, message)] = post.received
    plain = message.get_body(("plain",))
    assert plain is not None
    assert ("ofu@example.org", ["ada@example.org"]) == (sender, recipients)
    assert shown == str(plain.get_content()).replace("\r\n", "\n")
    assert ("OFU <ofu@example.org>", "Hilfe für GPUs <hpc@example.org>") == (
        message["From"],
        message["Reply-To"],
    )


def test_one_refused_mail_holds_up_no_other(tmp_path: Path) -> None:
    """The others go and are noted; the refused one is due as before."""
    config = site(tmp_path, run(1, "ada"), run(2, "bob"), run(3, "carol"))
    with mail_server(post := Post(refused={"bob@example.org"})) as place:
        problems = {outcome.mail.name: outcome.problem for outcome in send(config, place)}
    assert ["ada@example.org", "carol@example.org"] == post.recipients
    assert "550 5.1.1 no such user here" in (problems.pop("bob") or "")
    assert {"ada": None, "carol": None} == problems
    assert [("ada", "alpha:1"), ("carol", "alpha:3")] == told(config)
    assert mails(config)["bob"].letter is not None


def test_a_mail_whose_answer_got_lost_is_not_noted(tmp_path: Path) -> None:
    """The server hung up in its middle: nobody knows, so it is due again; the next one goes."""
    config = site(tmp_path, run(1, "ada"), run(2, "bob"))
    with mail_server(post := Post(hangs_up_on={"ada@example.org"})) as place:
        outcomes = send(config, place)
    assert [True, False] == [outcome.problem is not None for outcome in outcomes]
    assert ["bob@example.org"] == post.recipients
    assert [("bob", "alpha:2")] == told(config)


def test_a_dead_server_is_not_asked_for_every_mail(tmp_path: Path) -> None:
    """Twice, then the rest waits for another time; nothing is noted."""
    config = site(tmp_path, *(run(job_id, f"user{job_id}") for job_id in range(1, 6)))
    with mail_server(Post()) as place:
        pass
    problems = [outcome.problem or "" for outcome in send(config, place)]
    assert ["reached", "reached", "tried", "tried", "tried"] == [
        next(word for word in ("reached", "tried") if word in problem) for problem in problems
    ]
    assert [] == told(config)


def test_without_a_sender_nothing_is_sent(tmp_path: Path) -> None:
    """It is shown all the same, and sending says which key is missing."""
    config = site(tmp_path, run(1, "ada"), sender="")
    assert mails(config)["ada"].letter is not None
    with mail_server(post := Post()) as place, pytest.raises(ConfigError, match=r"\[mail\] sender"):
        send(config, place)
    assert [] == post.received


def test_what_cannot_be_noted_is_not_sent(tmp_path: Path) -> None:
    """Where the database does not let us write, nobody gets a mail that would come again and again."""
    config = replace(site(tmp_path, run(1, "ada")), delivery_wait_seconds=0.2)
    path = Path(config.database.removeprefix("sqlite://"))
    with mail_server(post := Post()) as place, writers_lock(path, time.monotonic()), pytest.raises(StoreBusy):
        send(config, place)
    assert [] == post.received


@pytest.mark.parametrize("name", ["hardware", "coverage", "idel"])
def test_audits_that_are_no_users(tmp_path: Path, name: str) -> None:
    """Which there are is said."""
    with pytest.raises(ConfigError, match=rf"\[mail\] audits: '{name}'.*waste, idle"):
        mails(site(tmp_path, audits=(name,)))


def test_a_site_has_templates_of_its_own(tmp_path: Path) -> None:
    """By name; what it does not have is ours, and it may have files that only its own include."""
    folder = tmp_path / "mail"
    folder.mkdir()
    (folder / "user.txt.jinja").write_text("Moin {{ user }}!\n{% include 'foot.txt.jinja' %}")
    (folder / "foot.txt.jinja").write_text("Dein HPC-Team")
    found = mails(site(tmp_path, run(1, "ada"), templates_dir=str(folder)))["ada"]
    assert "Moin ada!\nDein HPC-Team\n" == text(found)
    assert found.letter is not None and "Hello ada" in found.letter.html


def test_a_broken_template_is_said(tmp_path: Path) -> None:
    """File and line, before anything is sent."""
    folder = tmp_path / "mail"
    folder.mkdir()
    (folder / "user.html.jinja").write_text("<p>\n{{ usr }}")
    config = site(tmp_path, run(1, "ada"), templates_dir=str(folder))
    with pytest.raises(ConfigError, match=rf"{folder}/user\.html\.jinja:2: .*'usr' is undefined"):
        mails(config)
    with pytest.raises(ConfigError, match="there is no such directory"):
        mails(site(tmp_path, templates_dir=str(folder / "none")))


def test_admins_get_everything(tmp_path: Path) -> None:
    """Each of them, everybody's entries, whatever the calendar says; a name without @ gets the domain."""
    config = site(tmp_path, run(1, "ada"), run(2, "bob"), admins=("root", "Ops <ops@example.org>"))
    mailing = Mailing(config, now_epoch_s=NOW, zone=timezone.utc)
    found = mailing.to_admins(ALWAYS)
    assert ["root@example.org", "Ops <ops@example.org>"] == [str(mail.recipient) for mail in found]
    assert all("ada" in text(mail) and "bob" in text(mail) and not mail.told for mail in found)
    assert "Audit idle" in text(found[0])
