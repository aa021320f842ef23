"""The canonical form of a URL, and the entry ID that is derived from it.

docs/receipt-format.md, "The canonical URL", defines both.
"""

from __future__ import annotations

import re
import uuid
from urllib.parse import quote

from .errors import UseError

_URL = re.compile(r"(?ai)(https?)://([^/?#@:\[\]\\]+)(?::([0-9]*))?((?:[/?][^#]*)?)(?:#.*)?")
_UNUSABLE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")
_HOST = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")
_STANDARD_PORTS = (("http", 80), ("https", 443))
_PORT_MAX = 65_535


def canonical_url(url: str) -> str:
    """Return the canonical form of an http or https URL. Raises ``UseError``."""
    parts = _URL.fullmatch(url)
    if parts is None or _UNUSABLE.search(url):
        raise UseError(
            "url isn't an http or https URL without a user, white space and control characters"
        )
    scheme, host, port, rest = parts[1].lower(), parts[2].lower(), int(parts[3] or 0), parts[4]
    try:
        host = (host if host.isascii() else host.encode("idna").decode()).removesuffix(".")
        if not _HOST.fullmatch(host) or port > _PORT_MAX:
            raise UseError("url's host must be a domain name, and its port at most 65535")
        path = quote(rest if rest.startswith("/") else f"/{rest}", safe="!$%&()*+,/:;=?@[]~")
    except UnicodeError:
        raise UseError("url has characters that can't be encoded") from None
    is_standard = not parts[3] or (scheme, port) in _STANDARD_PORTS
    return f"{scheme}://{host if is_standard else f'{host}:{port}'}{path}"


def entry_id_of(url: str) -> str:
    """Return the UUIDv5 of a URL's canonical form (RFC 9562, section 5.5). Raises ``UseError``."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, canonical_url(url)))
