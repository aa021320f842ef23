"""The queue of signed receipts, and the threads that seal and send them."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections import deque
from pathlib import Path

from .acknowledgements import Acknowledgement
from .backoff import Pause
from .batch import key_member, receipt_id, receipt_ids, receipts_of, signed_batch, with_key
from .errors import ClosedError, QueueFullError, Rejection
from .options import Options
from .reports import Reports, Waiter
from .signers import Signer
from .spool import Journal, Leftover, Spool, batch_id_of, new_stem, time_ms
from .tasks import Sealed, Unsealed, take_due
from .transport import Answer, Transport
from .use import new_id

_log = logging.getLogger("receipts_client")
# Pause after a failure of the signer or of the disk.
_FAILURE_PAUSE_S = 1.0
# Interval at which the spool is searched for what ended processes left.
_ADOPT_INTERVAL_S = 30.0


class Delivery:
    """Bounded queue and its threads, which start with the first receipt."""

    def __init__(
        self,
        signer: Signer,
        transport: Transport,
        options: Options,
        spool: Spool | None,
        reports: Reports,
    ) -> None:
        self._signer = signer
        self._key_member = key_member(signer)
        self._transport = transport
        self._options = options
        self._spool = spool
        self._reports = reports
        lock = threading.Lock()
        # Two conditions with one lock, so that waking a worker never wakes a caller instead.
        self._work_ready = threading.Condition(lock)
        self._progress = threading.Condition(lock)
        self._is_dirty = threading.Event()
        self._open: Unsealed | None = None
        self._full: deque[Unsealed] = deque()
        self._sealed: deque[Sealed] = deque()
        self._sending: set[Sealed] = set()
        # Batches that were in flight when the client was closed, and are reported.
        self._abandoned: set[Sealed] = set()
        # Unfinished batches by the sequence number of the list that they were sealed from.
        self._pending: dict[int, int] = {}
        # Files of a list whose batch couldn't be stored, deleted when its last batch ends.
        self._backing: dict[int, list[Path]] = {}
        self._sequence = 0
        self._threads: list[threading.Thread] = []
        self._running = 0
        self._is_closed = False
        self._queued = self._queued_bytes = 0
        self._acknowledged = self._batches = self._retries = 0
        self._pause = Pause(options.retry_min_s, options.retry_max_s)
        if spool:
            self._adopt(spool)

    def put(self, receipt: bytes, identifier: str, waiter: Waiter | None, wait_s: float) -> None:
        """Queue a signed receipt. Raises ``QueueFullError``, ``ClosedError`` or ``OSError``."""
        options = self._options
        with self._progress:
            if not self._progress.wait_for(lambda: self._has_room(receipt), wait_s):
                raise QueueFullError(
                    f"{self._queued} receipts wait for their acknowledgement: record again later, "
                    "or raise queue_receipts_max and queue_bytes_max"
                )
            if self._is_closed:
                raise ClosedError("the client is closed")
            self._start()
            if self._open and self._open.size + len(receipt) > options.batch_bytes_max:
                self._fill()
            if self._open is None:
                self._open = self._new_list()
            self._append(self._open, receipt)
            if waiter:
                self._reports.wait(identifier, waiter)
            self._count(1, len(receipt) + 1)
            if len(self._open.receipts) >= options.batch_receipts_max:
                self._fill()
            elif len(self._open.receipts) == 1:
                # A worker may wait for longer than this batch may.
                self._work_ready.notify_all()
        self._reports.measure("recorded", 1)

    def flush(self, timeout_s: float | None) -> bool:
        """Seal and send everything; return whether all of it has its final answer."""
        with self._progress:
            self._fill()
            last = self._sequence
            return self._progress.wait_for(
                lambda: all(sequence > last for sequence in self._pending), timeout_s
            )

    def close(self, timeout_s: float) -> bool:
        """Flush, and end the threads; return whether everything was delivered."""
        if not self._is_closed:
            self.flush(timeout_s)
        with self._progress:
            self._fill()
            self._is_closed = True
            self._work_ready.notify_all()
            self._progress.notify_all()
            self._is_dirty.set()
        for thread in self._threads:
            # A request in flight ends by its own timeout.
            if thread is not threading.current_thread():
                thread.join(0.2)
        with self._progress:
            unsealed, self._full = list(self._full), deque()
            # The answer to a request in flight has no effect any more.
            sealed, self._sealed = [*self._sealed, *self._sending], deque()
            self._abandoned.update(self._sending)
            self._sending.clear()
            is_done = not self._pending
        self._keep(unsealed, sealed)
        self._reports.end()
        with self._progress:
            if self._spool and not self._running:
                self._spool.close()
        return is_done

    def abandon(self) -> None:
        """Close the files, in a process that was forked: they are the parent's. Takes no lock."""
        for unsealed in [self._open, *self._full]:
            if unsealed and unsealed.journal:
                unsealed.journal.close()
        if self._spool:
            self._spool.close()

    def state(self) -> dict[str, int]:
        """Return counters: receipts queued, in flight and acknowledged, batches and retries."""
        with self._progress:
            in_flight = sum(task.count for task in self._sending)
            return {
                "queued": self._queued - in_flight,
                "in_flight": in_flight,
                "acknowledged": self._acknowledged,
                "batches_acknowledged": self._batches,
                "retries": self._retries,
                "spooled_batches": sum(1 for sealed in self._sealed if sealed.path),
            }

    def _has_room(self, receipt: bytes) -> bool:
        options = self._options
        return self._is_closed or (
            self._queued < options.queue_receipts_max
            and self._queued_bytes + len(receipt) <= options.queue_bytes_max
        )

    def _new_list(self) -> Unsealed:
        stem = new_stem(new_id())
        journal = self._spool.new_journal(stem) if self._spool else None
        return Unsealed(self._next_sequence(), stem, journal)

    def _append(self, target: Unsealed, receipt: bytes) -> None:
        if target.journal:
            try:
                self._write(target, receipt)
            except OSError:
                # Nothing is written behind a frame that may be cut off.
                self._drop_journal(target)
                raise
            self._is_dirty.set()
        target.receipts.append(receipt)
        target.size += len(receipt) + 1

    def _write(self, target: Unsealed, receipt: bytes) -> None:
        assert target.journal and self._spool
        try:
            target.journal.append(receipt)
        except FileNotFoundError:
            # Somebody removed it: what it had is written again.
            target.journal.close()
            target.journal = self._spool.new_journal(target.stem)
            try:
                for one in [*target.receipts, receipt]:
                    target.journal.append(one)
            except OSError:
                target.journal.delete()
                raise

    def _drop_journal(self, target: Unsealed) -> None:
        if target.receipts:
            self._fill()
            return
        self._open = None
        del self._pending[target.sequence]
        if target.journal:
            with contextlib.suppress(OSError):
                target.journal.delete()

    def _next_sequence(self) -> int:
        self._sequence += 1
        self._pending[self._sequence] = 1
        return self._sequence

    def _fill(self) -> None:
        """End the open list of receipts, so that it becomes a batch."""
        if self._open:
            self._full.append(self._open)
            self._open = None
            self._work_ready.notify_all()

    def _adopt(self, spool: Spool) -> None:
        for left in spool.adopt():
            with self._progress:
                sequence = self._next_sequence()
                if left.body:
                    count, size = len(json.loads(left.body)["receipts"]), len(left.body)
                    self._sealed.append(Sealed(sequence, left.stem, count, size, None, left.path))
                else:
                    count, size = len(left.receipts), sum(len(one) + 1 for one in left.receipts)
                    unsealed = Unsealed(sequence, left.stem, adopted=left.path, size=size)
                    unsealed.receipts, unsealed.damaged = left.receipts, _damaged(left)
                    self._full.append(unsealed)
                self._count(count, size)
                self._start()
                self._work_ready.notify_all()

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
            thread.start()
            self._threads.append(thread)
            self._running += 1

    def _ended(self) -> None:
        """The last thread of a closed client gives the slot of the spool back."""
        with self._progress:
            self._running -= 1
            if self._spool and not self._running:
                self._spool.close()

    def _sync_regularly(self) -> None:
        adopt_at = time.monotonic() + _ADOPT_INTERVAL_S
        while True:
            if self._is_dirty.wait(_ADOPT_INTERVAL_S):
                time.sleep(self._options.sync_interval_s)
                self._is_dirty.clear()
            if self._is_closed:
                return self._ended()
            if self._spool and time.monotonic() >= adopt_at:
                adopt_at = time.monotonic() + _ADOPT_INTERVAL_S
                try:
                    self._adopt(self._spool)
                except OSError as error:
                    _log.error("the spool can't be searched for leftovers: %s", error)
            with self._progress:
                lists = [self._open, *self._full]
                journals = [unsealed.journal for unsealed in lists if unsealed and unsealed.journal]
            for journal in journals:
                self._sync(journal)

    def _sync(self, journal: Journal) -> None:
        try:
            journal.sync()
        except ValueError:
            pass  # It was sealed, and deleted, meanwhile.
        except OSError as error:
            # The batch file is written from memory, and again until its own sync succeeds.
            _log.error("the spool can't be synced: %s", error)
            with self._progress:
                if self._open and self._open.journal is journal:
                    self._fill()

    def _work(self) -> None:
        while True:
            with self._work_ready:
                task = self._next_task()
                while task is None:
                    if self._is_closed:
                        break
                    self._work_ready.wait(self._until_next())
                    task = self._next_task()
                if isinstance(task, Sealed):
                    self._sending.add(task)
            if task is None:
                return self._ended()
            if isinstance(task, Unsealed):
                self._seal(task)
            else:
                self._send(task)

    def _next_task(self) -> Unsealed | Sealed | None:
        now = time.monotonic()
        if self._is_closed:
            return None
        if self._open and now - self._open.since >= self._options.batch_delay_s:
            self._fill()
        task = take_due(self._full, now)
        return task or (take_due(self._sealed, now) if now >= self._pause.until else None)

    def _until_next(self) -> float | None:
        times = [task.not_before for task in self._full]
        if self._sealed:
            first = min(task.not_before for task in self._sealed)
            times.append(max(first, self._pause.until))
        if self._open:
            times.append(self._open.since + self._options.batch_delay_s)
        return max(0.0, min(times) - time.monotonic()) + 0.001 if times else None

    def _seal(self, task: Unsealed) -> None:
        damaged, task.damaged = task.damaged, []
        self._reports.reject(damaged)
        if not task.receipts:
            return self._finish(task.sequence, 0, 0, task.path)
        try:
            sealed = self._sealed_batch(task.receipts, task.sequence, task.stem)
        except Exception as error:
            _log.error("a batch can't be signed, and will be tried again: %s", error)
            task.not_before = time.monotonic() + _FAILURE_PAUSE_S
            with self._progress:
                is_closed = self._is_closed
                if not is_closed:
                    self._full.append(task)
            if is_closed:
                self._keep([task], [])
            self._is_dirty.set()
            return
        task.close()
        path = task.path
        if sealed.path:
            _delete(path)
        with self._progress:
            self._queued_bytes += sealed.size - task.size
            if path and not sealed.path:
                self._backing[task.sequence] = [path]
        self._enqueue(sealed)

    def _enqueue(self, *batches: Sealed) -> None:
        with self._progress:
            is_closed = self._is_closed
            if not is_closed:
                self._sealed.extend(batches)
            self._work_ready.notify_all()
        if is_closed:
            self._keep([], list(batches))

    def _sealed_batch(self, receipts: list[bytes], sequence: int, stem: str) -> Sealed:
        """Return a batch, stored if the disk has room. A full disk doesn't keep it from being sent.

        Raises what the signer raises.
        """
        receipts = [with_key(receipt, self._signer, self._key_member) for receipt in receipts]
        body = signed_batch(batch_id_of(stem), receipts, self._signer)
        sealed = Sealed(sequence, stem, len(receipts), len(body), body)
        if self._spool:
            try:
                sealed.path = self._spool.store(stem, body)
            except OSError as error:
                _log.error("a batch can't be stored, and is sent from memory: %s", error)
        return sealed

    def _send(self, task: Sealed) -> None:
        try:
            self._send_once(task)
        except Exception as error:
            _log.exception("a batch can't be read or sent, and will be tried again: %s", error)
            self._again(task, time.monotonic() + _FAILURE_PAUSE_S)

    def _send_once(self, task: Sealed) -> None:
        body = task.body or self._read(task)
        if not body:
            return
        began = time.monotonic()
        answer = self._transport.send_batch(body, batch_id_of(task.stem), task.count)
        self._reports.measure("request_s", time.monotonic() - began)
        with self._progress:
            if task in self._abandoned:
                return
            self._sending.discard(task)
        if answer.outcome == "retried" or (
            answer.outcome == "split" and not answer.is_gateways and task.count == 1
        ):
            self._retry(task, body, answer, began)
            return
        with self._progress:
            self._pause.succeed()
        if answer.outcome == "acknowledged":
            if self._reports.needs_receipt_ids:
                identifiers = [receipt_id(receipt) for receipt in receipts_of(body)]
                self._reports.acknowledge(
                    Acknowledgement(
                        batch_id_of(task.stem), identifiers, answer.acknowledgement, body
                    )
                )
            self._end(task, acknowledged=task.count)
        else:
            self._take_apart(task, body, answer)

    def _read(self, task: Sealed) -> bytes | None:
        """Return the body of an ended process's batch; report one that can't be read."""
        assert task.path and self._spool
        try:
            left = self._spool.read(task.path)
        except FileNotFoundError:
            left = Leftover(task.stem, task.path, damaged=[b""] * task.count)
        if not left.body:
            self._reports.reject(_damaged(left))
            self._end(task)
        return left.body

    def _retry(self, task: Sealed, body: bytes, answer: Answer, began: float) -> None:
        """Pause all requests, as the service is overloaded or away, and this batch, as it may be
        its own fault."""
        hours_max = self._options.spool_hours_max
        if task.path and time.time() * 1_000 - time_ms(task.stem) > hours_max * 3_600_000:
            detail = f"waited in the spool for over {hours_max:g} hours, last {answer.code}"
            self._reject_all(task, body, Answer("refused", "expired", detail))
            return
        task.attempts += 1
        with self._progress:
            due = self._pause.fail(began, task.attempts, answer.retry_after_s)
            self._retries += 1
        _log.log(
            logging.ERROR if answer.is_strange else logging.WARNING,
            "a batch isn't acknowledged (%s %s), next try in %.1f s",
            answer.code,
            answer.detail,
            due - time.monotonic(),
        )
        self._reports.measure("retries", 1)
        self._again(task, due)

    def _again(self, task: Sealed, not_before: float) -> None:
        with self._progress:
            if task in self._abandoned:
                return
            task.not_before = not_before
            self._sending.discard(task)
        self._enqueue(task)

    def _take_apart(self, task: Sealed, body: bytes, answer: Answer) -> None:
        """Remove the receipts that the service named, and send the others in new batches."""
        receipts = receipts_of(body)
        faults = {fault.index: fault for fault in reversed(answer.faults)}
        good = [receipt for index, receipt in enumerate(receipts) if index not in faults]
        if len(good) < len(receipts):
            parts = [good] if good else []
        elif answer.outcome == "split" and len(receipts) > 1:
            half = len(receipts) // 2
            parts = [receipts[:half], receipts[half:]]
        else:
            self._reject_all(task, body, answer)
            return
        # Stored before the old batch is deleted: a repeated receipt counts once, a lost one never.
        batches: list[Sealed] = []
        for part in parts:
            stem = new_stem(new_id(), time_ms(task.stem))
            batches.append(self._sealed_batch(part, task.sequence, stem))
        self._reports.reject(
            [
                _rejection(receipts[index], fault.code, fault.detail, fault.pointer)
                for index, fault in sorted(faults.items())
                if index < len(receipts)
            ]
        )
        with self._progress:
            self._queued += sum(batch.count for batch in batches)
            self._queued_bytes += sum(batch.size for batch in batches)
            self._pending[task.sequence] += len(batches)
            if task.path and not all(batch.path for batch in batches):
                self._backing.setdefault(task.sequence, []).append(task.path)
                task.path = None
        self._enqueue(*batches)
        self._end(task)

    def _reject_all(self, task: Sealed, body: bytes, answer: Answer) -> None:
        self._reports.reject(
            [_rejection(receipt, answer.code, answer.detail) for receipt in receipts_of(body)]
        )
        if task.path and self._spool:
            self._spool.reject(task.path)
        self._end(task)

    def _keep(self, unsealed: list[Unsealed], sealed: list[Sealed]) -> None:
        """Leave undelivered receipts of a closed client in the spool, or report them."""
        lost = [receipt for task in unsealed if not task.path for receipt in task.receipts]
        for task in sealed:
            files = [task.path, *self._backing.get(task.sequence, [])]
            if task.body and not any(file and file.exists() for file in files):
                lost += receipts_of(task.body)
        detail = "the client was closed before the service answered"
        self._reports.reject([_rejection(receipt, "undelivered", detail) for receipt in lost])
        for one in unsealed:
            if one.journal:
                self._sync(one.journal)
                one.journal.close()

    def _end(self, task: Sealed, acknowledged: int = 0) -> None:
        with self._progress:
            self._sending.discard(task)
            if acknowledged:
                self._acknowledged += acknowledged
                self._batches += 1
        if acknowledged:
            self._reports.measure("acknowledged", acknowledged)
        self._finish(task.sequence, task.count, task.size, task.path)

    def _finish(self, sequence: int, count: int, size: int, path: Path | None) -> None:
        """End a batch: delete its file, and those of its list if it was the last."""
        _delete(path)
        with self._progress:
            self._queued -= count
            self._queued_bytes -= size
            self._pending[sequence] -= 1
            if not self._pending[sequence]:
                for backing in self._backing.pop(sequence, []):
                    _delete(backing)
                del self._pending[sequence]
            self._progress.notify_all()
            self._work_ready.notify_all()


def _rejection(receipt: bytes, code: str, detail: str, pointer: str = "") -> Rejection:
    return Rejection(receipt_id(receipt), code, detail, pointer, receipt)


def _damaged(left: Leftover) -> list[Rejection]:
    """Return what to report of bytes that can't be read: each receipt whose ID is left."""
    location = left.retained or f"{left.path}, which was removed"
    detail = f"the spool's file can't be read and is retained as {location}"
    return [
        Rejection(identifier, "damaged", detail, "", data)
        for data in left.damaged
        for identifier in receipt_ids(data) or [""]
    ]


def _delete(path: Path | None) -> None:
    """Delete an acknowledged file. One that can't be deleted is sent again by a later process; its
    receipts count once."""
    try:
        if path:
            path.unlink(missing_ok=True)
    except OSError as error:
        _log.error("an acknowledged file of the spool can't be deleted: %s", error)
