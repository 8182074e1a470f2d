"""A real SMTP server on the loopback, which keeps what it is sent, or does not take it."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any, cast

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from tests.services.processes import free_ports


@dataclass
class Post:
    """What came, and what the server does about the next: see the names."""

    received: list[tuple[str, list[str], EmailMessage]] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    encrypted: list[bool] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)  # recipients
    refuses_content_to: set[str] = field(default_factory=set)
    hangs_up_on: set[str] = field(default_factory=set)  # recipients, in the middle of their mail
    always_hangs_up: bool = False
    busy: bool = False  # answers 421 to a mail, …
    busy_at_once: bool = False  # … or to its recipient

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, rcpt_options: list[str]
    ) -> str:
        """RCPT TO."""
        if self.busy_at_once:
            return "421 4.3.2 come back later"
        if address in self.refused:
            return "550 5.1.1 no such user here"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        """The whole mail has come, and its client waits for what we say."""
        transport: Any = server.transport
        if self.always_hangs_up or self.hangs_up_on.intersection(envelope.rcpt_tos):
            transport.abort()
            return "250 nobody hears this"
        if self.busy:
            return "421 4.3.2 come back later"
        if self.refuses_content_to.intersection(envelope.rcpt_tos):
            return "554 5.6.0 looks like spam"
        content = cast(bytes, envelope.original_content)
        self.raw.append(content)
        self.encrypted.append(session.ssl is not None)
        parsed = message_from_bytes(content, policy=default)
        self.received.append((envelope.mail_from or "", list(envelope.rcpt_tos), parsed))
        return "250 OK"

    @property
    def recipients(self) -> list[str]:
        """Whom the mails that were taken are for, in the order in which they came."""
        return [recipient for _, recipients, _ in self.received for recipient in recipients]


@contextmanager
def mail_server(post: Post, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """The server as host:port; with ``tls`` it offers STARTTLS."""
    [port] = free_ports(1)
    controller = Controller(post, hostname=host, port=port, tls_context=tls, ready_timeout=60.0)
    controller.start()
    try:
        yield f"{host}:{port}"
    finally:
        controller.stop()
