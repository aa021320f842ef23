"""Public keys as receipts carry them, by the service's rules."""

from __future__ import annotations

import base64
import re

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_public_key,
)

# No usable key has a longer PEM.
_PEM_BYTES_MAX = 1_024
# Programs that read lines in pieces take a longer piece of spaces for an empty line.
_SPACED_LINE_MAX = 128
_BLANKS = " \t\r\f"
_PEM = re.compile(
    r"-----BEGIN PUBLIC KEY-----[ \t\r\f]{0,127}\n"
    r"((?:[^-\n][^\n]*\n)+)"
    r"-----END PUBLIC KEY-----[ \t\r\f\n]*"
)
# An SPKI of P-256 up to its point, which has 33 bytes in compressed form.
_COMPRESSED_P256 = bytes.fromhex("3039301306072a8648ce3d020106082a8648ce3d030107032200")

# The y coordinates, less than 2^255, of the points of edwards25519 with an order of at most 8.
_P = 2**255 - 19
_Y8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL = {0, 1, _P - 1, _P, _P + 1, _Y8, _P - _Y8}


class KindError(ValueError):
    """A key of a kind that the service doesn't accept."""


class PublicKey:
    """An SPKI in PEM with nothing around it. ``der`` is the SPKI in DER.

    Raises ``ValueError`` for a text that the service refuses in a receipt.
    """

    def __init__(self, pem: str) -> None:
        self.der = _der_of(pem)
        try:
            self._key = load_der_public_key(self.der)
        except UnsupportedAlgorithm as error:
            raise KindError(str(error)) from error
        self.algorithm = algorithm_of(self._key)
        # The library also reads other encodings, such as RSA's identifier without NULL.
        if self.der not in _encodings(self._key):
            raise ValueError("the key isn't encoded as SPKI demands")
        if self.algorithm == "Ed25519" and (_y(self.der[-32:]) >= _P or _is_small(self.der[-32:])):
            raise KindError("the Ed25519 key is a point that anybody can sign for, or not reduced")

    @property
    def pem(self) -> str:
        """The key as other libraries write it: what receipts carry is compared as a text."""
        return self._key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    def verify(self, message: bytes, signature: bytes) -> bool:
        """Return whether the signature is the key's."""
        key = self._key
        try:
            if isinstance(key, Ed25519PublicKey):
                if _is_small(signature[:32]):
                    return False
                key.verify(signature, message)
            elif isinstance(key, rsa.RSAPublicKey):
                key.verify(signature, message, padding.PKCS1v15(), hashes.SHA256())
            else:
                assert isinstance(key, ec.EllipticCurvePublicKey)
                if len(signature) == 64:
                    r, s = signature[:32], signature[32:]
                    signature = encode_dss_signature(
                        int.from_bytes(r, "big"), int.from_bytes(s, "big")
                    )
                key.verify(signature, message, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            return False
        return True


def algorithm_of(key: object) -> str:
    """Return the algorithm of a public key. Raises ``KindError`` for a key of another kind."""
    if isinstance(key, Ed25519PublicKey):
        return "Ed25519"
    if isinstance(key, rsa.RSAPublicKey) and key.key_size == 2048:
        numbers = key.public_numbers()
        # Signatures with small exponents have been forged.
        if numbers.e > 65_536 and numbers.e % 2 and numbers.n % 2:
            return "RSA-2048"
        raise KindError("the RSA key's exponent must be odd and above 65,536, its modulus odd")
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name == "secp256r1":
        return "ECDSA-P256"
    raise KindError("the key is of another kind than Ed25519, RSA with 2048 bits and ECDSA P-256")


def _der_of(pem: str) -> bytes:
    match = _PEM.fullmatch(pem) if len(pem) <= _PEM_BYTES_MAX else None
    if match is None:
        raise ValueError("the key must be one PEM PUBLIC KEY with nothing around it")
    text = ""
    for line in match[1].removesuffix("\n").split("\n"):
        content = line.removesuffix("\r")
        is_spaced = " " in content or "\t" in content
        if not line.strip(_BLANKS) or (is_spaced and len(line) > _SPACED_LINE_MAX):
            raise ValueError("remove empty lines and spaces from the PEM")
        text += content.replace(" ", "").replace("\t", "")
    der = base64.b64decode(text, validate=True)
    # Python also reads base64 with unused bits that are set.
    if base64.b64encode(der).decode() != text:
        raise ValueError("the PEM's body must be padded base64")
    return der


def _encodings(key: object) -> list[bytes]:
    """Return the SPKI in DER that the service accepts for a usable key."""
    assert isinstance(key, (Ed25519PublicKey, rsa.RSAPublicKey, ec.EllipticCurvePublicKey))
    encodings = [key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)]
    if isinstance(key, ec.EllipticCurvePublicKey):
        point = key.public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
        encodings.append(_COMPRESSED_P256 + point)
    return encodings


def _y(point: bytes) -> int:
    return int.from_bytes(point, "little") & ~(1 << 255)


def _is_small(point: bytes) -> bool:
    """Whether a point of edwards25519 has an order of at most 8, in any encoding.

    The service rejects signatures with such a key or R (`verify_strict` of ed25519-dalek).
    """
    return _y(point) in _SMALL
