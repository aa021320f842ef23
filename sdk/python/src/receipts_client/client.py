"""The client: records uses, and delivers them in the background."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from .batch import signed_receipt
from .canonical import canonicalize
from .delivery import Delivery
from .errors import ClosedError, ReceiptsError, Rejection
from .options import Options
from .outcomes import explain, outcomes
from .reports import Reports, Waiter
from .signers import Signer, check
from .spool import Spool
from .transport import Transport
from .use import Use, text, uuid_text

_EXIT_WAIT_S = 5.0
# Clients that aren't closed.
_clients: set[Client] = set()


class Client:
    """Signs uses, batches them and delivers them to a gateway.

    ``client_id`` is the UUID of the model or product, the same in all its receipts. ``name``,
    ``version`` and ``organization`` describe it to publishers; they are claims that prove nothing.

    With ``spool_dir``, what ``record`` returned survives the end of the process, and the next
    client with this directory delivers it. Without, it is in memory. ``on_rejected`` gets each
    receipt that ends without an acknowledgement, in a background thread, ``on_metric`` a name and a
    number. Neither may call ``flush``. Further keywords are those of ``Options``.

    Methods may be called from several threads. After ``os.fork`` the child has an empty queue; what
    the parent recorded is delivered by the parent. At the exit of the interpreter, all clients that
    are open have 5 seconds to deliver.

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
        on_rejected: Callable[[Rejection], object] | None = None,
        on_metric: Callable[[str, float], object] | None = None,
        analytics_url: str | None = None,
        ca_file: str | None = None,
        **options: Any,
    ) -> None:
        self._signer = signer
        self._options = Options(**options)
        self._transport = Transport(url, ca_file, self._options.requests_in_flight_max + 1)
        self._analytics_url = (analytics_url or url).rstrip("/")
        self._spool_dir = Path(spool_dir).absolute() if spool_dir is not None else None
        self._reports = Reports(on_rejected, on_metric)
        self._callbacks = (on_rejected, on_metric)
        members = {
            "id": uuid_text("client_id", client_id),
            "name": text("name", name),
            "version": text("version", version),
            "organization": text("organization", organization),
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

        Waits for up to ``queue_wait_s`` if the queue is full. Raises ``UseError``,
        ``QueueFullError``, ``ClosedError``, what the signer raises, or ``OSError`` of the spool;
        the use isn't recorded then.
        """
        return self._put(use, None)

    async def submit(self, use: Use) -> str:
        """Record a use and wait until it is acknowledged; return the ID of its receipt.

        Raises ``RejectedError`` if the service refuses it, ``ClosedError`` if the client is closed
        before the answer, and what ``record`` raises.
        """
        loop = asyncio.get_running_loop()
        settled: asyncio.Future[ReceiptsError | None] = loop.create_future()

        def settle(error: ReceiptsError | None) -> None:
            # RuntimeError: the loop has ended.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(
                    lambda: None if settled.done() else settled.set_result(error)
                )

        identifier = await asyncio.to_thread(self._put, use, settle)
        error = await settled
        if error:
            raise error
        return identifier

    def flush(self, timeout_s: float | None = None) -> bool:
        """Send everything recorded; return whether all of it has its final answer in time."""
        return self._delivery.flush(timeout_s) if self._delivery else True

    def close(self, timeout_s: float = _EXIT_WAIT_S) -> bool:
        """Flush for at most ``timeout_s`` and end; return whether everything was delivered.

        With a spool, the rest stays there. Without, ``on_rejected`` gets it as ``undelivered``.
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
        ``rejected``, ``duplicate`` or ``conflict``. Hand the last ``cursor`` back as ``after``.
        Raises ``ReceiptsError``.
        """
        return outcomes(self._transport, self._signer, self._analytics_url, after)

    def explain(self, receipt: bytes) -> dict[str, Any]:
        """Return the service's checks of a receipt, which isn't stored. Raises ``ReceiptsError``.

        ``Rejection.receipt`` is such a receipt.
        """
        return explain(self._transport, receipt)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _put(self, use: Use, waiter: Waiter | None) -> str:
        members = use.members()
        identifier = str(members["receiptId"])
        delivery = self._current()
        delivery.put(signed_receipt(members, self._client, self._signer), identifier, waiter)
        return identifier

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
        kept_bytes_max = self._options.spool_kept_bytes_max
        spool = Spool(self._spool_dir, kept_bytes_max) if self._spool_dir else None
        delivery = Delivery(self._signer, self._transport, self._options, spool, self._reports)
        processes = sys.modules.get("multiprocessing")
        if processes and processes.parent_process():
            # A forked child of multiprocessing ends without atexit.
            sys.modules["multiprocessing.util"].Finalize(None, self.close, exitpriority=0)
        return delivery

    def _after_fork(self) -> None:
        # The parent's threads, locks and connections don't work here, and its files are its own.
        parents, self._delivery = self._delivery, None
        self._lock = threading.Lock()
        self._reports = Reports(*self._callbacks)
        self._transport = self._transport.again()
        if parents:
            parents.abandon()


def _close_all() -> None:
    deadline = time.monotonic() + _EXIT_WAIT_S
    for client in list(_clients):
        client.close(max(0.0, deadline - time.monotonic()))


def _fork_all() -> None:
    for client in list(_clients):
        client._after_fork()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_fork_all)
