"""Digests by e-mail: who is told what, sparingly, and what became of it.

A mail is noted in the calendar once the server has it, before the next one is sent. Should this process die
in between, that one mail may be sent again: at least once, never silently not at all. One process sends at a
time.
"""

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, tzinfo
from email.headerregistry import Address
from pathlib import Path
from typing import Final, cast

from slurm_ofu.audits.telling import FOR_USERS, told_subject, what_to_tell
from slurm_ofu.config import url_path
from slurm_ofu.delivery.mailing import MailServer
from slurm_ofu.errors import ConfigError, MailError, MailRefused, StoreError
from slurm_ofu.reports.as_audit import as_audit, judged_words
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
from slurm_ofu.reports.mail_templates import MailTemplates, TemplateText
from slurm_ofu.reports.question import Question
from slurm_ofu.store.warned import Told, WarnedReader, WarningCalendar
from slurm_ofu.values import (
    AUDIT_NAMES,
    AuditEntry,
    AuditName,
    Config,
    Selection,
    UsageSums,
)
from slurm_ofu.wiring.auditing import audit_results
from slurm_ofu.wiring.reading import open_reader

_ATTEMPTS: Final = 2  # failures of the server in a row, after which nothing more is tried


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """One mail that would be sent, and what is noted then; without a letter: why somebody gets none."""

    name: str  # the user; of an admin the address
    why: tuple[str, ...]
    recipient: Address | None = None
    letter: Letter | None = None
    told: tuple[Told, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one mail; ``problem``: why it was not sent."""

    mail: Mail
    problem: str | None = None


class Mailing:
    """The mails of one configuration as of now. Raises ConfigError for what it says of them, StoreError."""

    def __init__(self, config: Config, *, now_epoch_s: float, zone: tzinfo) -> None:
        self._config, self._settings = config, config.mail
        self._now, self._zone = now_epoch_s, zone
        self._names = _audit_names(config)
        #: What the audits judged of what users were last to be told of, and why not the rest.
        self.looked_at: tuple[str, ...] = ()
        self._reply_to = (
            None
            if config.mail.reply_to is None
            else checked_address(config.mail.reply_to, f"{config.path}: [mail] reply_to")
        )
        self._admins = {
            admin: user_address(admin, config.mail.domain)
            or checked_address(admin, f"{config.path}: [mail] admins")
            for admin in config.mail.admins
        }
        self._templates = MailTemplates(_template_texts(config))
        path = url_path(config.database)
        self._reader = open_reader(config)
        self._warned = WarnedReader(path)
        self._calendar = WarningCalendar(path, wait_seconds=config.delivery_wait_seconds)

    def to_users(self, selection: Selection, names: Sequence[str] = ()) -> list[Mail]:
        """A mail to each user with something new to be told, by name; ``names``: to these alone."""
        question = Question(selection=selection, by="user", zone=self._zone)
        results = audit_results(self._config, self._reader, self._names, selection, self._now)
        self.looked_at = tuple(f"{its.audit}: {judged_words(its, self._config.audits)}" for its in results)
        entries = [entry for result in results for entry in result.entries if entry.user is not None]
        totals = {row.group: row.sums for row in self._reader.usage(selection, "user")}
        told: dict[str, list[Told]] = {}
        for one in self._warned.told():
            told.setdefault(one.user, []).append(one)
        users = sorted(set(names) or {entry.user or "" for entry in entries})
        return [
            self._to_user(
                user, question, totals.get(user), [e for e in entries if e.user == user], told.get(user, [])
            )
            for user in users
        ]

    def to_admins(self, selection: Selection) -> list[Mail]:
        """The whole audits to each of ``[mail] admins``."""
        question = Question(selection=selection, by="user", zone=self._zone)
        config = self._config
        results = audit_results(config, self._reader, AUDIT_NAMES, selection, self._now)
        digest = AdminsDigest(
            question=question,
            audits={
                its.audit: as_audit(
                    *(its, question, config.audits, config.goals),
                    width=TEXT_WIDTH,
                    colour=False,
                    most=config.audits.top,
                    short_seconds=config.findings.short_seconds,
                )
                for its in results
            },
            entry_count=sum(len(its.entries) for its in results),
        )
        letter = admins_letter(digest, self._templates, self._settings)
        why = tuple(
            f"{its.audit}: {len(its.entries)} {'entry' if len(its.entries) == 1 else 'entries'}"
            for its in results
            if its.entries
        )
        return [
            Mail(
                name=admin,
                why=why or ("nothing was found",),
                recipient=address,
                letter=letter,
            )
            for admin, address in self._admins.items()
        ]

    def alone(self) -> AbstractContextManager[None]:
        """Hold the right to send, from before it is decided what. Raises StoreBusy at once."""
        return self._calendar.alone()

    def send(self, mails: Iterable[Mail]) -> Iterator[Outcome]:
        """Send those that have a letter, one after the other, and say of each what became of it.

        After the server has failed twice in a row the rest is not tried. Raises ConfigError and StoreError.
        """
        config = self._config
        if not self._settings.sender:
            raise ConfigError(f'{config.path}: [mail] sender is "": nothing is sent without a From address')
        sender = checked_address(self._settings.sender, f"{config.path}: [mail] sender")
        self._calendar.record([])  # whoever cannot note what was sent must not send
        failures = 0
        with MailServer(self._settings.server) as server:
            for mail in mails:
                if mail.recipient is None or mail.letter is None:
                    continue
                if failures >= _ATTEMPTS:
                    yield Outcome(mail=mail, problem=f"{mail.recipient}: not tried after that")
                    continue
                message = self._message(mail.letter, sender, mail.recipient)
                try:
                    server.send(sender.addr_spec, mail.recipient.addr_spec, message)
                except MailError as error:
                    failures = 0 if isinstance(error, MailRefused) else failures + 1
                    yield Outcome(mail=mail, problem=str(error))
                    continue
                failures = 0
                self._note(mail)
                yield Outcome(mail=mail)

    def _note(self, mail: Mail) -> None:
        if not mail.told:
            return
        try:
            self._calendar.record(mail.told)
        except StoreError as error:
            raise type(error)(
                f"the mail to {mail.recipient} was sent and could not be noted, so that it may be sent again;"
                f" no other was: {error}"
            ) from error

    def _message(self, letter: Letter, sender: Address, recipient: Address) -> bytes:
        return as_message(
            letter,
            sender=sender,
            recipient=recipient,
            reply_to=self._reply_to,
            sent=datetime.fromtimestamp(int(time.time())).astimezone(),
            message_id=f"<{uuid.uuid4()}@{sender.domain or 'localhost'}>",
        )

    def _to_user(
        self,
        user: str,
        question: Question,
        total: UsageSums | None,
        entries: Sequence[AuditEntry],
        told: Sequence[Told],
    ) -> Mail:
        its = what_to_tell(
            entries,
            {(one.audit, one.subject): one.sent_epoch_s for one in told},
            self._settings,
            self._now,
        )
        if total is None or not its.entries:
            return Mail(name=user, why=(its.why_not or "nothing to tell",))
        recipient = user_address(user, self._settings.domain)
        if recipient is None:
            return Mail(name=user, why=("no address can be made of this name",))
        digest = UserDigest(
            user=user,
            question=question,
            total=total,
            entries=its.entries,
            more_count=its.more_count,
            recoveries=its.recoveries,
            short_seconds=self._config.findings.short_seconds,
        )
        return Mail(
            name=user,
            why=tuple(f"{entry.audit} {told_subject(entry)}" for entry in its.entries),
            recipient=recipient,
            letter=user_letter(digest, self._templates, self._settings),
            told=tuple(
                Told(user=user, audit=entry.audit, subject=told_subject(entry), sent_epoch_s=self._now)
                for entry in its.entries
            ),
        )


def _audit_names(config: Config) -> tuple[AuditName, ...]:
    for name in config.mail.audits:
        if name not in FOR_USERS:
            raise ConfigError(
                f"{config.path}: [mail] audits: {name!r} is none that users are told of:"
                f" {', '.join(FOR_USERS)}"
            )
    return cast(tuple[AuditName, ...], tuple(dict.fromkeys(config.mail.audits)))


def _template_texts(config: Config) -> dict[str, TemplateText]:
    """Ours, and the site's own in their place, with whatever these include."""
    ours = Path(__file__).resolve().parent.parent / "templates" / "mail"
    texts = {
        name: _template_text(ours / name) for name in (f"{name}{TEMPLATE_ENDING}" for name in TEMPLATE_NAMES)
    }
    if config.mail.templates_dir is None:
        return texts
    site = Path(config.mail.templates_dir)
    if not site.is_dir():
        raise ConfigError(f"{config.path}: [mail] templates_dir = {str(site)!r}: there is no such directory")
    return texts | {path.name: _template_text(path) for path in sorted(site.glob(f"*{TEMPLATE_ENDING}"))}


def _template_text(path: Path) -> TemplateText:
    try:
        return TemplateText(file=str(path), text=path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
