"""Digests as e-mails, whatever their jobs and users are called."""

from dataclasses import replace
from datetime import datetime, timezone
from email import message_from_bytes
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import default
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slurm_ofu
from slurm_ofu.errors import ConfigError
from slurm_ofu.reports.as_mail import (
    TEMPLATE_ENDING,
    TEMPLATE_NAMES,
    TEXT_WIDTH,
    AdminsDigest,
    Letter,
    UserDigest,
    admins_letter,
    as_message,
    checked_address,
    user_address,
    user_letter,
)
from slurm_ofu.reports.free_text import cell_width
from slurm_ofu.reports.mail_templates import MailTemplates, TemplateText
from slurm_ofu.reports.question import Question
from slurm_ofu.values import AuditEntry, MailConfig, RunRow, Selection
from tests.figures.examples import measured, unmeasured

FOLDER = Path(slurm_ofu.__file__).parent / "templates/mail"
OURS = MailTemplates(
    {
        f"{name}{TEMPLATE_ENDING}": TemplateText(
            file=f"{name}{TEMPLATE_ENDING}", text=(FOLDER / f"{name}{TEMPLATE_ENDING}").read_text()
        )
        for name in TEMPLATE_NAMES
    }
)
SETTINGS = MailConfig(
    sender="ofu@example.org", help_url="https://example.org/ofu?a=1&b=2", reply_to="hpc@x.org"
)
QUESTION = Question(
    selection=Selection(start_epoch_s=1_794_787_200.0, end_epoch_s=1_795_392_000.0),
    by="user",
    zone=timezone.utc,
)
VOID = {"meta", "br"}
HEADERS = (
    *("Subject", "From", "To", "Reply-To", "Date", "Message-ID", "Auto-Submitted"),
    *("MIME-Version", "Content-Type"),
)


def entry(name: str = "train", *, user: str = "ada", kind: str = "ended", audit: Any = "idle") -> AuditEntry:
    """A run that was idle for an hour."""
    run = RunRow(
        run_id=1,
        cluster="alpha",
        job_id=4711,
        restart_count=0,
        sluid=None,
        user=user,
        account="physics",
        partition="gpu",
        job_name=name,
        state="COMPLETED",
        node_list="n1",
        node_count=1,
        comment=None,
        exit_code="0:0",
        start_epoch_s=1_794_800_000.0,
        end_epoch_s=1_794_803_600.0,
    )
    return AuditEntry(
        audit=audit,
        kind=kind,
        subject="4711",
        weight_gpu_hours=1.0,
        figures={
            "idle_gpu_hours": 0.9,
            "idle_judged_gpu_hours": 1.0,
            "idle_ratio": 0.9,
            "gpu_count": 1.0,
            "gpu_hours": 1.0,
            "ofu_ratio": 0.0,
            "runtime_seconds": 3600.0,
        },
        user=user,
        account="physics",
        partition="gpu",
        runs=(run,),
    )


def digest(*entries: AuditEntry, user: str = "ada", **changes: Any) -> UserDigest:
    """What a user is told of a measured run."""
    values: dict[str, Any] = {"user": user, "question": QUESTION, "total": measured(), "entries": entries}
    return UserDigest(**{**values, **changes})


def letter(*entries: AuditEntry, **changes: Any) -> Letter:
    """The same as a mail."""
    return user_letter(digest(*entries, **changes), OURS, SETTINGS)


def sent(its: Letter, recipient: Address | None = None) -> EmailMessage:
    """What somebody reads who gets it."""
    data = as_message(
        its,
        sender=Address(display_name="Überblick", username="ofu", domain="example.org"),
        recipient=recipient or Address(username="ada", domain="example.org"),
        reply_to=Address(username="hpc", domain="x.org"),
        sent=datetime(2026, 11, 30, 12, tzinfo=timezone.utc),
        message_id="<1@example.org>",
    )
    assert data.isascii()
    assert max(len(line) for line in data.split(b"\r\n")) <= 78
    return message_from_bytes(data, policy=default)


