"""Bounds and intervals of a client, and what they may be."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Options:
    """Bounds and intervals of a client. Sizes are in bytes, times in seconds.

    Raises ``ValueError`` for values that can't be.
    """

    batch_receipts_max: int = 500
    batch_bytes_max: int = 1 << 20
    batch_delay_s: float = 1.0
    # Receipts have some 750 bytes: either bound can be reached.
    queue_receipts_max: int = 50_000
    queue_bytes_max: int = 64 << 20
    queue_wait_s: float = 1.0
    requests_in_flight_max: int = 2
    # From the connection to the end of the answer.
    request_timeout_s: float = 30.0
    # Whether bodies are compressed with gzip.
    is_compressed: bool = True
    retry_min_s: float = 0.2
    retry_max_s: float = 30.0
    sync_interval_s: float = 0.1
    spool_hours_max: float = 72.0
    # Bounds `rejected` and `damaged` of the spool each; the oldest are deleted first.
    spool_retained_bytes_max: int = 64 << 20

    def __post_init__(self) -> None:
        for one in fields(self):
            name, value = one.name, getattr(self, one.name)
            if one.type == "bool":
                if not isinstance(value, bool):
                    raise ValueError(f"{name} is {value!r}: give True or False")
                continue
            kinds = int if one.type == "int" else (int, float)
            if isinstance(value, bool) or not isinstance(value, kinds):
                raise ValueError(f"{name} is {value!r}: give a number ({one.type})")
            if not 0 <= value < math.inf:
                raise ValueError(f"{name} is {value!r}: give a number that isn't negative")
            if value == 0 and (name.endswith("_max") or name == "request_timeout_s"):
                raise ValueError(f"{name} is 0: give a positive number")
        if self.batch_receipts_max > 10_000 or self.batch_bytes_max > 8_000_000:
            raise ValueError("the service takes at most 10,000 receipts and 8 MB in a batch")
