"""Receipts and batches in files, until they are acknowledged.

Each client has a slot of the directory: ``0``, ``1`` and so on, the first whose lock is free. A new
client also adopts what ended processes left in other slots. A slot contains a ``.journal`` for
each list of receipts that isn't a batch yet, and a ``.batch`` for each sealed batch. Both are named
by the time of the first receipt and the batch's ID, so a journal whose batch exists is a leftover
of a crash between the two. A frame is a length and a CRC-32, both of four bytes and big-endian, and
the data.
``rejected`` keeps what the service refused, and ``damaged`` what can't be read, for people.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
import struct
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

_HEAD = struct.Struct(">II")
_SLOTS_MAX = 1_024
_SUFFIXES = (".batch", ".journal")
_STEM = re.compile(r"\d{13,15}-[-0-9a-f]{36}")
_log = logging.getLogger("receipts_client")


class Journal:
    """Receipts that aren't in a batch yet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115
        self._end = 0
        self._is_new = True
        self._is_dirty = False

    def append(self, receipt: bytes) -> None:
        """Write a receipt. It survives the end of the process, and after the next ``sync`` that of
        the machine. After an ``OSError`` the receipt isn't stored, and the journal takes no more.
        """
        data = _frame(receipt)
        try:
            if self._file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        except OSError:
            self._file.truncate(self._end)
            raise
        self._end += len(data)
        self._is_dirty = True

    def sync(self) -> None:
        """Flush to the disk what was written. Raises ``OSError``, or ``ValueError`` if the journal
        was deleted."""
        if not self._is_dirty:
            return
        self._is_dirty = False
        os.fdatasync(self._file.fileno())
        if self._is_new:
            _sync_directory(self.path.parent)
            self._is_new = False

    def close(self) -> None:
        """Close the file and keep it."""
        self._file.close()

    def delete(self) -> None:
        """Delete the journal, whose receipts are stored in a batch."""
        self.close()
        self.path.unlink(missing_ok=True)


@dataclass
class Leftover:
    """A list of receipts, or a sealed batch, of a process that ended."""

    stem: str
    path: Path
    receipts: list[bytes] = field(default_factory=list)
    body: bytes = b""


class Spool:
    """A slot of a spool directory. ``kept_bytes_max`` bounds ``rejected`` and ``damaged`` each."""

    def __init__(self, directory: Path, kept_bytes_max: int) -> None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._directory = directory
        self._kept_bytes_max = kept_bytes_max
        self._lock_file, self.slot = _take_slot(directory)

    def new_journal(self, stem: str) -> Journal:
        """Begin the journal of a batch."""
        return Journal(self.slot / f"{stem}.journal")

    def store(self, stem: str, body: bytes) -> Path:
        """Store a batch durably."""
        path = self.slot / f"{stem}.batch"
        part = path.with_suffix(".part")
        with open(part, "wb") as file:
            file.write(_frame(body))
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
        _sync_directory(self.slot)
        return path

    def read(self, path: Path) -> bytes | None:
        """Return the body of a batch; ``None`` if the file is damaged, which moves it away, or was
        removed."""
        try:
            frames = list(_frames(path.read_bytes(), path))
        except FileNotFoundError:
            _log.error("%s was removed by someone else", path)
            return None
        if len(frames) == 1:
            return frames[0]
        self._put_away(path, "damaged")
        return None

    def delete(self, path: Path) -> None:
        """Delete an acknowledged batch. One that can't be deleted is sent again by a later process;
        its receipts count once."""
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            _log.error("an acknowledged batch can't be deleted: %s", error)

    def reject(self, path: Path) -> None:
        """Keep a batch that the service refused, for people."""
        self._put_away(path, "rejected")

    def close(self) -> None:
        """Give the slot back."""
        self._lock_file.close()

    def adopt(self) -> Iterator[Leftover]:
        """Yield what ended processes left, oldest first. Files of other slots are moved into this
        one."""
        for slot in self._directory.iterdir():
            lock = _lock(slot) if slot.name.isdecimal() and slot != self.slot else None
            if lock:
                with lock:
                    for file in [*slot.glob("*.journal"), *slot.glob("*.batch")]:
                        file.rename(self.slot / file.name)
        for part in self.slot.glob("*.part"):
            part.unlink()
        files = [file for file in self.slot.iterdir() if file.suffix in _SUFFIXES]
        for stem in sorted({file.stem for file in files if _STEM.fullmatch(file.stem)}):
            left = self._leftover(stem)
            if left:
                yield left

    def _leftover(self, stem: str) -> Leftover | None:
        batch, journal = (self.slot / f"{stem}{suffix}" for suffix in _SUFFIXES)
        body = self.read(batch) if batch.exists() else None
        if body is not None:
            # The process ended between storing the batch and deleting its journal.
            journal.unlink(missing_ok=True)
            return Leftover(stem, batch, [], body)
        # The last frame may be cut off: its `append` had not returned.
        receipts = list(_frames(journal.read_bytes(), journal)) if journal.exists() else []
        if receipts:
            return Leftover(stem, journal, receipts)
        journal.unlink(missing_ok=True)
        return None

    def _put_away(self, path: Path, folder: str) -> None:
        target = self._directory / folder
        try:
            target.mkdir(exist_ok=True, mode=0o700)
            path.rename(target / path.name)
            _log.error("moved %s to %s", path, target)
            _bound(target, self._kept_bytes_max)
        except OSError as error:
            _log.error("%s can't be moved to %s: %s", path, target, error)


