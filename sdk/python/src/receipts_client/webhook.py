"""Receipts that a publisher gets at an address of its own."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection
from typing import Any

from .canonical import CanonicalError, canonicalize, parse
from .canonical_url import canonical_host, host_of
from .errors import ReceiptsError, UseError
from .public_key import PublicKey


class WebhookError(ReceiptsError):
    """A body that isn't a good receipt. ``code`` is one of the service's rejection reasons."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code


class Webhook:
    """Verifies receipts. ``publisher`` is your domain; ``None`` accepts receipts for any.

    A valid signature proves that the holder of the receipt's own key made it, not who that is: give
    ``fingerprints``, SHA-256 of SPKI in DER in hexadecimal, to accept those keys only.
    """

    def __init__(
        self, publisher: str | None = None, fingerprints: Collection[str] | None = None
    ) -> None:
        self._publisher = None if publisher is None else canonical_host(publisher)
        if publisher is not None and self._publisher is None:
            raise UseError(f"publisher is {publisher!r}: write a domain name, like news.example")
        self._fingerprints = fingerprints

    def verify(self, body: bytes) -> dict[str, Any]:
        """Return the receipt in a body. Raises ``WebhookError``."""
        return self._verified(_parsed(body))

    def verify_all(self, body: bytes) -> list[dict[str, Any]]:
        """Return the receipts of a body that is one receipt or a batch.

        A batch is good if its own signature and all its receipts are. Raises ``WebhookError``.
        """
        members = _parsed(body)
        if "receipts" not in members:
            return [self._verified(members)]
        receipts = members["receipts"]
        if not isinstance(receipts, list) or not receipts:
            raise WebhookError("malformed", "receipts isn't an array with receipts")
        verified = [self._verified(receipt) for receipt in receipts]
        keys = {receipt["client"]["publicKey"] for receipt in verified}
        if len(keys) > 1:
            raise WebhookError("malformed", "the receipts of the batch have several keys")
        _check_signature(members, keys.pop(), "bad_batch_signature")
        return verified

    def _verified(self, receipt: Any) -> dict[str, Any]:
        try:
            pem, content = receipt["client"]["publicKey"], receipt["content"]
            host, publisher = host_of(content["url"]), canonical_host(content["publisher"])
        except (KeyError, TypeError, AttributeError, UseError) as error:
            raise WebhookError("malformed", f"isn't a receipt: {error!r}") from error
        fingerprint = _check_signature(receipt, pem, "bad_signature")
        if publisher is None or not f".{host}".endswith(f".{publisher}"):
            raise WebhookError("malformed", f"content.url isn't on {content['publisher']!r}")
        if self._fingerprints is not None and fingerprint not in self._fingerprints:
            raise WebhookError("client_key_unknown", f"the key {fingerprint} isn't accepted")
        if self._publisher is not None and publisher != self._publisher:
            raise WebhookError("malformed", f"the receipt is for {publisher!r}")
        assert isinstance(receipt, dict)
        return receipt


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        members = parse(body)
    except CanonicalError as error:
        raise WebhookError("malformed", str(error)) from error
    if not isinstance(members, dict):
        raise WebhookError("malformed", "isn't a JSON object")
    return members


def _check_signature(value: dict[str, Any], pem: str, code: str) -> str:
    """Return the fingerprint of the key that signed. Raises ``WebhookError``."""
    signed = {
        name: member
        for name, member in value.items()
        if name not in ("signature", "signatureAlgorithm")
    }
    try:
        message = canonicalize(signed)
        signature = base64.b64decode(value["signature"], validate=True)
        algorithm = value["signatureAlgorithm"]
    except (KeyError, TypeError, ValueError) as error:
        raise WebhookError("malformed", f"isn't signed: {error!r}") from error
    try:
        key = PublicKey(pem)
    except (ValueError, TypeError) as error:
        raise WebhookError("bad_public_key", str(error)) from error
    if key.algorithm != algorithm:
        detail = f"the key is for {key.algorithm}, not {algorithm}"
        raise WebhookError("key_algorithm_mismatch", detail)
    if not key.verify(message, signature):
        raise WebhookError(code, "the signature isn't the key's")
    return hashlib.sha256(key.der).hexdigest()
