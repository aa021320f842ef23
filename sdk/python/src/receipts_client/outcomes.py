"""Questions about receipts that were sent."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import urllib3

from .errors import ReceiptsError
from .signers import Signer, signature_text
from .transport import Transport

_PATH = "/api/v1/client/outcomes"
_EXPLAIN_PATH = "/api/v1/receipts/explain"
_SIGNATURE_S = 60


def outcomes(
    transport: Transport, signer: Signer, url: str, after: str | None
) -> Iterator[dict[str, Any]]:
    """Yield the lines of all pages. Raises ``ReceiptsError``."""
    while True:
        query = {"limit": "1000", **({"after": after} if after else {})}
        target = f"{url}{_PATH}?{urlencode(query)}"
        data = _ask(transport, "GET", target, signed_headers(signer, "GET", target))
        *lines, last = [json.loads(line) for line in data.splitlines() if line]
        yield from lines
        if not last["more"]:
            return
        after = last["cursor"]


def explain(transport: Transport, receipt: bytes) -> dict[str, Any]:
    """Return the service's checks of a receipt. Raises ``ReceiptsError``."""
    headers = {"Content-Type": "application/json"}
    answer = json.loads(_ask(transport, "POST", transport.url + _EXPLAIN_PATH, headers, receipt))
    assert isinstance(answer, dict)
    return answer


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
    try:
        status, data = transport.request(method, url, headers, body)
    except urllib3.exceptions.HTTPError as error:
        raise ReceiptsError(f"{method} {url}: {error}") from error
    if status != 200:
        raise ReceiptsError(f"{method} {url}: {status} {data[:500].decode(errors='replace')}")
    return data
