"""The client: records uses, and delivers them in the background."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from .acknowledgements import Acknowledgement
from .batch import signed_receipt
from .canonical import canonicalize
from .delivery import Delivery
from .errors import ClosedError, Rejection, UseError
from .options import Options
from .outcomes import Entries, Entry, explain, outcomes
from .reports import Reports, Waiter
from .signers import Signer, check
from .spool import Spool
from .transport import Transport
from .use import Use, filled, uuid_text

EXIT_WAIT_S = 5.0
_RECEIPT_BYTES_MAX = 65_536
# Clients that aren't closed.
_clients: set[Client] = set()


class Client:
    """Signs uses, batches them and delivers them to a gateway.

    ``client_id`` is the UUID of the model or product, the same in all its receipts. ``name``,
    ``version`` and ``organization`` describe it to publishers; they are claims that prove nothing.

    With ``spool_dir``, what ``record`` returned survives the end of the process, and the next
    client with this directory delivers it. Without, it is in memory. In background threads,
    ``on_acknowledged`` gets each batch's acknowledgement, ``on_rejected`` each receipt that ends
    without one, and ``on_metric`` a name and a number. None of them may call ``flush``.

    ``proxy`` is the address of an HTTP proxy; by default it is that of the environment
    (``HTTPS_PROXY``, ``HTTP_PROXY``, ``ALL_PROXY``, ``NO_PROXY``), and ``""`` means none.
    ``analytics_url`` and ``publisher_url`` are where ``outcomes`` and ``resolve`` send their
    queries, if that isn't ``url``.

    Methods may be called from several threads. After ``os.fork`` the child has an empty queue; what
    the parent recorded is delivered by the parent. At the exit of the interpreter, all clients that
    are open have 5 seconds to deliver; ``os._exit`` and signals without a handler leave them none.

    Raises ``ValueError`` for options that can't be, and ``OSError`` of the spool.
    """

    def __init__(
        self,
        url: str,
        client_id: str,
        signer: Signer,
        *,
        name: str = "unnamed",
        version: str = "unknown",
        organization: str = "unnamed",
        spool_dir: str | os.PathLike[str] | None = None,
        on_acknowledged: Callable[[Acknowledgement], object] | None = None,
        on_rejected: Callable[[Rejection], object] | None = None,
        on_metric: Callable[[str, float], object] | None = None,
        analytics_url: str | None = None,
        publisher_url: str | None = None,
        ca_file: str | None = None,
        proxy: str | None = None,
        options: Options | None = None,
    ) -> None:
        self._signer = signer
        self.options = options or Options()
        self._transport = Transport(
            url,
            ca_file=ca_file,
            proxy=proxy,
            request_timeout_s=self.options.request_timeout_s,
            is_compressed=self.options.is_compressed,
            connections_max=self.options.requests_in_flight_max + 1,
        )
        self._analytics_url = (analytics_url or url).rstrip("/")
        self._entries = Entries(publisher_url or url)
        self._spool_dir = Path(spool_dir).absolute() if spool_dir is not None else None
        self._callbacks = (on_acknowledged, on_rejected, on_metric)
        self._reports = Reports(*self._callbacks)
        members = {
            "id": uuid_text("client_id", client_id),
            "name": filled("name", name),
            "version": filled("version", version),
            "organization": filled("organization", organization),
            "publicKey": signer.public_key,
        }
        self._client = canonicalize(members)
        check(signer)
        self._lock = threading.Lock()
        self._is_closed = False
        self._delivery: Delivery | None = self._new_delivery()
        _clients.add(self)

    def record(self, use: Use) -> str:
        """Sign and queue a use; return the ID of its receipt. Makes no request.

        Waits for up to ``queue_wait_s`` if the queue is full; in coroutines, use ``AsyncClient``.
        Raises ``UseError``, ``QueueFullError``, ``ClosedError``, what the signer raises, or
        ``OSError`` of the spool; the use isn't recorded then.
        """
        try:
            identifier, receipt = self._signed(use)
            self._put(identifier, receipt, None, self.options.queue_wait_s)
        except Exception:
            self._reports.measure("failed", 1)
            raise
        return identifier

    def flush(self, timeout_s: float | None = None) -> bool:
        """Send everything recorded; return whether all of it has its final answer in time."""
        return self._delivery.flush(timeout_s) if self._delivery else True

    def close(self, timeout_s: float = EXIT_WAIT_S) -> bool:
        """Flush for at most ``timeout_s`` and end; return whether everything was delivered.

        With a spool, the rest stays there. Without, ``on_rejected`` gets it as ``undelivered``, and
        so it gets what the spool couldn't store.
        """
        _clients.discard(self)
        with self._lock:
            self._is_closed = True
        return self._delivery.close(timeout_s) if self._delivery else True

    def state(self) -> dict[str, int]:
        """Return counters: receipts queued, in flight and acknowledged, batches and retries."""
        return self._current().state()

    def outcomes(self, after: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield what became of receipts that weren't simply counted, from ``after`` on.

        Each is a line of ``GET /api/v1/client/outcomes`` (docs/outcomes.md): ``outcome`` is
        ``rejected``, ``duplicate``, ``conflict`` or ``unattributed``. Hand the last ``cursor`` back
        as ``after``. Raises ``ReceiptsError``.
        """
        return outcomes(self._transport, self._signer, self._analytics_url, after)

    def explain(self, receipt: bytes) -> dict[str, Any]:
        """Return the service's checks of a receipt, which isn't stored. Raises ``ReceiptsError``.

        ``Rejection.receipt`` is such a receipt.
        """
        return explain(self._transport, receipt)

    def resolve(self, urls: Iterable[str]) -> dict[str, Entry | None]:
        """Return what the service has of each URL, such as its ``publisher``; ``None`` for a URL
        that can't be. Answers are cached for 5 minutes. Raises ``ReceiptsError``.
        """
        return self._entries.resolve(self._transport, urls)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _signed(self, use: Use) -> tuple[str, bytes]:
        """Return the ID of a use's receipt, and the receipt."""
        members = use.members()
        receipt = signed_receipt(members, self._client, self._signer)
        if len(receipt) > _RECEIPT_BYTES_MAX:
            raise UseError(
                f"the receipt has {len(receipt)} bytes, and {_RECEIPT_BYTES_MAX} are allowed: "
                "shorten the longest texts"
            )
        return str(members["receiptId"]), receipt

    def _put(self, identifier: str, receipt: bytes, waiter: Waiter | None, wait_s: float) -> None:
        self._current().put(receipt, identifier, waiter, wait_s)

    def _current(self) -> Delivery:
        """Return the delivery, which a forked process makes when it first needs one."""
        delivery = self._delivery
        if delivery is None:
            with self._lock:
                if self._is_closed:
                    raise ClosedError("the client is closed")
                delivery = self._delivery = self._delivery or self._new_delivery()
        return delivery

    def _new_delivery(self) -> Delivery:
        retained_bytes_max = self.options.spool_retained_bytes_max
        spool = Spool(self._spool_dir, retained_bytes_max) if self._spool_dir else None
        delivery = Delivery(self._signer, self._transport, self.options, spool, self._reports)
        _finalize_in_child(self.close)
        return delivery

    def _after_fork(self) -> None:
        # The parent's threads, locks and connections don't work here, and its files are its own.
        parents, self._delivery = self._delivery, None
        self._lock = threading.Lock()
        self._reports = Reports(*self._callbacks)
        self._transport = self._transport.again()
        if parents:
            parents.abandon()


def _finalize_in_child(close: Callable[[], object]) -> None:
    """Close at the end of a child of multiprocessing, or of billiard, Celery's fork of it. Both end
    children without atexit, and billiard those of a pool without its finalizers too."""
    for name in ("multiprocessing", "billiard"):
        process, util = (sys.modules.get(f"{name}.{part}") for part in ("process", "util"))
        current = process.current_process() if process else None
        if not util or not getattr(current, "_parent_pid", None):
            continue
        util.Finalize(None, close, exitpriority=0)
        worker: Any = getattr(current, "_target", None)
        if hasattr(worker, "on_exit"):
            worker.on_exit = _in_turn(close, worker.on_exit)


def _in_turn(
    close: Callable[[], object], then: Callable[..., object] | None
) -> Callable[..., None]:
    def both(*arguments: object) -> None:
        close()
        if then:
            then(*arguments)

    return both


def _close_all() -> None:
    deadline = time.monotonic() + EXIT_WAIT_S
    for client in list(_clients):
        client.close(max(0.0, deadline - time.monotonic()))


def _fork_all() -> None:
    for client in list(_clients):
        client._after_fork()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_fork_all)
