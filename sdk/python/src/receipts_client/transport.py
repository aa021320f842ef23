"""Requests to the gateway, and what its answers mean."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import urllib3

from .backoff import retry_after_s

BATCH_PATH = "/api/v1/receipts/batch"
_RETRIED = {408, 429}
_ANSWER_BYTES_MAX = 16 << 20
_POINTER = re.compile(r"/receipts/([0-9]{1,9})((?:/.*)?)", re.DOTALL)


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
    faults: list[Fault] = field(default_factory=list)
    retry_after_s: float = 0.0

    @property
    def is_acknowledged(self) -> bool:
        return self.status == 202

    @property
    def is_retried(self) -> bool:
        """Whether the same bytes may be accepted later."""
        is_final = self.is_acknowledged or 400 <= self.status < 500
        return not is_final or self.status in _RETRIED


class Transport:
    """Connections to the gateway. Raises ``ValueError`` for a URL that can't be."""

    def __init__(self, url: str, ca_file: str | None, connections_max: int) -> None:
        try:
            host = urllib3.util.parse_url(url).host
        except urllib3.exceptions.LocationParseError:
            host = None
        if not url.startswith(("http://", "https://")) or not host or "?" in url or "#" in url:
            raise ValueError(f"url is {url!r}: write http:// or https://, a host, and no query")
        self.url = url.rstrip("/")
        self._options = (url, ca_file, connections_max)
        self._pool = urllib3.PoolManager(
            maxsize=connections_max,
            retries=False,
            timeout=urllib3.Timeout(connect=5, read=30),
            ca_certs=ca_file,
        )

    def send_batch(self, body: bytes, batch_id: str) -> Answer:
        """Send a batch once."""
        headers = {"Content-Type": "application/json"}
        try:
            status, data, retry_s = self.request("POST", self.url + BATCH_PATH, headers, body)
        except urllib3.exceptions.HTTPError as error:
            return Answer(0, "unreachable", str(error))
        return answer_of(status, data, retry_s, batch_id)

    def request(
        self, method: str, url: str, headers: dict[str, str], body: bytes | None = None
    ) -> tuple[int, bytes, float]:
        """Send a request once; return status, body and ``Retry-After``. Raises urllib3's errors."""
        response = self._pool.request(
            method,
            url,
            body=body,
            headers={**headers, "User-Agent": "receipts-client-python"},
            redirect=False,
            preload_content=False,
        )
        # Closed unless it was read to its end: what is left would precede the next answer.
        is_whole = False
        try:
            data = response.read(_ANSWER_BYTES_MAX + 1)
            is_whole = len(data) <= _ANSWER_BYTES_MAX
        finally:
            if is_whole:
                response.release_conn()
            else:
                response.close()
        if not is_whole:
            raise urllib3.exceptions.HTTPError(f"an answer has over {_ANSWER_BYTES_MAX} bytes")
        return response.status, data, retry_after_s(response.headers.get("Retry-After"))

    def again(self) -> Transport:
        """Return a transport with the same options and no connections."""
        return Transport(*self._options)


def answer_of(status: int, data: bytes, retry_s: float, batch_id: str) -> Answer:
    """Read the answer to a batch.

    What no gateway answers, such as a proxy's page, a 200, or another batch's ID, doesn't
    acknowledge anything. A 4xx is final in any form.
    """
    try:
        members = json.loads(data)
    except (ValueError, RecursionError):
        members = None
    is_final = 400 <= status < 500
    if not isinstance(members, dict):
        detail = f"status {status} without a JSON object"
        return Answer(status if is_final else 0, "unexpected_answer", detail, [], retry_s)
    if status < 400 and (status != 202 or members.get("batchId") != batch_id):
        detail = f"status {status}, batchId {members.get('batchId')!r}"
        return Answer(0, "unexpected_answer", detail, [], retry_s)
    errors = members.get("errors")
    faults = [
        fault
        for error in (errors if isinstance(errors, list) else [])
        if (fault := _fault(error)) is not None
    ]
    return Answer(
        status,
        str(members.get("code", status)),
        str(members.get("detail", "")),
        faults,
        retry_s,
    )


def _fault(error: Any) -> Fault | None:
    if not isinstance(error, dict):
        return None
    match = _POINTER.fullmatch(str(error.get("pointer", "")))
    if not match:
        return None
    detail = str(error.get("detail", ""))
    return Fault(int(match[1]), str(error.get("code", "")), match[2], detail)
