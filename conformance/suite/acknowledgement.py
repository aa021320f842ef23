"""Signed acknowledgements, as docs/acknowledgements.md defines them."""

import base64
import hashlib
import json
from datetime import datetime, timezone

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


class AcknowledgementKey:
    """A new key, and its public half as a JWK whose ``kid`` is the RFC 7638 thumbprint."""

    def __init__(self):
        self._key = Ed25519PrivateKey.generate()
        x = _url_base64(self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))
        kid = _url_base64(hashlib.sha256(_canonical({"crv": "Ed25519", "kty": "OKP", "x": x})).digest())
        self.jwk = {"kty": "OKP", "crv": "Ed25519", "x": x, "kid": kid, "use": "sig"}

    def sign(self, acknowledgement):
        """Return the acknowledgement with the key's ID and signature."""
        named = {**acknowledgement, "keyId": self.jwk["kid"]}
        named.pop("signature", None)
        signature = base64.b64encode(self._key.sign(_canonical(named))).decode()
        return {**named, "signature": signature}


def acknowledgement_of(body, offset, key):
    """Return the signed acknowledgement of a batch."""
    batch = json.loads(body)
    now = datetime.now(timezone.utc)
    return key.sign({
        "requestDigest": f"sha256:{hashlib.sha256(body).hexdigest()}",
        "batchId": batch["batchId"],
        "receiptCount": len(batch["receipts"]),
        "logPosition": {"epoch": 1, "partition": 0, "offset": offset},
        "receivedAt": f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1_000:03}Z",
        "outcome": "/api/v1/receipts/{receiptId}",
    })


def _canonical(members):
    # Names in ASCII and small integers: RFC 8785 needs no more than this.
    return json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _url_base64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
