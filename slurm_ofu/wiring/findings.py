"""What ``ofu-node check`` says: one finding per line."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "note", "bad"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the check."""

    verdict: Verdict
    what: str
    text: str


def ok(what: str, text: str) -> Finding:
    """As it should be."""
    return Finding(verdict="ok", what=what, text=text)


def note(what: str, text: str) -> Finding:
    """Worth knowing; nothing is lost by it."""
    return Finding(verdict="note", what=what, text=text)


def bad(what: str, text: str) -> Finding:
    """Something to be mended."""
    return Finding(verdict="bad", what=what, text=text)


def unreadable(what: str, error: OSError) -> Finding:
    """A part of the check that this user may not see, or that is broken."""
    text = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return bad(what, f"{text}: run as root" if isinstance(error, PermissionError) else text)
