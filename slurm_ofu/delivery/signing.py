"""How a message proves that a cluster's root sent it, and an answer that the collector did."""

from typing import Protocol


class Signing(Protocol):
    """Bytes ↔ bytes that prove who sent them.

    Laws. ``verify`` of what ``sign`` made in the last minutes gives the same bytes, once: for the same
    envelope again it raises MessageRefused, and so it does for anything else. Both may be called by
    several threads at once, and take a bounded time.
    """

    def sign(self, payload: bytes) -> bytes:
        """An envelope. Raises DeliveryError where this process cannot sign."""

    def verify(self, envelope: bytes) -> bytes:
        """The payload. Raises MessageRefused with the code ``bad_credential``, ``expired``, ``rewound``,
        ``replayed``, ``not_root`` or ``wrong_user``; DeliveryError where this host cannot verify now."""
