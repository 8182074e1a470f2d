"""Every error that slurm-ofu raises on purpose.

    OfuError
    ├── UsageError            what the caller asked for cannot be understood
    ├── ConfigError           the configuration file cannot be used
    ├── SourceError           a counter source cannot be opened
    ├── SamplesError          stored samples cannot be had
    │   └── SamplesTooMany    not so many at once: a shorter window may help
    ├── RecordError           bytes that should be a record are not one
    │   └── RecordTooNew      they are one of a newer version
    ├── StateError            what the hooks left in the spool cannot be used
    ├── DeliveryError         a record could not be handed on; it stays in the outbox
    │   └── MessageRefused    a message to the collector is not what, or from whom, it must be
    ├── MailError             an e-mail could not be handed to the mail server
    │   └── MailRefused       it does not take this one, and may take others
    ├── AccountingError       Slurm's accounting did not answer
    │   └── AccountingUnusable   it cannot be asked in this way on this host
    └── StoreError            the accounting database cannot be used
        ├── StoreMissing      there is no database at that path (yet)
        ├── NotPermitted      this user may not read it
        └── StoreBusy         another writer or reader held it longer than we wait

A message says what happened, with which value, and what to do about it.
"""


class OfuError(Exception):
    """Base of all: catching it catches what we raise on purpose and nothing else."""


class UsageError(OfuError):
    """An argument cannot be understood."""


class ConfigError(OfuError):
    """The configuration file is missing, malformed or contradicts itself."""


class SourceError(OfuError):
    """A counter source cannot be opened; ``reason`` is one of ``values.Reason``."""

    def __init__(self, message: str, *, reason: str = "no_source") -> None:
        super().__init__(message)
        self.reason = reason


class SamplesError(OfuError):
    """Stored samples cannot be had: the server does not answer, does not let us, or is something else."""


class SamplesTooMany(SamplesError):
    """The server does not give so many samples at once, or not in time."""


class RecordError(OfuError):
    """Bytes are not a record that this version can read."""


class RecordTooNew(RecordError):
    """Bytes are a record of a format that a newer version writes: upgrading helps."""


class StateError(OfuError):
    """A file that a hook left in the spool is incomplete or malformed."""


class DeliveryError(OfuError):
    """A record could not be delivered now; trying again later may help."""


class MessageRefused(DeliveryError):
    """A message is not what, or not from whom, it must be; ``code`` is one word for it, such as expired."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


class MailError(OfuError):
    """The mail server cannot be reached, or does not do what it must."""


class MailRefused(MailError):
    """The mail server does not take this e-mail; others it may take."""


class AccountingError(OfuError):
    """Slurm's accounting did not answer; asking again later may help."""


class AccountingUnusable(AccountingError):
    """Slurm's accounting cannot be asked in this way on this host; the message says why."""


class StoreError(OfuError):
    """The accounting database cannot be used."""


class StoreMissing(StoreError):
    """There is no accounting database at this path."""


class NotPermitted(StoreError):
    """This user may not read the accounting database."""


class StoreBusy(StoreError):
    """The accounting database was locked for longer than we wait."""


class RecordRefused(StoreError):
    """The accounting database takes other records but never this one."""