def time_ms(stem: str) -> int:
    """Return the time of a batch's first receipt, in milliseconds since 1970."""
    return int(stem.partition("-")[0])


def new_stem(batch_id: str, at_ms: int | None = None) -> str:
    """Return the name of a batch's files, without their suffix."""
    return f"{time.time_ns() // 1_000_000 if at_ms is None else at_ms:013}-{batch_id}"


def batch_id_of(stem: str) -> str:
    """Return the ID of the batch."""
    return stem.partition("-")[2]


def _bound(folder: Path, bytes_max: int) -> None:
    """Delete the oldest files beyond ``bytes_max``. What was refused has been reported."""
    sizes = {file: file.stat().st_size for file in folder.iterdir()}
    total = sum(sizes.values())
    for file in sorted(sizes):
        if total <= bytes_max:
            return
        file.unlink(missing_ok=True)
        total -= sizes[file]
        _log.error("deleted %s: %s has at most %d bytes", file.name, folder, bytes_max)


def _frame(data: bytes) -> bytes:
    return _HEAD.pack(len(data), zlib.crc32(data)) + data


def _frames(data: bytes, path: Path) -> Iterator[bytes]:
    """Yield the frames up to the first that is cut off or damaged."""
    position = 0
    while position < len(data):
        head = data[position : position + _HEAD.size]
        length, checksum = _HEAD.unpack(head) if len(head) == _HEAD.size else (0, 0)
        start = position + _HEAD.size
        frame = data[start : start + length]
        # A file system may fill a file with zeros that a crash cut off: that is no empty frame.
        if length == 0 or len(frame) < length or zlib.crc32(frame) != checksum:
            _log.error("%s is cut off or damaged behind byte %d", path, position)
            return
        yield frame
        position = start + length


def _take_slot(directory: Path) -> tuple[BinaryIO, Path]:
    for number in range(_SLOTS_MAX):
        slot = directory / str(number)
        slot.mkdir(exist_ok=True, mode=0o700)
        lock = _lock(slot)
        if lock:
            return lock, slot
    raise OSError(f"{directory}: {_SLOTS_MAX} clients use this spool")


def _lock(slot: Path) -> BinaryIO | None:
    """Lock a slot; ``None`` if another client has it."""
    file = open(slot / "lock", "ab")  # noqa: SIM115
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except OSError:
        file.close()
        raise
    return file


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
