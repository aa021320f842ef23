"""Work of the delivery threads: lists to seal, and batches to send."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from .errors import Rejection
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
    # What can't be read of the files of an ended process, to be reported.
    damaged: list[Rejection] = field(default_factory=list)

    @property
    def path(self) -> Path | None:
        """The file that has the receipts, if it exists."""
        path = self.journal.path if self.journal else self.adopted
        return path if path and path.exists() else None

    def close(self) -> None:
        """Close the journal and keep it."""
        if self.journal:
            self.journal.close()


@dataclass(eq=False)
class Sealed:
    """A batch that isn't acknowledged.

    Its body is in memory, and in the file ``path`` if the spool could store it. That of an ended
    process is in the file only.
    """

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
