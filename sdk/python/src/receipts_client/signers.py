"""Keys that sign receipts."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

ALGORITHMS = ("Ed25519", "RSA-2048", "ECDSA-P256")


class Signer(Protocol):
    """A key. ``algorithm`` is one of ``ALGORITHMS``, ``public_key`` its SPKI in PEM."""

    @property
    def algorithm(self) -> str: ...

    @property
    def public_key(self) -> str: ...

    def sign(self, message: bytes) -> bytes:
        """Return the signature: RFC 8032, PKCS#1 v1.5 with SHA-256, or ECDSA with SHA-256 in DER.

        Called from several threads.
        """


def algorithm_of(key: object) -> str:
    """Return the algorithm of a public key. Raises ``ValueError`` for a key of another kind."""
    if isinstance(key, Ed25519PublicKey):
        return "Ed25519"
    if isinstance(key, rsa.RSAPublicKey) and key.key_size == 2048:
        return "RSA-2048"
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name == "secp256r1":
        return "ECDSA-P256"
    raise ValueError("the key is of another kind than Ed25519, RSA with 2048 bits and ECDSA P-256")


class PemSigner:
    """A private key in PKCS#8 PEM, as ``receipts keygen`` and ``openssl genpkey`` write it."""

    def __init__(self, pem: bytes | str, password: bytes | None = None) -> None:
        data = pem.encode() if isinstance(pem, str) else pem
        key = load_pem_private_key(data, password)
        public = key.public_key()
        self._key = key
        self.algorithm = algorithm_of(public)
        self.public_key = public.public_bytes(
            Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
        ).decode()

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], password: bytes | None = None) -> PemSigner:
        """Read the key from a file."""
        return cls(Path(path).read_bytes(), password)

    @classmethod
    def from_env(cls, name: str = "RECEIPTS_CLIENT_KEY") -> PemSigner:
        """Read the key from an environment variable. Raises ``KeyError`` if it isn't set."""
        return cls(os.environ[name])

    def sign(self, message: bytes) -> bytes:
        """Return the signature of ``message``."""
        if isinstance(self._key, Ed25519PrivateKey):
            return self._key.sign(message)
        if isinstance(self._key, rsa.RSAPrivateKey):
            return self._key.sign(message, padding.PKCS1v15(), hashes.SHA256())
        assert isinstance(self._key, ec.EllipticCurvePrivateKey)
        return self._key.sign(message, ec.ECDSA(hashes.SHA256()))


class CallbackSigner:
    """A key elsewhere, such as in a KMS or an HSM.

    ``sign`` gets the message and returns the signature as ``Signer.sign`` does. The algorithm
    follows from ``public_key``, an SPKI in PEM.
    """

    def __init__(self, public_key: str, sign: Callable[[bytes], bytes]) -> None:
        self.public_key = public_key
        self.algorithm = algorithm_of(load_pem_public_key(public_key.encode()))
        self._sign = sign

    def sign(self, message: bytes) -> bytes:
        """Return the signature of ``message``."""
        return self._sign(message)


def signature_text(signer: Signer, message: bytes) -> str:
    """Return the signature in base64 (RFC 4648, section 4)."""
    return base64.b64encode(signer.sign(message)).decode()
