"""Receipts and batches in files, until they are acknowledged.

Each process has a slot of the directory: ``0``, ``1`` and so on, the first whose lock is free. A
new process also adopts what ended processes left in other slots. A slot contains a ``.journal`` for
each list of receipts that isn't a batch yet, and a ``.batch`` for each sealed batch; their names
begin with the time. A frame is a length and a CRC-32, both of four bytes and big-endian, and the
data.
``rejected`` keeps what the service refused, and ``damaged`` what can't be read, for people.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import logging
import os
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_HEAD = struct.Struct(">II")
_SLOTS_MAX = 1_024
_log = logging.getLogger("receipts_client")


class Journal:
    """Receipts that aren't in a batch yet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115
        self._is_dirty = False

    def append(self, receipt: bytes) -> None:
        """Write a receipt. It survives the end of the process, and after the next ``sync`` that of
        the machine. Raises ``OSError``, and then the receipt isn't stored."""
        end = self._file.seek(0, os.SEEK_END)
        data = _frame(receipt)
        try:
            if self._file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        except OSError:
            self._file.truncate(end)
            raise
        self._is_dirty = True

    def sync(self) -> None:
        """Flush to the disk what was written."""
        if self._is_dirty:
            self._is_dirty = False
            os.fdatasync(self._file.fileno())

    def close(self) -> None:
        self._file.close()

    def delete(self) -> None:
        """Delete the journal, whose receipts are stored in a batch."""
        self.close()
        self.path.unlink(missing_ok=True)


class Spool:
    """A slot of a spool directory."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._directory = directory
        self._lock_file, self.slot = _take_slot(directory)
        self._journals = itertools.count()

    def new_journal(self) -> Journal:
        """Begin a journal."""
        name = f"{time.time_ns() // 1_000_000}-{os.getpid()}-{next(self._journals)}.journal"
        return Journal(self.slot / name)

    def store(self, batch_id: str, body: bytes) -> Path:
        """Store a batch durably."""
        path = self.slot / f"{time.time_ns() // 1_000_000}-{batch_id}.batch"
        part = path.with_suffix(".part")
        with open(part, "wb") as file:
            file.write(_frame(body))
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
        _sync_directory(self.slot)
        return path

    def read(self, path: Path) -> bytes | None:
        """Return the body of a batch; ``None`` if the file is damaged, which moves it away."""
        frames = list(_frames(path.read_bytes()))
        if len(frames) == 1:
            return frames[0]
        self._put_away(path, "damaged")
        return None

    def delete(self, path: Path) -> None:
        """Delete an acknowledged batch."""
        path.unlink(missing_ok=True)

    def reject(self, path: Path) -> None:
        """Keep a batch that the service refused, for people."""
        self._put_away(path, "rejected")

    def close(self) -> None:
        """Give the slot back."""
        self._lock_file.close()

    def _put_away(self, path: Path, folder: str) -> None:
        target = self._directory / folder
        target.mkdir(exist_ok=True, mode=0o700)
        _log.error("moved %s to %s", path, target)
        path.rename(target / path.name)

    def adopt(self) -> tuple[list[tuple[Journal, list[bytes]]], list[Path]]:
        """Return what ended processes left, oldest first: journals with receipts, and batches.

        Files of other slots are moved into this one.
        """
        for slot in sorted(self._directory.iterdir()):
            lock = _lock(slot) if slot.name.isdigit() and slot != self.slot else None
            if lock:
                with lock:
                    for file in [*slot.glob("*.journal"), *slot.glob("*.batch")]:
                        file.rename(self.slot / file.name)
        for part in self.slot.glob("*.part"):
            part.unlink()
        journals = []
        for path in sorted(self.slot.glob("*.journal")):
            # The last frame may be cut off: its `append` had not returned.
            receipts = list(_frames(path.read_bytes()))
            journals.append((Journal(path), receipts))
        return journals, sorted(self.slot.glob("*.batch"))


def age_ms(path: Path) -> int:
    """Return the age of a stored batch in milliseconds."""
    return time.time_ns() // 1_000_000 - int(path.name.partition("-")[0])


def _frame(data: bytes) -> bytes:
    return _HEAD.pack(len(data), zlib.crc32(data)) + data


def _frames(data: bytes) -> Iterator[bytes]:
    """Yield the frames up to the first that is cut off or damaged."""
    position = 0
    while position + _HEAD.size <= len(data):
        length, checksum = _HEAD.unpack_from(data, position)
        position += _HEAD.size
        frame = data[position : position + length]
        if len(frame) < length or zlib.crc32(frame) != checksum:
            _log.error("a spool file is damaged behind byte %d", position)
            return
        yield frame
        position += length


def _take_slot(directory: Path) -> tuple[BinaryIO, Path]:
    for number in range(_SLOTS_MAX):
        slot = directory / str(number)
        slot.mkdir(exist_ok=True, mode=0o700)
        lock = _lock(slot)
        if lock:
            return lock, slot
    raise OSError(f"{directory}: {_SLOTS_MAX} processes use this spool")


def _lock(slot: Path) -> BinaryIO | None:
    """Lock a slot; ``None`` if another process has it."""
    file = open(slot / "lock", "ab")  # noqa: SIM115
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
