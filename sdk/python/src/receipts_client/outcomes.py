"""Queries: what became of receipts, what the service thinks of one, and entries of URLs."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import urllib3

from .backoff import backoff_s, retry_after_s
from .errors import ReceiptsError
from .signers import Signer, signature_text
from .transport import Transport

_PATH = "/api/v1/client/outcomes"
_EXPLAIN_PATH = "/api/v1/receipts/explain"
_LOOKUP_PATH = "/api/v1/entries/lookup"
_LOOKUP_URLS_MAX = 1_000
_ENTRIES_MAX = 100_000
_ENTRY_S_MAX = 300.0
_SIGNATURE_S = 300
_TRIES = 5
_RETRY_AFTER_S_MAX = 30.0


@dataclass(frozen=True)
class Entry:
    """What the service has of a URL (docs/receipt-format.md).

    ``publisher`` is the verified domain that the URL belongs to; ``None`` if nobody has verified
    one, so that nobody would see a receipt. ``entry_id`` is the listed entry's
    ID, or the derived one. ``url`` is the canonical URL.
    """

    url: str
    entry_id: str
    publisher: str | None
    is_listed: bool
    title: str | None


def outcomes(
    transport: Transport, signer: Signer, url: str, after: str | None
) -> Iterator[dict[str, Any]]:
    """Yield the lines of all pages. Raises ``ReceiptsError``."""
    while True:
        query = {"limit": "1000", **({"after": after} if after else {})}
        target = f"{url}{_PATH}?{urlencode(query)}"
        data = _ask(transport, "GET", target, signed_headers(signer, "GET", target))
        *lines, last = [_object(line) for line in data.split(b"\n") if line] or [{}]
        yield from lines
        if "cursor" not in last or "more" not in last:
            raise ReceiptsError(f"GET {target}: the answer has no last line")
        if not last["more"]:
            return
        after = str(last["cursor"])


def explain(transport: Transport, receipt: bytes) -> dict[str, Any]:
    """Return the service's checks of a receipt. Raises ``ReceiptsError``."""
    headers = {"Content-Type": "application/json"}
    return _object(_ask(transport, "POST", transport.url + _EXPLAIN_PATH, headers, receipt))


def signed_headers(signer: Signer, method: str, target: str) -> dict[str, str]:
    """Return the fields that sign a request (RFC 9421, sections 2.5 and 3.1)."""
    now = int(time.time())
    parameters = f'("@method" "@target-uri");created={now};expires={now + _SIGNATURE_S}'
    base = f'"@method": {method}\n"@target-uri": {target}\n"@signature-params": {parameters}'
    der = "".join(signer.public_key.strip().splitlines()[1:-1])
    return {
        "X-Client-Public-Key": base64.b64encode(base64.b64decode(der)).decode(),
        "Signature-Input": f"sig1={parameters}",
        "Signature": f"sig1=:{signature_text(signer, base.encode())}:",
    }


class Entries:
    """Entries of URLs at a publisher API, cached for as long as the service allows it."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/") + _LOOKUP_PATH
        self._cache: dict[str, tuple[float, Entry | None]] = {}

    def resolve(self, transport: Transport, urls: Iterable[str]) -> dict[str, Entry | None]:
        """Return the entry of each URL, ``None`` for a faulty one. Raises ``ReceiptsError``."""
        wanted = list(dict.fromkeys(urls))
        found = {}
        now = time.monotonic()
        for url in wanted:
            expires, entry = self._cache.get(url, (0.0, None))
            if expires > now:
                found[url] = entry
        missing = [url for url in wanted if url not in found]
        for start in range(0, len(missing), _LOOKUP_URLS_MAX):
            part = missing[start : start + _LOOKUP_URLS_MAX]
            headers = {"Content-Type": "application/json"}
            body = json.dumps({"urls": part}).encode()
            members = _object(_ask(transport, "POST", self._url, headers, body))
            entries = members.get("entries")
            if not isinstance(entries, list) or len(entries) != len(part):
                raise ReceiptsError(f"POST {self._url}: the answer has other entries than URLs")
            found |= {url: _entry(members) for url, members in zip(part, entries, strict=True)}
        if len(self._cache) + len(missing) > _ENTRIES_MAX:
            self._cache = {}
        self._cache |= {url: (now + _ENTRY_S_MAX, found[url]) for url in missing}
        return {url: found[url] for url in wanted}


def _entry(members: Any) -> Entry | None:
    if not isinstance(members, dict):
        return None
    try:
        return Entry(
            url=str(members["url"]),
            entry_id=str(members["entryId"]),
            publisher=members["publisher"],
            is_listed=bool(members["listed"]),
            title=members.get("title"),
        )
    except KeyError as error:
        raise ReceiptsError(f"an entry of the answer has no {error}") from None


def _ask(
    transport: Transport,
    method: str,
    url: str,
    headers: dict[str, str],
    body: bytes | None = None,
) -> bytes:
    for attempt in range(1, _TRIES + 1):
        try:
            status, data, fields = transport.request(method, url, headers, body)
        except urllib3.exceptions.HTTPError as error:
            raise ReceiptsError(f"{method} {url}: {error}") from error
        retry_s = retry_after_s(fields.get("Retry-After"))
        if status not in (429, 503) or attempt == _TRIES or retry_s > _RETRY_AFTER_S_MAX:
            break
        time.sleep(backoff_s(attempt, retry_s, 0.2, _RETRY_AFTER_S_MAX))
    if status != 200:
        raise ReceiptsError(f"{method} {url}: {status} {data[:500].decode(errors='replace')}")
    return data


def _object(data: bytes) -> dict[str, Any]:
    try:
        members = json.loads(data)
    except ValueError as error:
        raise ReceiptsError(f"the service's answer isn't JSON: {error}") from error
    if not isinstance(members, dict):
        raise ReceiptsError("the service's answer isn't a JSON object")
    return members
