"""The queue of signed receipts, and the threads that seal and send them."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from .batch import receipt_id, receipts_of, signed_batch
from .errors import ClosedError, QueueFullError, Rejection
from .options import Options
from .signers import Signer
from .spool import Journal, Spool, age_ms
from .transport import Answer, Transport, backoff_s

_log = logging.getLogger("receipts_client")
# Pause after a failure of the signer or of the disk.
_FAILURE_PAUSE_S = 1.0

Waiter = Callable[["Rejection | None"], None]


@dataclass
class _Open:
    """Receipts that aren't a batch yet."""

    sequence: int
    journal: Journal | None
    since: float = field(default_factory=time.monotonic)
    receipts: list[bytes] = field(default_factory=list)
    size: int = 0
    not_before: float = 0.0


@dataclass
class _Sealed:
    """A batch that isn't acknowledged. Its body is in memory or in a file."""

    sequence: int
    count: int
    size: int
    body: bytes | None = None
    path: Path | None = None
    attempts: int = 0
    not_before: float = 0.0


_Task = TypeVar("_Task", _Open, _Sealed)


class Delivery:
    """Bounded queue and its threads, which start with the first receipt."""

    def __init__(
        self,
        signer: Signer,
        transport: Transport,
        options: Options,
        spool: Spool | None,
        on_rejected: Callable[[Rejection], None] | None,
        on_metric: Callable[[str, float], None] | None,
    ) -> None:
        self._signer = signer
        self._transport = transport
        self._options = options
        self._spool = spool
        self._on_rejected = on_rejected
        self._on_metric = on_metric
        self._changed = threading.Condition()
        self._open: _Open | None = None
        self._full: deque[_Open] = deque()
        self._sealed: deque[_Sealed] = deque()
        self._waiters: dict[str, Waiter] = {}
        # Unfinished batches by the sequence number of the list that they were sealed from.
        self._pending: dict[int, int] = {}
        self._sequence = 0
        self._threads: list[threading.Thread] = []
        self._is_closed = False
        self._queued = self._queued_bytes = self._in_flight = 0
        self._acknowledged = self._batches = self._retries = 0
        if spool:
            self._adopt(spool)

    def put(self, receipt: bytes, identifier: str, waiter: Waiter | None) -> None:
        """Queue a signed receipt. Raises ``QueueFullError``, ``ClosedError`` or ``OSError``."""
        options = self._options
        with self._changed:
            if not self._changed.wait_for(lambda: self._has_room(receipt), options.queue_wait_s):
                raise QueueFullError(
                    f"{self._queued} receipts wait for their acknowledgement: record again later, "
                    "or raise queue_receipts_max and queue_bytes_max"
                )
            if self._is_closed:
                raise ClosedError("the client is closed")
            if self._open and self._open.size + len(receipt) > options.batch_bytes_max:
                self._fill()
            if self._open is None:
                journal = self._spool.new_journal() if self._spool else None
                self._open = _Open(self._next_sequence(), journal)
            if self._open.journal:
                self._open.journal.append(receipt)
            if waiter:
                self._waiters[identifier] = waiter
            self._open.receipts.append(receipt)
            self._open.size += len(receipt) + 1
            self._queued += 1
            self._queued_bytes += len(receipt)
            if len(self._open.receipts) >= options.batch_receipts_max:
                self._fill()
            elif len(self._open.receipts) == 1:
                # A thread may wait for longer than this batch may.
                self._changed.notify()
            self._start()
        self._measure("recorded", 1)

    def flush(self, timeout_s: float | None) -> bool:
        """Seal and send everything; return whether all of it has its final answer."""
        with self._changed:
            if self._open:
                self._fill()
            last = self._sequence
            self._start()
            self._changed.notify_all()
            return self._changed.wait_for(
                lambda: all(sequence > last for sequence in self._pending), timeout_s
            )

    def close(self, timeout_s: float) -> bool:
        """Flush, and end the threads; return whether everything was delivered."""
        is_done = self.flush(timeout_s) if not self._is_closed else True
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for thread in self._threads:
            # A request in flight ends by its own timeout; the spool has what it sends.
            thread.join(0.2)
        with self._changed:
            if self._open and self._open.journal:
                self._open.journal.close()
            if self._spool:
                self._spool.close()
        return is_done

    def state(self) -> dict[str, int]:
        """Return counters: receipts queued, in flight and acknowledged, batches and retries."""
        with self._changed:
            return {
                "queued": self._queued - self._in_flight,
                "in_flight": self._in_flight,
                "acknowledged": self._acknowledged,
                "batches_acknowledged": self._batches,
                "retries": self._retries,
                "spooled_batches": sum(1 for sealed in self._sealed if sealed.path),
            }

    def _has_room(self, receipt: bytes) -> bool:
        if self._is_closed:
            return True
        options = self._options
        return (
            self._queued < options.queue_receipts_max
            and self._queued_bytes + len(receipt) <= options.queue_bytes_max
        )

    def _next_sequence(self) -> int:
        self._sequence += 1
        self._pending[self._sequence] = 1
        return self._sequence

    def _fill(self) -> None:
        """End the open list of receipts, so that it becomes a batch."""
        if self._open:
            self._full.append(self._open)
            self._open = None
            self._changed.notify()

    def _adopt(self, spool: Spool) -> None:
        journals, batches = spool.adopt()
        for path in batches:
            body = spool.read(path)
            if body is not None:
                count = len(receipts_of(body))
                self._count(count, len(body))
                self._sealed.append(_Sealed(self._next_sequence(), count, len(body), None, path))
        for journal, receipts in journals:
            if not receipts:
                journal.delete()
                continue
            size = sum(map(len, receipts))
            self._count(len(receipts), size)
            open_list = _Open(self._next_sequence(), journal, receipts=receipts, size=size)
            self._full.append(open_list)
        if self._pending:
            self._start()

    def _count(self, receipts: int, size: int) -> None:
        self._queued += receipts
        self._queued_bytes += size

    def _start(self) -> None:
        if self._threads:
            return
        targets = [self._work] * self._options.requests_in_flight_max
        if self._spool:
            targets.append(self._sync_regularly)
        for target in targets:
            thread = threading.Thread(target=target, name="receipts-client", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _sync_regularly(self) -> None:
        while not self._is_closed:
            time.sleep(self._options.sync_interval_s)
            with self._changed:
                journal = self._open.journal if self._open else None
            try:
                if journal:
                    journal.sync()
            except (OSError, ValueError) as error:
                # ValueError: the journal was sealed, and deleted, meanwhile.
                if isinstance(error, OSError):
                    _log.error("the spool can't be synced: %s", error)

    def _work(self) -> None:
        while True:
            with self._changed:
                task = self._next_task()
                while task is None:
                    if self._is_closed:
                        return
                    self._changed.wait(self._until_next())
                    task = self._next_task()
                if isinstance(task, _Sealed):
                    self._in_flight += task.count
            if isinstance(task, _Open):
                self._seal(task)
            else:
                self._send(task)

    def _next_task(self) -> _Open | _Sealed | None:
        now = time.monotonic()
        if self._is_closed:
            return None
        if self._open and now - self._open.since >= self._options.batch_delay_s:
            self._fill()
        return _take_due(self._full, now) or _take_due(self._sealed, now)

    def _until_next(self) -> float | None:
        times = [task.not_before for task in self._full]
        times += [task.not_before for task in self._sealed]
        if self._open:
            times.append(self._open.since + self._options.batch_delay_s)
        return max(0.0, min(times) - time.monotonic()) + 0.001 if times else None

    def _seal(self, task: _Open) -> None:
        try:
            sealed = self._sealed_batch(task.receipts, task.sequence)
        except Exception as error:
            _log.error("a batch can't be signed or stored, and will be tried again: %s", error)
            task.not_before = time.monotonic() + _FAILURE_PAUSE_S
            with self._changed:
                self._full.append(task)
            return
        if task.journal:
            task.journal.delete()
        with self._changed:
            self._queued_bytes += sealed.size - task.size
            self._sealed.append(sealed)
            self._changed.notify()

    def _sealed_batch(self, receipts: list[bytes], sequence: int) -> _Sealed:
        batch_id, body = signed_batch(receipts, self._signer)
        sealed = _Sealed(sequence, len(receipts), len(body))
        if self._spool:
            sealed.path = self._spool.store(batch_id, body)
        else:
            sealed.body = body
        return sealed

    def _send(self, task: _Sealed) -> None:
        try:
            self._send_once(task)
        except Exception as error:
            _log.error("a batch can't be read or stored, and will be tried again: %s", error)
            self._again(task, _FAILURE_PAUSE_S)

    def _send_once(self, task: _Sealed) -> None:
        body = task.body
        if task.path and self._spool:
            body = self._spool.read(task.path)
        if body is None:
            self._end(task, acknowledged=0)
            return
        if task.path and age_ms(task.path) > self._options.spool_hours_max * 3_600_000:
            detail = f"waited in the spool for over {self._options.spool_hours_max} hours"
            self._reject_all(task, body, Answer(0, "expired", detail))
            return
        answer = self._transport.send_batch(body)
        if answer.is_acknowledged:
            for receipt in receipts_of(body) if self._waiters else []:
                self._settle(receipt_id(receipt), None)
            self._end(task, acknowledged=task.count)
        elif answer.is_retried:
            options = self._options
            task.attempts += 1
            pause_s = backoff_s(
                task.attempts, answer.retry_after_s, options.retry_min_s, options.retry_max_s
            )
            _log.warning(
                "a batch isn't acknowledged (%s %s), next try in %.1f s",
                answer.code,
                answer.detail,
                pause_s,
            )
            self._measure("retries", 1)
            with self._changed:
                self._retries += 1
            self._again(task, pause_s)
        else:
            self._take_apart(task, body, answer)

    def _again(self, task: _Sealed, pause_s: float) -> None:
        with self._changed:
            task.not_before = time.monotonic() + pause_s
            self._in_flight -= task.count
            self._sealed.append(task)
            self._changed.notify()

    def _take_apart(self, task: _Sealed, body: bytes, answer: Answer) -> None:
        """Remove the receipts that the service named, and send the others in new batches."""
        receipts = receipts_of(body)
        faults = {fault.index: fault for fault in reversed(answer.faults)}
        good = [receipt for index, receipt in enumerate(receipts) if index not in faults]
        if answer.status == 413 and len(receipts) > 1:
            half = len(receipts) // 2
            parts = [receipts[:half], receipts[half:]]
        elif faults and len(good) < len(receipts):
            parts = [good] if good else []
        else:
            self._reject_all(task, body, answer)
            return
        # Stored before the old batch is deleted: a repeated receipt counts once, a lost one never.
        batches = [self._sealed_batch(part, task.sequence) for part in parts]
        for index, fault in sorted(faults.items()):
            if index < len(receipts) and answer.status != 413:
                self._reject(receipts[index], fault.code, fault.detail, fault.pointer)
        with self._changed:
            self._queued += sum(batch.count for batch in batches)
            self._queued_bytes += sum(batch.size for batch in batches)
            self._pending[task.sequence] += len(batches)
            self._sealed.extendleft(reversed(batches))
        self._end(task, acknowledged=0)

    def _reject_all(self, task: _Sealed, body: bytes, answer: Answer) -> None:
        for receipt in receipts_of(body):
            self._reject(receipt, answer.code, answer.detail, answer.pointer)
        if task.path and self._spool:
            self._spool.reject(task.path)
        self._end(task, acknowledged=0)

    def _reject(self, receipt: bytes, code: str, detail: str, pointer: str) -> None:
        rejection = Rejection(receipt_id(receipt), code, detail, pointer, receipt)
        _log.error("receipt %s was refused: %s %s", rejection.receipt_id, code, detail)
        self._measure("rejected", 1)
        self._settle(rejection.receipt_id, rejection)
        if self._on_rejected:
            try:
                self._on_rejected(rejection)
            except Exception:
                _log.exception("on_rejected failed")

    def _settle(self, identifier: str, rejection: Rejection | None) -> None:
        waiter = self._waiters.pop(identifier, None)
        if waiter:
            waiter(rejection)

    def _end(self, task: _Sealed, acknowledged: int) -> None:
        if task.path and self._spool:
            self._spool.delete(task.path)
        with self._changed:
            self._in_flight -= task.count
            self._queued -= task.count
            self._queued_bytes -= task.size
            if acknowledged:
                self._acknowledged += acknowledged
                self._batches += 1
            self._pending[task.sequence] -= 1
            if not self._pending[task.sequence]:
                del self._pending[task.sequence]
            self._changed.notify_all()
        if acknowledged:
            self._measure("acknowledged", acknowledged)

    def _measure(self, name: str, value: float) -> None:
        if self._on_metric:
            try:
                self._on_metric(name, value)
            except Exception:
                _log.exception("on_metric failed")


def _take_due(queue: deque[_Task], now: float) -> _Task | None:
    for task in queue:
        if task.not_before <= now:
            queue.remove(task)
            return task
    return None
