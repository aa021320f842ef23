"""Receipts and batches in files, until they are acknowledged.

Each client has a slot of the directory: ``0``, ``1`` and so on, the first whose lock is free. A new
client also adopts what ended processes left in other slots. A slot contains a ``.journal`` for
each list of receipts that isn't a batch yet, and a ``.batch`` for each sealed batch. Both are named
by the time of the first receipt and the batch's ID, so a journal whose batch exists is a leftover
of a crash between the two. A frame is a length and a CRC-32, both of four bytes and big-endian, and
the data, a JSON object. Bytes that are no frame cost nobody else: reading continues at the next.
``rejected`` keeps what the service refused, and ``damaged`` what can't be read, for people.

A directory that somebody removed is made again when something is to be written.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import re
import shutil
import struct
import threading
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
# macOS has no fdatasync.
_sync_data = getattr(os, "fdatasync", os.fsync)
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
        the machine. After an ``OSError`` the receipt isn't stored, and the journal takes no more;
        ``FileNotFoundError`` means that somebody removed the file.
        """
        if not os.fstat(self._file.fileno()).st_nlink:
            raise FileNotFoundError(errno.ENOENT, "somebody removed the journal", str(self.path))
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
        _sync_data(self._file.fileno())
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
    """A list of receipts, or a sealed batch, of a process that ended.

    ``damaged`` are the runs of bytes that can't be read, of a file that is stored as ``retained``.
    """

    stem: str
    path: Path
    receipts: list[bytes] = field(default_factory=list)
    body: bytes = b""
    damaged: list[bytes] = field(default_factory=list)
    retained: Path | None = None


class Spool:
    """A slot of a spool directory.

    ``retained_bytes_max`` bounds ``rejected`` and ``damaged`` each.
    """

    def __init__(self, directory: Path, retained_bytes_max: int) -> None:
        self._directory = directory
        self._retained_bytes_max = retained_bytes_max
        self._has_adopted = False
        # Of the slot, when it is taken again.
        self._slot_lock = threading.Lock()
        self._lock_file, self.slot = _take_slot(directory)

    def new_journal(self, stem: str) -> Journal:
        """Begin the journal of a batch."""
        return Journal(self._usable_slot() / f"{stem}.journal")

    def store(self, stem: str, body: bytes) -> Path:
        """Store a batch durably."""
        slot = self._usable_slot()
        path = slot / f"{stem}.batch"
        part = path.with_suffix(".part")
        try:
            with open(part, "wb") as file:
                file.write(_frame(body))
                file.flush()
                os.fsync(file.fileno())
            part.rename(path)
            _sync_directory(slot)
        except OSError:
            for left in (part, path):
                with contextlib.suppress(OSError):
                    left.unlink()
            raise
        return path

    def read(self, path: Path) -> Leftover:
        """Return the batch of a file, with ``damaged`` and no ``body`` if the file is damaged,
        which moves it away. Raises ``OSError``."""
        data = path.read_bytes()
        frames, damaged = _frames(data)
        if len(frames) == 1 and not damaged:
            return Leftover(path.stem, path, body=frames[0])
        retained = self._put_away(path, "damaged")
        return Leftover(path.stem, path, damaged=[data], retained=retained)

    def reject(self, path: Path) -> None:
        """Keep a batch that the service refused, for people."""
        self._put_away(path, "rejected")

    def close(self) -> None:
        """Give the slot back."""
        self._lock_file.close()

    def adopt(self) -> Iterator[Leftover]:
        """Yield what ended processes left since the last call, oldest first. Files of other slots
        are moved into this one, where the first call finds files of earlier owners too."""
        files = [] if self._has_adopted else list(self.slot.iterdir())
        self._has_adopted = True
        for slot in self._directory.iterdir():
            lock = _lock(slot) if slot.name.isdecimal() and slot != self.slot else None
            if lock:
                with lock:
                    for file in [*slot.glob("*.journal"), *slot.glob("*.batch")]:
                        files.append(file.rename(self.slot / file.name))
        for file in files:
            if file.suffix == ".part":
                file.unlink()
        files = [file for file in files if file.suffix in _SUFFIXES]
        for stem in sorted({file.stem for file in files if _STEM.fullmatch(file.stem)}):
            left = self._leftover(stem)
            if left:
                yield left

    def _leftover(self, stem: str) -> Leftover | None:
        batch, journal = (self.slot / f"{stem}{suffix}" for suffix in _SUFFIXES)
        left = self.read(batch) if batch.exists() else None
        if left and left.body:
            # The process ended between storing the batch and deleting its journal.
            journal.unlink(missing_ok=True)
            return left
        if not journal.exists():
            return left
        receipts, damaged = _frames(journal.read_bytes())
        if not receipts and not damaged:
            journal.unlink()
            return None
        # The journal stays until its receipts are in a batch.
        retained = self._put_away(journal, "damaged", is_copy=True) if damaged else None
        return Leftover(stem, journal, receipts, damaged=damaged, retained=retained)

    def _usable_slot(self) -> Path:
        with self._slot_lock:
            if not os.fstat(self._lock_file.fileno()).st_nlink:
                lock_file, self.slot = _take_slot(self._directory)
                self._lock_file.close()
                self._lock_file = lock_file
                _log.error("somebody removed the spool, which is made again as %s", self.slot)
            return self.slot

    def _put_away(self, path: Path, folder: str, is_copy: bool = False) -> Path | None:
        """Move or copy a file, and return where it is."""
        target = self._directory / folder
        try:
            target.mkdir(exist_ok=True, mode=0o700)
            retained = target / path.name
            if is_copy:
                shutil.copyfile(path, retained)
            else:
                path.rename(retained)
            _log.error("%s is retained as %s", path.name, retained)
            _bound(target, self._retained_bytes_max)
        except OSError as error:
            _log.error("%s can't be retained in %s: %s", path, target, error)
            return None
        return retained


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


def _frames(data: bytes) -> tuple[list[bytes], list[bytes]]:
    """Return the frames, and the runs of bytes that are none."""
    frames: list[bytes] = []
    damaged: list[bytes] = []
    position = 0
    while position < len(data):
        frame = _frame_at(data, position)
        if frame is not None:
            frames.append(frame)
            position += _HEAD.size + len(frame)
        else:
            end = _next_frame(data, position + 1)
            damaged.append(data[position:end])
            position = end
    return frames, damaged


def _frame_at(data: bytes, position: int) -> bytes | None:
    start = position + _HEAD.size
    if start > len(data):
        return None
    length, checksum = _HEAD.unpack_from(data, position)
    # A file system may fill a file with zeros that a crash cut off: that is no empty frame.
    if length == 0 or start + length > len(data):
        return None
    frame = data[start : start + length]
    return frame if zlib.crc32(frame) == checksum else None


def _next_frame(data: bytes, position: int) -> int:
    """Return where the next frame begins: before an object whose length and checksum fit."""
    start = data.find(b"{", position + _HEAD.size)
    while start >= 0 and _frame_at(data, start - _HEAD.size) is None:
        start = data.find(b"{", start + 1)
    return start - _HEAD.size if start >= 0 else len(data)


def _take_slot(directory: Path) -> tuple[BinaryIO, Path]:
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
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
