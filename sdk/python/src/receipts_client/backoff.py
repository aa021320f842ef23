"""When a request may be made again."""

from __future__ import annotations

import random
import time
from datetime import timezone
from email.utils import parsedate_to_datetime

# A longer Retry-After is cut to an hour: a mistake of a proxy must not stop the client permanently.
RETRY_AFTER_S_MAX = 3_600.0


class Pause:
    """The pause of all requests after failures, which mean that the service is overloaded or away.

    Not thread-safe: its owner has a lock.
    """

    def __init__(self, delay_min_s: float, delay_max_s: float) -> None:
        self._delays = (delay_min_s, delay_max_s)
        self._failures = 0
        self._failed_at = 0.0
        self.until = 0.0

    def succeed(self) -> None:
        """Begin with short delays again."""
        self._failures = 0

    def fail(self, began: float, attempts: int, retry_after_s: float) -> float:
        """Extend the pause; return when a batch that failed for the ``attempts``-th time is due.

        ``began`` is when its request began: requests at one time that fail are one failure.
        """
        now = time.monotonic()
        if began >= self._failed_at:
            self._failures += 1
            self._failed_at = now
        due = now + backoff_s(self._failures, retry_after_s, *self._delays)
        self.until = max(self.until, due)
        if attempts > self._failures:
            # Others succeeded meanwhile, so it is the batch's own fault.
            due = now + backoff_s(attempts, retry_after_s, *self._delays)
        return due


def backoff_s(attempt: int, retry_after_s: float, delay_min_s: float, delay_max_s: float) -> float:
    """Return the time before the next try: full jitter, and never before ``Retry-After``.

    ``attempt`` counts from 1. The bound doubles from twice ``delay_min_s`` up to ``delay_max_s``.
    """
    bound = min(delay_max_s, delay_min_s * 2 ** min(attempt, 30))
    return retry_after_s + random.uniform(delay_min_s, max(bound, delay_min_s))


def retry_after_s(value: str | None) -> float:
    """Return the seconds of a ``Retry-After`` (RFC 9110, section 10.2.3), at most an hour."""
    text = (value or "").strip()
    if text.isascii() and text.isdecimal():
        return min(float(text), RETRY_AFTER_S_MAX)
    try:
        date = parsedate_to_datetime(text)
        if date.tzinfo is None:
            date = date.replace(tzinfo=timezone.utc)
        return min(max(0.0, date.timestamp() - time.time()), RETRY_AFTER_S_MAX)
    except (TypeError, ValueError, OverflowError):
        return 0.0