class Document(HTMLParser):
    """What is in an HTML document; raises where an element is closed that is not open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: dict[str, list[str | None]] = {}
        self.text = ""
        self.feed(text)
        self.close()
        assert [] == self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, []).append(value)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_mail_says_what_how_much_and_what_to_do() -> None:
    """What was found, one thing to try, the total with error and coverage, how to look, whom to ask."""
    its = letter(entry())
    assert "Your GPU jobs: 1 thing worth a look" == its.subject
    for words in (
        "Hello ada,",
        "1. job 4711, partition gpu, train: 0.900 of 1.0 GPU-hours idle (90 %)",
        "To try: let a job end when its work is done",
        "1 job, 16.0 GPU-hours: 16.0 measured, 0.0 not measured",
        "OFU 40.0 % ±0.2, coverage 100 %",
        "ofu-report -j 4711",
        "ofu-report -S 2026-11-16",
        "Help: https://example.org/ofu?a=1&b=2",
        "Write to hpc@x.org.",
        "at most one such mail in 7 days",
    ):
        assert words in its.text


def test_a_job_that_never_used_its_gpus_is_told_to_look_for_them() -> None:
    """To let it end when its work is done would be no advice."""
    its = entry()
    assert "nvidia-smi" in letter(replace(its, figures={**its.figures, "idle_ratio": 1.0})).text


def test_html_says_the_same() -> None:
    """Every figure and every piece of advice of the plain text stands in the HTML as well."""
    its = letter(entry(), more_count=3, recoveries=[entry("better", kind="recovery")])
    shown = " ".join(Document(its.html).text.split())
    for words in (
        "Hello ada,",
        "0.900 of 1.0 GPU-hours idle (90 %)",
        "To try: let a job end when its work is done",
        "There is more (3)",
        "Better than before",
        "GPU-hours measured 16.0",
        "GPU-hours not measured 0.0",
        "OFU 40.0 % ±0.2",
        "Coverage 100 %",
        "ofu-report -j 4711",
        "hpc@x.org",
    ):
        assert words in shown
        if not words.startswith(("GPU-hours", "Coverage")):
            assert words in " ".join(its.text.split())


def test_a_total_that_was_not_measured_is_not_zero() -> None:
    """Of jobs without a figure the mail says so, and why."""
    text = letter(entry(), total=unmeasured()).text
    assert "0.0 measured, 16.0 not measured" in text
    assert "OFU n/a (no_source)" in text


def test_html_needs_nothing_from_elsewhere() -> None:
    """No script, no picture, no style sheet: one link, to the site's own help."""
    document = Document(letter(entry()).html)
    assert set() == document.tags & {"script", "img", "link", "iframe", "form", "object", "svg"}
    assert {"href": ["https://example.org/ofu?a=1&b=2"]} == {
        name: values for name, values in document.attributes.items() if name in ("href", "src", "onclick")
    }
    assert "en" in document.attributes["lang"]


def test_without_an_address_to_ask_nobody_is_named() -> None:
    """Where the site gives neither an address nor a page, a mail sends its reader to nobody."""
    its = user_letter(digest(entry()), OURS, MailConfig())
    for text in (its.text, its.html):
        assert "Questions" not in text
        assert "Help:" not in text


def waste(**changes: Any) -> AuditEntry:
    """What ada lost, the smaller of two users."""
    figures = {
        "lost_gpu_hours": 0.9,
        "ofu_ratio": 0.021,
        "goal_ratio": 0.4,
        "gpu_hours_rank": 2,
        "of_user_count": 2,
        "gpu_hours": 1.0,
        "run_count": 1,
        **changes,
    }
    return replace(entry(audit="waste", kind="user"), subject="ada", figures=figures)


def test_nobody_is_told_who_they_are() -> None:
    """A mail speaks to its reader: neither the reader's name nor account stands in an entry, nor a rank that
    says nothing."""
    drop = replace(
        entry(audit="regressions", kind="drop"), subject="train", figures={"factor": 2.0, "gpu_count": 8.0}
    )
    text = letter(waste(), entry(), drop).text
    assert "1. 0.900 GPU-hours lost, OFU 2.1 %, goal 40 %\n" in text
    assert "   1.0 GPU-hours in 1 run judged\n" in text
    assert "3. train, partition gpu, 8 × unknown: OFU down by a factor of 2.0" in " ".join(text.split())
    assert 1 == text.count("ada")
    assert "physics" not in text
    first = letter(waste(gpu_hours_rank=1, of_user_count=4)).text
    assert "   most GPU-hours of 4 users; 1.0 GPU-hours in 1 run judged\n" in first


def test_a_page_is_named_that_says_something() -> None:
    """The first job that was long enough to be judged; where none was, what to do for one that is."""
    its = waste()
    longer = replace(its.runs[0], job_id=4712, end_epoch_s=1_794_814_400.0)
    its = replace(its, runs=(*its.runs, longer))
    for seconds, job in ((3600.0, "4711"), (3601.0, "4712")):
        assert f"ofu-report -j {job})" in letter(its, short_seconds=seconds).text.partition("To try:")[2]
    assert "To try: let a job run for 10.0 h at least" in letter(its, short_seconds=36_000.0).text


def test_work_without_tensor_cores_is_no_fault() -> None:
    """Where such jobs are in the total, that is said, and that nothing is wrong with it."""
    its = letter(entry(), total=replace(measured(), non_tensor_run_count=1))
    for text in (its.text, Document(its.html).text):
        assert "nothing is wrong with that" in " ".join(text.split())
    assert "nothing is wrong with that" not in letter(entry()).text


