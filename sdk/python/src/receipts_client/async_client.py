"""The client of asyncio programs."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar

from .client import EXIT_WAIT_S, Client
from .errors import QueueFullError, ReceiptsError
from .outcomes import Entry
from .reports import Waiter
from .use import Use

_QUEUE_POLL_S = 0.02
_THREADS_MAX = 8

T = TypeVar("T")


class AsyncClient:
    """A ``Client`` whose methods are awaited, and never block the event loop::

        async with AsyncClient(Client(url, client_id, signer)) as client:
            await client.record(use)

    Keys sign and files are written in threads of its own. Leaving the ``async with`` closes the
    client.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._threads = ThreadPoolExecutor(_THREADS_MAX, "receipts-client-async")

    async def record(self, use: Use) -> str:
        """Sign and queue a use; return the ID of its receipt. Raises as ``Client.record`` does.

        A use whose ``record`` is cancelled may be recorded.
        """
        return await self._record(use, None)

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

        identifier = await self._record(use, settle)
        error = await settled
        if error:
            raise error
        return identifier

    async def flush(self, timeout_s: float | None = None) -> bool:
        """Send everything recorded; return whether all of it has its final answer in time."""
        return await self._run(self._client.flush, timeout_s)

    async def close(self, timeout_s: float = EXIT_WAIT_S) -> bool:
        """Flush for at most ``timeout_s`` and end, as ``Client.close`` does."""
        is_done = await self._run(self._client.close, timeout_s)
        self._threads.shutdown(wait=False)
        return is_done

    async def outcomes(self, after: str | None = None) -> AsyncIterator[dict[str, Any]]:
        """Yield what became of receipts, as ``Client.outcomes`` does."""
        lines = self._client.outcomes(after)
        while (line := await self._run(next, lines, None)) is not None:
            yield line

    async def explain(self, receipt: bytes) -> dict[str, Any]:
        """Return the service's checks of a receipt, as ``Client.explain`` does."""
        return await self._run(self._client.explain, receipt)

    async def resolve(self, urls: Iterable[str]) -> dict[str, Entry | None]:
        """Return what the service has of each URL, as ``Client.resolve`` does."""
        return await self._run(self._client.resolve, urls)

    def state(self) -> dict[str, int]:
        """Return counters, as ``Client.state`` does."""
        return self._client.state()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _record(self, use: Use, waiter: Waiter | None) -> str:
        client = self._client
        deadline = time.monotonic() + client.options.queue_wait_s
        try:
            identifier, receipt = await self._run(client._signed, use)
            while True:
                try:
                    await self._run(client._put, identifier, receipt, waiter, 0.0)
                    return identifier
                except QueueFullError:
                    if time.monotonic() >= deadline:
                        raise
                    await asyncio.sleep(_QUEUE_POLL_S)
        except Exception:
            client._reports.measure("failed", 1)
            raise

    async def _run(self, function: Callable[..., T], *arguments: Any) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, function, *arguments)
