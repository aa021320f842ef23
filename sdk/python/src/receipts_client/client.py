"""The client: records uses, and delivers them in the background."""

from __future__ import annotations

import asyncio
import atexit
import os
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from .batch import receipt_id, signed_receipt
from .delivery import Delivery, Waiter
from .errors import RejectedError, Rejection
from .options import Options
from .outcomes import explain, outcomes
from .signers import Signer
from .spool import Spool
from .transport import Transport
from .use import Use

_EXIT_WAIT_S = 5.0
_clients: weakref.WeakSet[Client] = weakref.WeakSet()


class Client:
    """Signs uses, batches them and delivers them to a gateway.

    ``client_id`` is the UUID of the model or product, the same in all its receipts. ``name``,
    ``version`` and ``organization`` are texts for people.

    With ``spool_dir``, what ``record`` returned survives the end of the process, and the next
    client with this directory delivers it. Without, it is in memory. ``on_rejected`` gets each
    receipt that the service refused, ``on_metric`` a name and a number; both are called from a
    background thread. Further keywords are those of ``Options``.

    Methods may be called from several threads. After ``os.fork`` the child has an empty queue; what
    the parent recorded is delivered by the parent. At the exit of the interpreter, a client that is
    open has 5 seconds to deliver.

    Raises ``ValueError`` for options that can't be.
    """

    def __init__(
        self,
        url: str,
        client_id: str,
        signer: Signer,
        *,
        name: str,
        version: str,
        organization: str,
        spool_dir: str | os.PathLike[str] | None = None,
        on_rejected: Callable[[Rejection], None] | None = None,
        on_metric: Callable[[str, float], None] | None = None,
        analytics_url: str | None = None,
        ca_file: str | None = None,
        **options: Any,
    ) -> None:
        self._signer = signer
        self._options = Options(**options)
        self._transport = Transport(url, ca_file, self._options.requests_in_flight_max + 1)
        self._analytics_url = (analytics_url or url).rstrip("/")
        self._spool_dir = Path(spool_dir) if spool_dir is not None else None
        self._callbacks = (on_rejected, on_metric)
        self._client = {
            "id": client_id,
            "name": name,
            "version": version,
            "organization": organization,
            "publicKey": signer.public_key,
        }
        # Refuses what the service would refuse in every receipt.
        signed_receipt(
            Use("https://a.example/", "research", "", content=b"").members(), self._client, signer
        )
        self._delivery = self._new_delivery()
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

        Raises ``RejectedError`` if the service refuses it, and what ``record`` raises.
        """
        loop = asyncio.get_running_loop()
        settled: asyncio.Future[Rejection | None] = loop.create_future()

        def settle(rejection: Rejection | None) -> None:
            loop.call_soon_threadsafe(
                lambda: None if settled.done() else settled.set_result(rejection)
            )

        identifier = await asyncio.to_thread(self._put, use, settle)
        rejection = await settled
        if rejection:
            raise RejectedError(rejection)
        return identifier

    def flush(self, timeout_s: float | None = None) -> bool:
        """Send everything recorded; return whether all of it has its final answer in time."""
        return self._delivery.flush(timeout_s)

    def close(self, timeout_s: float = _EXIT_WAIT_S) -> bool:
        """Flush for at most ``timeout_s`` and end; return whether everything was delivered.

        With a spool, the rest stays there. Without, it is lost.
        """
        _clients.discard(self)
        return self._delivery.close(timeout_s)

    def state(self) -> dict[str, int]:
        """Return counters, as ``Delivery.state`` does."""
        return self._delivery.state()

    def outcomes(self, after: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield what became of receipts that weren't simply counted, from ``after`` on.

        Each is a line of ``GET /api/v1/client/outcomes`` (docs/outcomes.md): ``outcome`` is
        ``rejected``, ``duplicate`` or ``conflict``. Hand the last ``cursor`` back as ``after``.
        Raises ``ReceiptsError``.
        """
        return outcomes(self._transport, self._signer, self._analytics_url, after)

    def explain(self, receipt: bytes) -> dict[str, Any]:
        """Return the service's checks of a receipt, which isn't stored. Raises ``ReceiptsError``."""
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
        receipt = signed_receipt(use.members(), self._client, self._signer)
        identifier = receipt_id(receipt) if use.receipt_id is None else use.receipt_id
        self._delivery.put(receipt, identifier, waiter)
        return identifier

    def _new_delivery(self) -> Delivery:
        spool = Spool(self._spool_dir) if self._spool_dir else None
        return Delivery(self._signer, self._transport, self._options, spool, *self._callbacks)

    def _after_fork(self) -> None:
        # The parent's threads, locks and connections don't work here, and its files are its own.
        self._transport = self._transport.again()
        self._delivery = self._new_delivery()


def _close_all() -> None:
    for client in list(_clients):
        client.close(_EXIT_WAIT_S)


def _fork_all() -> None:
    for client in list(_clients):
        client._after_fork()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_fork_all)
