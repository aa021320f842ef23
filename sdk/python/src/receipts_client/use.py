"""A use of content, and the receipt it becomes."""

from __future__ import annotations

import hashlib
import os
import re
import time
import uuid
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any
from urllib.parse import urlsplit

from .errors import UseError

PURPOSES = ("training", "inference", "research")
_HASH = re.compile(r"sha256:[0-9a-fA-F]{64}")
_TEXT_BYTES_MAX = 4_096
_URL_BYTES_MAX = 2_048
# Further members of `usage`, by their names in JSON.
_EXTRAS = {
    "dataset_id": "datasetId",
    "model_id": "modelId",
    "query_id": "queryId",
    "session_id": "sessionId",
    "study_id": "studyId",
    "researcher_id": "researcherId",
}


@dataclass(frozen=True)
class Use:
    """One use of a piece of content.

    ``purpose`` is ``training``, ``inference`` or ``research``, ``context`` the use case in a few
    words. Give ``content``, the bytes as received after any Content-Encoding was removed, or their
    ``content_hash`` (``sha256:`` and 64 hexadecimal digits).

    ``publisher`` is the host of ``url`` unless given, ``entry_id`` the UUIDv5 of ``url`` without
    its fragment (RFC 9562, section 5.5), ``receipt_id`` a new UUIDv7, and ``timestamp`` now.
    """

    url: str
    purpose: str
    context: str
    content: bytes | str | None = None
    content_hash: str | None = None
    publisher: str | None = None
    entry_id: str | None = None
    receipt_id: str | None = None
    timestamp: datetime | None = None
    dataset_id: str | None = None
    model_id: str | None = None
    query_id: str | None = None
    session_id: str | None = None
    study_id: str | None = None
    researcher_id: str | None = None

    def members(self) -> dict[str, Any]:
        """Return the members of the receipt that this use decides.

        Raises ``UseError``.
        """
        host = _host(self.url)
        if self.purpose not in PURPOSES:
            raise UseError(f"purpose is {self.purpose!r}: write one of {', '.join(PURPOSES)}")
        usage = {"purpose": self.purpose, "context": _text("context", self.context)}
        for name, member in _EXTRAS.items():
            value = getattr(self, name)
            if value is not None:
                usage[member] = _text(name, value)
        url = _text("url", self.url, _URL_BYTES_MAX)
        entry_id = self.entry_id or str(uuid.uuid5(uuid.NAMESPACE_URL, url.partition("#")[0]))
        return {
            "version": "1.0.0",
            "receiptId": _uuid("receipt_id", self.receipt_id) if self.receipt_id else new_id(),
            "timestamp": _timestamp(self.timestamp),
            "content": {
                "entryId": _uuid("entry_id", entry_id),
                "url": url,
                "contentHash": self._hash(),
                "publisher": _text("publisher", self.publisher or host),
            },
            "usage": usage,
        }

    def _hash(self) -> str:
        if self.content is not None and self.content_hash is None:
            content = self.content.encode() if isinstance(self.content, str) else self.content
            return f"sha256:{hashlib.sha256(content).hexdigest()}"
        if self.content is not None or self.content_hash is None:
            raise UseError("give either content or content_hash")
        if not _HASH.fullmatch(self.content_hash):
            raise UseError("content_hash: write `sha256:` and 64 hexadecimal digits")
        return self.content_hash


def new_id() -> str:
    """Return a new UUIDv7 (RFC 9562, section 5.7)."""
    bits = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    bits = bits & ~(0xF << 76) | 0x7 << 76
    bits = bits & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=bits))


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        parts, host = None, None
    if parts is None or parts.scheme not in ("http", "https") or not host:
        raise UseError(f"url is {url!r}: write an http or https URL with a host")
    if parts.username is not None:
        raise UseError("url has a user name: leave it out")
    return host


def _text(name: str, value: str, bytes_max: int = _TEXT_BYTES_MAX) -> str:
    if not isinstance(value, str):
        raise UseError(f"{name} is a {type(value).__name__}: give a str")
    try:
        length = len(value.encode())
    except UnicodeEncodeError:
        raise UseError(f"{name} has half a surrogate pair: replace it") from None
    if length > bytes_max:
        raise UseError(f"{name} has {length} bytes in UTF-8: at most {bytes_max} are allowed")
    return value


def _uuid(name: str, value: str) -> str:
    try:
        return str(uuid.UUID(value))
    except (ValueError, AttributeError, TypeError):
        raise UseError(f"{name} is {value!r}: give a UUID of 36 characters") from None


def _timestamp(value: datetime | None) -> str:
    if value is None:
        value = datetime.now(timezone.utc)
    if value.tzinfo is None:
        raise UseError("timestamp has no time zone: use datetime.now(timezone.utc)")
    value = value.astimezone(timezone.utc)
    return f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1_000:03}Z"
