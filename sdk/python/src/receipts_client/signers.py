"""Keys that sign receipts."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

ALGORITHMS = ("Ed25519", "RSA-2048", "ECDSA-P256")

# The y coordinates, less than 2^255, of the points of edwards25519 with an order of at most 8.
_P = 2**255 - 19
_Y8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL = {0, 1, _P - 1, _P, _P + 1, _Y8, _P - _Y8}


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
        r"""Read the key from an environment variable, in which ``\n`` may stand for a new line.

        Raises ``KeyError`` if it isn't set.
        """
        return cls(os.environ[name].replace("\\n", "\n"))

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


def check(signer: Signer) -> None:
    """Sign a text, and verify it. Raises ``ValueError`` if the key isn't that of the signatures."""
    if signer.algorithm != algorithm_of(load_pem_public_key(signer.public_key.encode())):
        raise ValueError(f"the signer's public key isn't for {signer.algorithm}")
    message = b"receipts_client"
    if not verify(signer.public_key.encode(), message, signer.sign(message)):
        raise ValueError(
            "the signer's signatures aren't its public key's: check which key it uses, and that it "
            f"signs as {signer.algorithm} (docs/receipt-format.md)"
        )


def verify(pem: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether the signature is the key's. Raises ``ValueError`` for an unusable key."""
    key = load_pem_public_key(pem)
    try:
        if isinstance(key, Ed25519PublicKey):
            if _is_small(pem_der(pem)[-32:]) or _is_small(signature[:32]):
                return False
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


def pem_der(pem: bytes) -> bytes:
    """Return the DER of a public key in PEM."""
    key = load_pem_public_key(pem)
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _is_small(point: bytes) -> bool:
    """Whether a point of edwards25519 has an order of at most 8, in any encoding.

    The service rejects signatures with such a key or R (`verify_strict` of ed25519-dalek).
    """
    return int.from_bytes(point, "little") & ~(1 << 255) in _SMALL
