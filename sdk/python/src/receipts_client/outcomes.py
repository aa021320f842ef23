"""Questions about receipts that were sent."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import urllib3

from .backoff import backoff_s
from .errors import ReceiptsError
from .signers import Signer, signature_text
from .transport import Transport

_PATH = "/api/v1/client/outcomes"
_EXPLAIN_PATH = "/api/v1/receipts/explain"
_SIGNATURE_S = 300
_TRIES = 5
_RETRY_AFTER_S_MAX = 30.0


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


def _ask(
    transport: Transport,
    method: str,
    url: str,
    headers: dict[str, str],
    body: bytes | None = None,
) -> bytes:
    for attempt in range(1, _TRIES + 1):
        try:
            status, data, retry_s = transport.request(method, url, headers, body)
        except urllib3.exceptions.HTTPError as error:
            raise ReceiptsError(f"{method} {url}: {error}") from error
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
