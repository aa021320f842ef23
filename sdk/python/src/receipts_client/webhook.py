"""Receipts that a publisher gets at an address of its own."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Collection
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
)

from .canonical import CanonicalError, canonicalize, parse
from .errors import ReceiptsError
from .signers import algorithm_of


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
        self._publisher = publisher
        self._fingerprints = fingerprints

    def verify(self, body: bytes) -> dict[str, Any]:
        """Return the receipt in a body. Raises ``WebhookError``."""
        try:
            receipt = parse(body)
            members = {
                name: receipt[name]
                for name in receipt
                if name not in ("signature", "signatureAlgorithm")
            }
            canonical = canonicalize(members)
            signature = base64.b64decode(receipt["signature"], validate=True)
            algorithm = receipt["signatureAlgorithm"]
            pem = receipt["client"]["publicKey"].encode()
            publisher = receipt["content"]["publisher"]
        except (CanonicalError, KeyError, TypeError, AttributeError, binascii.Error) as error:
            raise WebhookError("malformed", f"isn't a receipt: {error!r}") from error
        try:
            key = load_pem_public_key(pem)
            kind = algorithm_of(key)
        except ValueError as error:
            raise WebhookError("bad_public_key", str(error)) from error
        if kind != algorithm:
            raise WebhookError("key_algorithm_mismatch", f"the key is for {kind}, not {algorithm}")
        der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        fingerprint = hashlib.sha256(der).hexdigest()
        if self._fingerprints is not None and fingerprint not in self._fingerprints:
            raise WebhookError("client_key_unknown", f"the key {fingerprint} isn't accepted")
        if self._publisher is not None and publisher != self._publisher:
            raise WebhookError("malformed", f"the receipt is for {publisher!r}")
        if not verify(pem, canonical, signature):
            raise WebhookError("bad_signature", "the signature isn't the key's over the receipt")
        assert isinstance(receipt, dict)
        return receipt


def verify(pem: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether the signature is the key's. Raises ``ValueError`` for an unusable key."""
    key = load_pem_public_key(pem)
    try:
        if isinstance(key, Ed25519PublicKey):
            key.verify(signature, message)
        elif isinstance(key, rsa.RSAPublicKey):
            key.verify(signature, message, padding.PKCS1v15(), hashes.SHA256())
        elif isinstance(key, ec.EllipticCurvePublicKey):
            if len(signature) == 64:
                r, s = signature[:32], signature[32:]
                signature = encode_dss_signature(int.from_bytes(r, "big"), int.from_bytes(s, "big"))
            key.verify(signature, message, ec.ECDSA(hashes.SHA256()))
        else:
            raise ValueError("the key is of another kind")
    except InvalidSignature:
        return False
    return True
