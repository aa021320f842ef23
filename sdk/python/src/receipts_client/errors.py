"""Errors, and what the service refused."""

from __future__ import annotations

from dataclasses import dataclass


class ReceiptsError(Exception):
    """Base of all errors of this package."""


class UseError(ReceiptsError, ValueError):
    """A use that can't become a receipt. The text says which member to change."""


class QueueFullError(ReceiptsError):
    """As many receipts wait for their acknowledgement as the client may hold.

    The use wasn't recorded. Record it again later, or raise ``queue_receipts_max`` and
    ``queue_bytes_max``.
    """


class ClosedError(ReceiptsError):
    """The client is closed. The use wasn't recorded."""


@dataclass(frozen=True)
class Rejection:
    """A receipt that the service refused, or that this client gave up.

    ``code`` is the service's problem code, ``expired`` for a receipt that was in the spool longer
    than ``spool_hours_max``, ``undelivered`` for one that had no answer when the client was closed
    and isn't in the spool, or ``damaged`` for bytes of the spool that can't be read. ``pointer``
    (RFC 6901) names the faulty member within the receipt. ``receipt`` is the signed receipt in
    canonical form. Of a damaged one, ``receipt`` is what is left, and ``receipt_id`` is empty if it
    isn't in there.
    """

    receipt_id: str
    code: str
    detail: str
    pointer: str
    receipt: bytes


class RejectedError(ReceiptsError):
    """The service refused the receipt that ``AsyncClient.submit`` waited for."""

    def __init__(self, rejection: Rejection) -> None:
        super().__init__(f"{rejection.code} {rejection.pointer}: {rejection.detail}")
        self.rejection = rejection
