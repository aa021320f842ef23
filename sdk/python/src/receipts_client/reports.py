"""What a client reports to its user: acknowledgements, rejections, numbers, and answers to
``submit``."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from .acknowledgements import Acknowledgement
from .errors import ClosedError, ReceiptsError, RejectedError, Rejection

_log = logging.getLogger("receipts_client")

# Gets the error of a receipt, or None when it is acknowledged.
Waiter = Callable[["ReceiptsError | None"], None]


class Reports:
    """Calls the user's functions. What they raise is logged and changes nothing."""

    def __init__(
        self,
        on_acknowledged: Callable[[Acknowledgement], object] | None,
        on_rejected: Callable[[Rejection], object] | None,
        on_metric: Callable[[str, float], object] | None,
    ) -> None:
        self._on_acknowledged = on_acknowledged
        self._on_rejected = on_rejected
        self._on_metric = on_metric
        self._waiters: dict[str, list[Waiter]] = {}
        self._lock = threading.Lock()

    @property
    def needs_receipt_ids(self) -> bool:
        """Whether somebody wants to know which receipts are acknowledged."""
        return bool(self._waiters or self._on_acknowledged)

    def wait(self, identifier: str, waiter: Waiter) -> None:
        """Register what a receipt's answer is given to."""
        with self._lock:
            self._waiters.setdefault(identifier, []).append(waiter)

    def acknowledge(self, acknowledgement: Acknowledgement) -> None:
        """Hand an acknowledgement over, and answer the waiters of its receipts."""
        self._call("on_acknowledged", self._on_acknowledged, acknowledgement)
        for identifier in acknowledgement.receipt_ids:
            self._settle(identifier, None)

    def reject(self, rejections: Sequence[Rejection]) -> None:
        """Report receipts of a batch that end without an acknowledgement, for one cause."""
        if not rejections:
            return
        first = rejections[0]
        _log.error(
            "%d receipts of a batch end without an acknowledgement, first %s: %s %s %s",
            len(rejections),
            first.receipt_id or "(unreadable)",
            first.code,
            first.pointer,
            first.detail,
        )
        self.measure("damaged" if first.code == "damaged" else "rejected", len(rejections))
        for rejection in rejections:
            self._settle(rejection.receipt_id, RejectedError(rejection))
            self._call("on_rejected", self._on_rejected, rejection)

    def measure(self, name: str, value: float) -> None:
        """Report a number, of the names in the README."""
        self._call("on_metric", self._on_metric, name, value)

    @staticmethod
    def _call(name: str, function: Callable[..., object] | None, *values: object) -> None:
        if function:
            try:
                function(*values)
            except BaseException:
                _log.exception("%s failed", name)

    def end(self) -> None:
        """Answer all waiters: the client is closed."""
        with self._lock:
            identifiers = list(self._waiters)
        for identifier in identifiers:
            self._settle(identifier, ClosedError("the client was closed before the answer"))

    def _settle(self, identifier: str, error: ReceiptsError | None) -> None:
        with self._lock:
            waiters = self._waiters.pop(identifier, [])
        for waiter in waiters:
            try:
                waiter(error)
            except Exception:
                # Its event loop has ended.
                _log.exception("an answer has no reader")
