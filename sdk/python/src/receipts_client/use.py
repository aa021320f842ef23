"""A use of content, and the receipt it becomes."""

from __future__ import annotations

import hashlib
import os
import re
import time
import uuid
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal, get_args

from .canonical_url import canonical_host, entry_id_of, host_of
from .errors import UseError

Purpose = Literal["training", "inference", "research"]
PURPOSES = get_args(Purpose)
_HASH = re.compile(r"sha256:[0-9a-fA-F]{64}")
_LABEL = re.compile(r"[0-9a-z](?:[-0-9a-z]*[0-9a-z])?")
_TEXT_BYTES_MAX = 4_096
_URL_BYTES_MAX = 2_048
_UUID_MAX = (1 << 128) - 1
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

    ``publisher`` is the host of ``url`` in ASCII form unless given, ``entry_id`` the UUIDv5 of the
    canonical form of ``url``, ``receipt_id`` a new UUIDv7, and ``timestamp`` now.
    """

    url: str
    purpose: Purpose
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
        url = text("url", self.url, _URL_BYTES_MAX)
        host = host_of(url)
        if self.purpose not in PURPOSES:
            raise UseError(f"purpose is {self.purpose!r}: write one of {', '.join(PURPOSES)}")
        usage: dict[str, str] = {
            "purpose": self.purpose,
            "context": filled("context", self.context),
        }
        for name, member in _EXTRAS.items():
            value = getattr(self, name)
            if value is not None:
                usage[member] = text(name, value)
        entry_id = entry_id_of(url) if self.entry_id is None else self.entry_id
        receipt_id = new_id() if self.receipt_id is None else self.receipt_id
        return {
            "version": "1.0.0",
            "receiptId": uuid_text("receipt_id", receipt_id),
            "timestamp": _timestamp(self.timestamp),
            "content": {
                "entryId": uuid_text("entry_id", entry_id),
                "url": url,
                "contentHash": self._hash(),
                "publisher": _publisher(self.publisher, host),
            },
            "usage": usage,
        }

    def _hash(self) -> str:
        if self.content is not None and self.content_hash is None:
            try:
                content = self.content.encode() if isinstance(self.content, str) else self.content
            except UnicodeEncodeError:
                raise UseError("content has half a surrogate pair: give its bytes") from None
            if not isinstance(content, (bytes, bytearray, memoryview)):
                raise UseError(f"content is a {type(content).__name__}: give bytes or a str")
            return f"sha256:{hashlib.sha256(content).hexdigest()}"
        if self.content is not None or self.content_hash is None:
            raise UseError("give either content or content_hash")
        if not isinstance(self.content_hash, str) or not _HASH.fullmatch(self.content_hash):
            raise UseError("content_hash: write `sha256:` and 64 hexadecimal digits")
        return self.content_hash


def new_id() -> str:
    """Return a new UUIDv7 (RFC 9562, section 5.7)."""
    bits = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    bits = bits & ~(0xF << 76) | 0x7 << 76
    bits = bits & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=bits))


def _publisher(publisher: str | None, host: str) -> str:
    name = canonical_host(text("publisher", host if publisher is None else publisher))
    if name is None or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        if publisher is None:
            raise UseError(f"url's host {host!r} can't be a publisher: give publisher, its domain")
        raise UseError(f"publisher is {publisher!r}: write a domain name, like news.example")
    if not f".{host}".endswith(f".{name}"):
        raise UseError(f"url is on {host}, which isn't {name!r} or a subdomain of it")
    return name


def text(name: str, value: str, bytes_max: int = _TEXT_BYTES_MAX) -> str:
    """Return a text that the service takes. Raises ``UseError``."""
    if not isinstance(value, str):
        raise UseError(f"{name} is a {type(value).__name__}: give a str")
    try:
        length = len(value.encode())
    except UnicodeEncodeError:
        raise UseError(f"{name} has half a surrogate pair: replace it") from None
    if length > bytes_max:
        raise UseError(f"{name} has {length} bytes in UTF-8: at most {bytes_max} are allowed")
    return value


def filled(name: str, value: str) -> str:
    """Return a text that isn't empty. Raises ``UseError``."""
    if not text(name, value).strip():
        raise UseError(f"{name} is empty: write at least a word")
    return value


def uuid_text(name: str, value: str) -> str:
    """Return a UUID in its usual form. Raises ``UseError``."""
    try:
        number = uuid.UUID(value)
    except (ValueError, AttributeError, TypeError):
        number = uuid.UUID(int=0)
    if number.int in (0, _UUID_MAX):
        raise UseError(f"{name} is {value!r}: give a UUID of 36 characters")
    return str(number)


def _timestamp(value: datetime | None) -> str:
    if value is None:
        value = datetime.now(timezone.utc)
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise UseError(
            "timestamp isn't a datetime, or has no time zone: use datetime.now(timezone.utc)"
        )
    value = value.astimezone(timezone.utc)
    return f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1_000:03}Z"
