"""Requests to the gateway, and when to try again."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

import urllib3

BATCH_PATH = "/api/v1/receipts/batch"
_RETRIED = {408, 429}
_ANSWER_BYTES_MAX = 4 << 20


@dataclass(frozen=True)
class Fault:
    """A fault that the service found; ``index`` is the receipt's in its batch."""

    index: int
    code: str
    pointer: str
    detail: str


@dataclass(frozen=True)
class Answer:
    """What became of a request.

    ``status`` is 0 if there was no answer. ``retry_after_s`` is the least time until the next try.
    """

    status: int
    code: str = ""
    detail: str = ""
    pointer: str = ""
    faults: list[Fault] = field(default_factory=list)
    retry_after_s: float = 0.0

    @property
    def is_acknowledged(self) -> bool:
        return self.status == 202

    @property
    def is_retried(self) -> bool:
        """Whether the same bytes may be accepted later."""
        return not 400 <= self.status < 500 or self.status in _RETRIED


class Transport:
    """Connections to the gateway."""

    def __init__(self, url: str, ca_file: str | None, requests_max: int) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"url is {url!r}: write http:// or https:// and a host")
        self._url = url.rstrip("/")
        self._options = (url, ca_file, requests_max)
        self._pool = urllib3.PoolManager(
            maxsize=requests_max,
            retries=False,
            timeout=urllib3.Timeout(connect=5, read=30),
            ca_certs=ca_file,
        )

    def send_batch(self, body: bytes) -> Answer:
        """Send a batch once."""
        try:
            response = self._pool.request(
                "POST",
                self._url + BATCH_PATH,
                body=body,
                headers={
                    "Content-Type": "application/json",
                    "User-Agent": "receipts-client-python",
                },
                redirect=False,
                preload_content=False,
            )
            try:
                data = response.read(_ANSWER_BYTES_MAX)
            finally:
                response.release_conn()
        except urllib3.exceptions.HTTPError as error:
            return Answer(0, "unreachable", str(error))
        retry_after_s = _retry_after_s(response.headers.get("Retry-After"))
        return _answer(response.status, data, retry_after_s)

    def request(
        self, method: str, url: str, headers: dict[str, str], body: bytes | None = None
    ) -> tuple[int, bytes]:
        """Send another request once; return status and body. Raises urllib3's errors."""
        response = self._pool.request(method, url, headers=headers, body=body, redirect=False)
        return response.status, response.data

    def again(self) -> Transport:
        """Return a transport with the same options and no connections."""
        return Transport(*self._options)

    @property
    def url(self) -> str:
        return self._url


def _answer(status: int, data: bytes, retry_after_s: float) -> Answer:
    try:
        members = json.loads(data)
    except ValueError:
        members = None
    if not isinstance(members, dict):
        # Something else than the gateway answered: a proxy, or the answer was cut off.
        is_final = 400 <= status < 500
        return Answer(
            status if is_final else 0,
            "unexpected_answer",
            f"status {status}",
            "",
            [],
            retry_after_s,
        )
    if status == 202 and "batchId" not in members:
        return Answer(0, "unexpected_answer", "a 202 without batchId", "", [], retry_after_s)
    if status in (200, 201, 204):
        return Answer(0, "unexpected_answer", f"status {status}", "", [], retry_after_s)
    faults = [fault for error in members.get("errors", []) if (fault := _fault(error))]
    return Answer(
        status,
        str(members.get("code", status)),
        str(members.get("detail", "")),
        str(members.get("pointer", "")),
        faults,
        retry_after_s,
    )


def _fault(error: Any) -> Fault | None:
    parts = str(error.get("pointer", "")).split("/")
    if len(parts) < 3 or parts[1] != "receipts" or not parts[2].isdigit():
        return None
    pointer = "/".join(["", *parts[3:]]) if len(parts) > 3 else ""
    return Fault(int(parts[2]), str(error.get("code")), pointer, str(error.get("detail", "")))


def _retry_after_s(value: str | None) -> float:
    """Return the seconds of a ``Retry-After`` (RFC 9110, section 10.2.3)."""
    if not value:
        return 0.0
    if value.strip().isdigit():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0.0


def backoff_s(attempt: int, retry_after_s: float, delay_min_s: float, delay_max_s: float) -> float:
    """Return the time before the next try: full jitter, and never before ``Retry-After``.

    ``attempt`` counts from 1. The bound doubles from twice ``delay_min_s`` up to ``delay_max_s``.
    """
    bound = min(delay_max_s, delay_min_s * 2 ** min(attempt, 30))
    return retry_after_s + random.uniform(delay_min_s, max(bound, delay_min_s))
