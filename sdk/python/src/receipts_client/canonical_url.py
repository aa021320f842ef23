"""The canonical form of a URL and its host, and the entry ID that is derived from it.

docs/receipt-format.md, "The canonical URL", defines them.
"""

from __future__ import annotations

import re
import unicodedata
import uuid
from urllib.parse import quote

from .errors import UseError

_URL = re.compile(r"(?ai)(https?)://([^/?#@:\[\]\\]+)(?::([0-9]*))?((?:[/?][^#]*)?)(?:#.*)?")
_UNUSABLE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")
_DOTS = re.compile(r"[\u3002\uff0e\uff61]")
# A last label that begins with a digit is that of an IPv4 address.
_HOST = re.compile(r"(?=.{1,253}\Z)(?:[a-z0-9_-]{1,63}\.)+[a-z_-][a-z0-9_-]{0,62}")
_HOST_CHARS_MAX = 253
_STANDARD_PORTS = (("http", 80), ("https", 443))
_PORT_MAX = 65_535


def canonical_url(url: str) -> str:
    """Return the canonical form of an http or https URL. Raises ``UseError``."""
    return _canonical(url)[0]


def host_of(url: str) -> str:
    """Return the canonical host of an http or https URL. Raises ``UseError``."""
    return _canonical(url)[1]


def canonical_host(host: str) -> str | None:
    """Return the canonical form of a host, or ``None`` if it isn't a domain name."""
    # Before A-labels are made, whose work grows with the square of a label's length.
    if len(host) > _HOST_CHARS_MAX + 1:
        return None
    try:
        name = host.lower() if host.isascii() else _a_labels(host)
    except UnicodeError:
        return None
    name = name.removesuffix(".")
    return name if _HOST.fullmatch(name) else None


def entry_id_of(url: str) -> str:
    """Return the UUIDv5 of a URL's canonical form (RFC 9562, section 5.5). Raises ``UseError``."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, canonical_url(url)))


def _canonical(url: str) -> tuple[str, str]:
    parts = _URL.fullmatch(url)
    if parts is None or _UNUSABLE.search(url):
        raise UseError(
            f"url is {url!r}: write an http or https URL without a user, white space and control"
            " characters"
        )
    scheme, host, port, rest = parts[1].lower(), canonical_host(parts[2]), parts[3], parts[4]
    if host is None:
        raise UseError(
            f"url's host {parts[2]!r} isn't a domain name: an international one can be written in"
            " ASCII form (xn--...)"
        )
    if int(port or 0) > _PORT_MAX:
        raise UseError(f"url has the port {port}: at most {_PORT_MAX} is possible")
    try:
        path = quote(rest if rest.startswith("/") else f"/{rest}", safe="!$%&()*+,/:;=?@[]~")
    except UnicodeError:
        raise UseError("url has characters that can't be encoded") from None
    is_standard = not port or (scheme, int(port)) in _STANDARD_PORTS
    return f"{scheme}://{host if is_standard else f'{host}:{int(port)}'}{path}", host


def _a_labels(host: str) -> str:
    """Return A-labels as UTS 46 makes them. Raises ``UnicodeError`` where Python can't tell.

    The codec is that of IDNA 2003. A name that it changes may have another form in UTS 46, apart
    from two letters that are known.
    """
    name = unicodedata.normalize("NFC", "".join(map(str.lower, _DOTS.sub(".", host))))
    if name.encode("idna").decode("idna") != name.replace("ß", "ss").replace("ς", "σ"):
        raise UnicodeError("the name has other letters in IDNA 2003")
    labels = (
        label if label.isascii() else f"xn--{label.encode('punycode').decode()}"
        for label in name.split(".")
    )
    return ".".join(labels)
