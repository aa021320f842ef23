"""Keys that sign receipts."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from .public_key import KindError, PublicKey, algorithm_of

ALGORITHMS = ("Ed25519", "RSA-2048", "ECDSA-P256")

_LABEL = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----")
_TO_PKCS8 = "openssl pkcs8 -topk8 -nocrypt -in FILE -out client.key"
_NEW_KEY = "openssl genpkey -algorithm ed25519 -out client.key"
_TO_PUBLIC = "openssl pkey -in client.key -pubout"
# Labels of PEM that aren't accepted, with the command that makes an accepted one.
_PRIVATE_FORMS = {
    "EC PRIVATE KEY": ("a private key in SEC1", _TO_PKCS8),
    "EC PARAMETERS": ("a private key in SEC1", _TO_PKCS8),
    "RSA PRIVATE KEY": ("a private key in PKCS#1", _TO_PKCS8),
    "ENCRYPTED PRIVATE KEY": (
        "encrypted: give its password, or decrypt it",
        "openssl pkcs8 -in FILE -out client.key",
    ),
    "PUBLIC KEY": ("a public key: give the private key, or make a new pair", _NEW_KEY),
    "RSA PUBLIC KEY": ("a public key: give the private key, or make a new pair", _NEW_KEY),
}
_PUBLIC_FORMS = {
    "RSA PUBLIC KEY": ("a public key in PKCS#1", "openssl rsa -RSAPublicKey_in -in FILE -pubout"),
    "CERTIFICATE": ("a certificate", "openssl x509 -pubkey -noout -in FILE"),
}


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


class PemSigner:
    """A private key in PKCS#8 PEM, as ``receipts keygen`` and ``openssl genpkey`` write it.

    Raises ``ValueError`` for another form, with the command that converts it. As in environment
    variables, ``\\n`` may be written for new lines.
    """

    def __init__(self, pem: bytes | str, password: bytes | None = None) -> None:
        data, label = _block(pem)
        if label != ("PRIVATE KEY" if password is None else "ENCRYPTED PRIVATE KEY"):
            what, command = _PRIVATE_FORMS.get(label, ("no private key in PKCS#8 PEM", _NEW_KEY))
            raise ValueError(f"the key is {what}: {command}")
        try:
            key = load_pem_private_key(data, password)
            public = key.public_key()
            self.algorithm = algorithm_of(public)
        except (ValueError, TypeError, AttributeError, UnsupportedAlgorithm) as error:
            raise ValueError(f"the private key can't be used ({error}): {_NEW_KEY}") from None
        self._key = key
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
    follows from ``public_key``, an SPKI in PEM. Raises ``ValueError`` for another form, with the
    command that converts it.
    """

    def __init__(self, public_key: str, sign: Callable[[bytes], bytes]) -> None:
        data, label = _block(public_key)
        if label != "PUBLIC KEY":
            what, command = _PUBLIC_FORMS.get(label, ("no public key in SPKI PEM", _TO_PUBLIC))
            raise ValueError(f"the key is {what}: {command}")
        try:
            key = PublicKey(data.decode())
        except KindError as error:
            raise ValueError(f"{error}: {_NEW_KEY}") from None
        except ValueError as error:
            raise ValueError(f"the public key can't be read ({error}): {_TO_PUBLIC}") from None
        self.algorithm = key.algorithm
        self.public_key = key.pem
        self._sign = sign

    def sign(self, message: bytes) -> bytes:
        """Return the signature of ``message``."""
        return self._sign(message)


def _block(pem: bytes | str) -> tuple[bytes, str]:
    """Return a PEM with real new lines, and its label; the label is empty if it is no PEM."""
    data = pem.encode() if isinstance(pem, str) else pem
    data = data.replace(b"\\r", b"").replace(b"\\n", b"\n").strip() + b"\n"
    label = _LABEL.match(data)
    return data, label[1].decode() if label else ""


def signature_text(signer: Signer, message: bytes) -> str:
    """Return the signature in base64 (RFC 4648, section 4)."""
    return base64.b64encode(signer.sign(message)).decode()


def check(signer: Signer) -> None:
    """Sign a text, and verify it. Raises ``ValueError`` if the key isn't that of the signatures."""
    key = PublicKey(signer.public_key)
    if signer.algorithm != key.algorithm:
        raise ValueError(f"the signer's public key isn't for {signer.algorithm}")
    message = b"receipts_client"
    if not key.verify(message, signer.sign(message)):
        raise ValueError(
            "the signer's signatures aren't its public key's: check which key it uses, and that it "
            f"signs as {signer.algorithm} (docs/receipt-format.md)"
        )