def test_a_number_and_its_per_cent_sign_stay_together() -> None:
    """No line of a mail begins with a per cent sign, however long the names are."""
    for length in range(40):
        text = letter(entry("x" * length)).text
        assert not any(line.strip().startswith("%") for line in text.splitlines())


def test_a_message_is_plain_text_first() -> None:
    """multipart/alternative: plain text, then HTML, both as they were made, and no vacation notice back."""
    its = letter(entry("Übung 測試"))
    message = sent(its)
    plain, html = (cast(EmailMessage, part) for part in message.iter_parts())
    assert "multipart/alternative" == message.get_content_type()
    assert (its.text, its.html) == (_content(plain), _content(html))
    assert ("text/plain", "text/html") == (plain.get_content_type(), html.get_content_type())
    assert "auto-generated" == message["Auto-Submitted"]


def _content(part: EmailMessage) -> str:
    return str(part.get_content()).replace("\r\n", "\n")


HOSTILE = (
    "x\r\nBcc: eve@example.org",
    "x\n\n<script>alert(1)</script>",
    "</pre></body><img src=http://eve.example/p.png>",
    "{{ 7 * 7 }}{% raw %}",
    "\x1b[31mred\x1b[0m\x00\u202eevil",
    "測試" * 200,
    "a" * 5000,
    ".\r\n.\r\nQUIT",
    '" onmouseover="alert(1)',
)


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_a_name_is_only_a_name(name: str) -> None:
    """It adds no header, no element, no attribute, no control character, and no long line."""
    _check_is_harmless(name)


@pytest.mark.property
@settings(max_examples=60, deadline=None)
@given(name=st.text(max_size=200))
def test_any_name_is_only_a_name(name: str) -> None:
    """The same of whatever can be made of characters."""
    _check_is_harmless(name)


def _check_is_harmless(name: str) -> None:
    its = letter(entry(name, user=name), user=name)
    usual = Document(letter(entry()).html)
    lines = its.text.split("\n")
    assert TEXT_WIDTH >= max(cell_width(line) for line in lines)
    assert all(line.isprintable() for line in (*lines, its.subject))
    document = Document(its.html)
    assert (usual.tags, set(usual.attributes)) == (document.tags, set(document.attributes))
    message = sent(its)
    assert sorted(HEADERS) == sorted(message.keys())
    assert its.text == _content(cast(EmailMessage, next(message.iter_parts())))


def test_a_subject_is_one_short_line() -> None:
    """A site's template may make it of anything: it neither ends the header nor fills the screen."""
    names = {f"{name}{TEMPLATE_ENDING}": TemplateText(file=name, text="x") for name in TEMPLATE_NAMES}
    names["user-subject.txt.jinja"] = TemplateText(file="s", text="{{ user }}\nBcc: eve@x.org " + "ö" * 500)
    its = user_letter(digest(entry()), MailTemplates(names), SETTINGS)
    message = sent(its)
    assert message["Bcc"] is None
    assert its.subject == message["Subject"]
    assert 120 == len(its.subject)


@pytest.mark.parametrize("user", ["ada", "a.b-c_d+e", "Ada99", "x" * 64])
def test_a_user_is_the_local_part(user: str) -> None:
    """user@domain; without a domain the server completes it."""
    address, bare = user_address(user, "example.org"), user_address(user, None)
    assert address is not None and bare is not None
    assert (f"{user}@example.org", user) == (address.addr_spec, bare.addr_spec)


@pytest.mark.parametrize(
    "user",
    ["", "a b", "ada@elsewhere.org", "-ada", "a\r\nb", "ada>", "ü", "DOM\\ada", "a,b", "x" * 65, "a\n"],
)
def test_what_is_no_local_part_gets_no_mail(user: str) -> None:
    """Nothing that could name anybody else becomes an address."""
    assert user_address(user, "example.org") is None


@pytest.mark.parametrize("text", ["", "ofu", "a@b, c@d", "x\r\nBcc: a@b", "a@@b", "<>", "ü@example.org"])
def test_an_address_that_is_none_is_said(text: str) -> None:
    """The message names the key and shows the value."""
    with pytest.raises(ConfigError, match=r"\[mail\] sender.*not one e-mail address"):
        checked_address(text, "[mail] sender")


def test_admins_get_the_audits_as_they_are() -> None:
    """Each audit's text, line for line, and HTML that keeps its lines."""
    text = "Audit idle: runs & <jobs>\n   1. job 4711"
    its = admins_letter(AdminsDigest(question=QUESTION, audits={"idle": text}, entry_count=1), OURS, SETTINGS)
    assert "GPU audits: 1 entry" == its.subject
    assert text in its.text
    assert text in Document(its.html).text
