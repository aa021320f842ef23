"""Work of the delivery threads: lists to seal, and batches to send."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from .spool import Journal


@dataclass(eq=False)
class Unsealed:
    """Receipts that aren't a batch yet. ``stem`` names the batch that they become."""

    sequence: int
    stem: str
    journal: Journal | None = None
    # The journal of an ended process.
    adopted: Path | None = None
    since: float = field(default_factory=time.monotonic)
    receipts: list[bytes] = field(default_factory=list)
    # Bytes of the receipts and the commas between them.
    size: int = 0
    not_before: float = 0.0

    def delete_files(self) -> None:
        """Delete the journal, whose receipts are stored in a batch."""
        if self.journal:
            self.journal.delete()
        if self.adopted:
            self.adopted.unlink(missing_ok=True)


@dataclass(eq=False)
class Sealed:
    """A batch that isn't acknowledged. Its body is in memory or in a file."""

    sequence: int
    stem: str
    count: int
    size: int
    body: bytes | None = None
    path: Path | None = None
    attempts: int = 0
    not_before: float = 0.0


Task = TypeVar("Task", Unsealed, Sealed)


def take_due(queue: deque[Task], now: float) -> Task | None:
    """Remove and return the first task whose time has come."""
    for index, task in enumerate(queue):
        if task.not_before <= now:
            del queue[index]
            return task
    return None
