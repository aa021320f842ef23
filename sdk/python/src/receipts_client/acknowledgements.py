"""Signed acknowledgements: proof that the service has a batch durably."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from .canonical import canonicalize

KEYS_PATH = "/.well-known/receipts-keys.json"


class AcknowledgementError(Exception):
    """A 202 that proves nothing, so the batch is sent again."""


@dataclass(frozen=True)
class Acknowledgement:
    """An acknowledgement of a batch, whose signature was verified.

    ``acknowledgement`` is the signed object (docs/acknowledgements.md). Save it with ``body``, the
    bytes that its ``requestDigest`` is of: together they prove to a third party that the service
    had these receipts, and when.
    """

    batch_id: str
    receipt_ids: list[str]
    acknowledgement: dict[str, Any]
    body: bytes


class PublishedKeys:
    """The gateway's public keys by their ``kid``, read when an unknown one occurs.

    ``read`` returns the JWK Set. What it raises is passed on.
    """

    def __init__(self, read: Callable[[], bytes]) -> None:
        self._read = read
        self._keys: dict[str, Ed25519PublicKey] = {}
        self._lock = threading.Lock()

    def get(self, key_id: str) -> Ed25519PublicKey:
        """Return a key. Raises ``AcknowledgementError`` if it isn't published."""
        with self._lock:
            if key_id not in self._keys:
                self._keys = _keys_of(self._read())
            if key_id not in self._keys:
                raise AcknowledgementError(f"its key {key_id!r} isn't in {KEYS_PATH}")
            return self._keys[key_id]


def verified(
    answer: dict[str, Any], body: bytes, batch_id: str, count: int, keys: PublishedKeys
) -> dict[str, Any]:
    """Return the acknowledgement in a 202's answer to a batch of ``count`` receipts.

    Raises ``AcknowledgementError`` unless it is of exactly these bytes, by a published key.
    """
    signed = answer.get("acknowledgement")
    if answer.get("batchId") != batch_id or answer.get("status") != "queued":
        raise AcknowledgementError("the answer isn't to this batch")
    if not isinstance(signed, dict):
        raise AcknowledgementError("it isn't there")
    expected = {
        "requestDigest": f"sha256:{hashlib.sha256(body).hexdigest()}",
        "batchId": batch_id,
        "receiptCount": count,
    }
    for name, value in expected.items():
        if signed.get(name) != value:
            raise AcknowledgementError(f"its {name} is {signed.get(name)!r}")
    unsigned = ("path", "signature")
    members = {name: value for name, value in signed.items() if name not in unsigned}
    key = keys.get(str(members.get("keyId")))
    try:
        signature = base64.b64decode(signed["signature"], validate=True)
        message = canonicalize(members)
        if "path" in signed:
            message = _tree_root(message, signed["path"])
        key.verify(signature, message)
    except (InvalidSignature, AttributeError, KeyError, TypeError, ValueError):
        raise AcknowledgementError("its signature isn't that of the key that it names") from None
    return signed


def _tree_root(leaf: bytes, path: Any) -> bytes:
    """Return the root of the hash tree (RFC 9162) that ``path`` leads to."""
    node = hashlib.sha256(b"\0" + leaf).digest()
    for step in path:
        [(side, text)] = step.items()
        sibling = base64.b64decode(text, validate=True)
        if len(sibling) != len(node):
            raise ValueError("a path has something else than hashes")
        left, right = {"left": (sibling, node), "right": (node, sibling)}[side]
        node = hashlib.sha256(b"\1" + left + right).digest()
    return node


def _keys_of(data: bytes) -> dict[str, Ed25519PublicKey]:
    try:
        return {
            jwk["kid"]: Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(jwk["x"] + "="))
            for jwk in json.loads(data)["keys"]
            if jwk.get("kty") == "OKP" and jwk.get("crv") == "Ed25519"
        }
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise AcknowledgementError(f"{KEYS_PATH} isn't a JWK Set: {error!r}") from None
