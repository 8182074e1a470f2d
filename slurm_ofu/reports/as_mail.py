"""Digests as e-mails: what a template is given, and the message that its text becomes.

Names of jobs and users are somebody else's text: templates get them without control characters, HTML is
escaped, and no header holds anything but what stands here.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Any, Final

from slurm_ofu.errors import ConfigError
from slurm_ofu.figures import figures
from slurm_ofu.reports.audit_entries import own_words
from slurm_ofu.reports.free_text import cell_width, printable, shortened, wrapped
from slurm_ofu.reports.mail_advice import advice, job_of
from slurm_ofu.reports.mail_templates import MailTemplates
from slurm_ofu.reports.question import Question, window
from slurm_ofu.reports.wording import UNKNOWN, count, hours, in_part, ofu, percent
from slurm_ofu.values import AuditEntry, MailConfig, UsageSums

#: The templates of each kind of mail.
TEMPLATE_NAMES: Final = tuple(
    f"{kind}{ending}" for kind in ("user", "admins") for ending in ("-subject.txt", ".txt", ".html")
)
TEMPLATE_ENDING: Final = ".jinja"
TEXT_WIDTH: Final = 78
_SUBJECT_CELLS: Final = 120
_NUMBERED: Final = re.compile(r" *(\d+\. |- )?")
_ADDRESS: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+=-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A mail's texts. ``text`` has lines of at most TEXT_WIDTH cells, ``html`` is a whole document."""

    subject: str
    text: str
    html: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UserDigest:
    """What one user is told: entries of audits that are the user's own, and the total of all jobs."""

    user: str
    question: Question
    total: UsageSums
    entries: Sequence[AuditEntry]  # those that are told, the most at stake first
    more_count: int = 0  # others, that will be told another time
    recoveries: Sequence[AuditEntry] = ()  # what has become better
    short_seconds: float = 0.0  # the page of a job that was shorter does not say why it is as it is


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminsDigest:
    """What the admins are told: each audit as `ofu-admin audit` prints it."""

    question: Question
    audits: Mapping[str, str]
    entry_count: int


def user_letter(digest: UserDigest, templates: MailTemplates, settings: MailConfig) -> Letter:
    """The mail to one user. Raises ConfigError for a template that cannot be used."""
    zone = digest.question.zone
    return _letter(
        "user",
        templates,
        settings,
        {
            "user": printable(digest.user),
            "window": window(digest.question),
            "total": _total(digest.total),
            "entries": [
                {
                    "what": what,
                    "evidence": list(evidence),
                    "job": job_of(entry),
                    "advice": advice(entry, digest.short_seconds),
                }
                for entry in digest.entries
                for what, *evidence in [own_words(entry, zone)]
            ],
            "more_count": digest.more_count,
            "recoveries": [own_words(entry, zone)[0] for entry in digest.recoveries],
            "since": None if digest.question.start is None else f"{digest.question.start:%Y-%m-%d}",
            "example_job": next((job_of(entry) for entry in digest.entries if entry.runs), None),
            "days_between": f"{settings.days_between:g}",
            "again_days": f"{settings.again_days:g}",
        },
    )


def admins_letter(digest: AdminsDigest, templates: MailTemplates, settings: MailConfig) -> Letter:
    """The mail to the admins. Raises ConfigError for a template that cannot be used."""
    return _letter(
        "admins",
        templates,
        settings,
        {
            "window": window(digest.question),
            "entry_count": digest.entry_count,
            "audits": [{"name": name, "text": text} for name, text in digest.audits.items()],
        },
    )


def user_address(user: str, domain: str | None) -> Address | None:
    """Where mail to a user goes; ``None`` for a name that is no local part of an address."""
    if _ADDRESS.fullmatch(user) is None:
        return None
    return Address(username=user, domain=domain or "")


def checked_address(text: str, key: str) -> Address:
    """The one address in ``text``. Raises ConfigError naming the key that holds it."""
    good = text.isprintable() and "<>" not in text
    header: Any = SMTP.header_factory("To", text if good else "")
    found = header.addresses
    whole = len(found) == 1 and found[0].username and found[0].domain and found[0].addr_spec.isascii()
    if header.defects or not whole:
        raise ConfigError(f"{key} = {printable(text)!r} is not one e-mail address, as in ofu@example.org")
    its: Address = found[0]
    return its


def as_message(
    letter: Letter,
    *,
    sender: Address,
    recipient: Address,
    reply_to: Address | None,
    sent: datetime,
    message_id: str,
) -> bytes:
    """The mail as it goes to a server: 7-bit, plain text first, HTML for those who prefer it."""
    message = EmailMessage(policy=SMTP)
    message["Subject"] = letter.subject
    message["From"] = sender
    message["To"] = recipient
    if reply_to is not None:
        message["Reply-To"] = reply_to
    message["Date"] = format_datetime(sent)
    message["Message-ID"] = message_id
    message["Auto-Submitted"] = "auto-generated"  # no vacation notice in return
    message.set_content(letter.text, charset="utf-8", cte="quoted-printable")
    message.add_alternative(letter.html, subtype="html", charset="utf-8", cte="quoted-printable")
    return message.as_bytes()


def _letter(kind: str, templates: MailTemplates, settings: MailConfig, facts: Mapping[str, Any]) -> Letter:
    context = {"help_url": settings.help_url, "reply_to": settings.reply_to, **facts}
    subject, text, html = (
        templates.filled(f"{kind}{ending}{TEMPLATE_ENDING}", context)
        for ending in ("-subject.txt", ".txt", ".html")
    )
    return Letter(
        subject=shortened(printable(" ".join(subject.split())), _SUBJECT_CELLS),
        text=_fitted(text),
        html=html.rstrip() + "\n",
    )


def _total(sums: UsageSums) -> dict[str, Any]:
    its = figures(sums)
    return {
        "job_count": count(its.run_count),
        "gpu_hours": hours(its.gpu_hours),
        "gpu_hours_measured": hours(its.gpu_hours_measured),
        "gpu_hours_unmeasured": hours(its.gpu_hours_unmeasured),
        "ofu": ofu(its).strip(),
        "coverage": percent(its.coverage_ratio, digits=0),
        "measured": its.ofu_ratio is not None,
        "in_part": in_part(its),
        "non_tensor_count": its.non_tensor_run_count,
        "idle_gpu_hours": UNKNOWN if its.idle_gpu_hours is None else hours(its.idle_gpu_hours),
    }


def _fitted(text: str) -> str:
    """The text with lines that are too long wrapped under their own beginning, and no rows of empty lines."""
    lines: list[str] = []
    for line in text.expandtabs().splitlines():
        bare = line.rstrip()
        if bare or (lines and lines[-1]):
            lines += [bare] if cell_width(bare) <= TEXT_WIDTH else _broken(bare)
    return "\n".join(lines).rstrip() + "\n"


def _broken(line: str) -> list[str]:
    match = _NUMBERED.match(line)
    first = "" if match is None else match[0]
    broken = wrapped(line[len(first) :], TEXT_WIDTH - len(first))
    return [(first if at == 0 else " " * len(first)) + piece for at, piece in enumerate(broken)]
