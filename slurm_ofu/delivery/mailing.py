"""E-mails, one by one, to the site's mail server.

A mail counts as sent when the server has said so, and never before: of one whose answer got lost nobody
knows, and the caller may send it again.
"""

import smtplib
import ssl
from contextlib import suppress
from types import TracebackType
from typing import Final

from slurm_ofu.errors import MailError, MailRefused

TIMEOUT_SECONDS: Final = 30.0
_CLOSING: Final = 421  # the server is about to hang up, whoever the mail is for
_LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")


class MailServer:
    """The server at ``host:port``, spoken to over one connection for as long as that holds.

    Where it offers STARTTLS that is used, and its certificate must be good, unless it is this very host.
    Use it as a context manager.
    """

    def __init__(self, host_port: str, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        host, _, port = host_port.rpartition(":")
        self._host, self._port = host.strip("[]"), int(port)
        self._timeout_seconds = timeout_seconds
        self._open: smtplib.SMTP | None = None

    def __enter__(self) -> "MailServer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(self, sender: str, recipient: str, message: bytes) -> None:
        """Hand over one mail: when this returns the server has it. Raises MailRefused, and MailError where
        the server is gone or cannot be used."""
        connection = self._connection()
        try:
            connection.sendmail(sender, [recipient], message)
        except smtplib.SMTPRecipientsRefused as error:
            raise self._refusal(recipient, *error.recipients[recipient]) from error
        except smtplib.SMTPResponseException as error:
            raise self._refusal(recipient, error.smtp_code, error.smtp_error) from error
        except (OSError, smtplib.SMTPException) as error:
            self._drop()
            raise MailError(f"{self._place}: hung up on the mail to {recipient}: {error}") from error

    def _refusal(self, recipient: str, code: int, said: bytes | str) -> MailError:
        text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
        words = f"{recipient}: refused by {self._place}: {code} {' '.join(text.split())}"
        if code != _CLOSING:
            return MailRefused(words)
        self._drop()
        return MailError(words)

    def close(self) -> None:
        """Take leave."""
        if self._open is not None:
            with suppress(OSError, smtplib.SMTPException):
                self._open.quit()
            self._drop()

    @property
    def _place(self) -> str:
        return f"mail server {self._host}:{self._port}"

    def _connection(self) -> smtplib.SMTP:
        if self._open is None:
            try:
                self._open = smtplib.SMTP(self._host, self._port, timeout=self._timeout_seconds)
                self._encrypt(self._open)
            except ssl.SSLError as error:
                self._drop()
                raise MailError(f"{self._place}: its TLS cannot be trusted: {error}") from error
            except (OSError, smtplib.SMTPException) as error:
                self._drop()
                raise MailError(f"{self._place}: cannot be reached: {error}; see [mail] server") from error
        return self._open

    def _encrypt(self, connection: smtplib.SMTP) -> None:
        connection.ehlo_or_helo_if_needed()
        if not connection.has_extn("starttls"):
            return
        context = ssl.create_default_context()
        if self._host in _LOCAL_HOSTS:  # its certificate names the host, and nobody stands in between
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        connection.starttls(context=context)

    def _drop(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None
