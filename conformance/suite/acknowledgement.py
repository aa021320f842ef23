"""Signed acknowledgements, as docs/acknowledgements.md defines them."""

import base64
import hashlib
import json
import os
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

    def sign(self, acknowledgement, path=None):
        """Return the acknowledgement with the key's ID and signature.

        The signature is over the root that ``path`` leads to, if there is one.
        """
        named = {**acknowledgement, "keyId": self.jwk["kid"]}
        for name in ("path", "signature"):
            named.pop(name, None)
        message = _canonical(named)
        if path is not None:
            message = _root(message, path)
            named["path"] = path
        return {**named, "signature": base64.b64encode(self._key.sign(message)).decode()}


def acknowledgement_of(body, offset, key):
    """Return the signed acknowledgement of a batch, every second time as one of several."""
    path = [{side: base64.b64encode(os.urandom(32)).decode()} for side in ("right", "left", "left")]
    batch = json.loads(body)
    now = datetime.now(timezone.utc)
    return key.sign({
        "requestDigest": f"sha256:{hashlib.sha256(body).hexdigest()}",
        "batchId": batch["batchId"],
        "receiptCount": len(batch["receipts"]),
        "logPosition": {"epoch": 1, "partition": 0, "offset": offset},
        "receivedAt": f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1_000:03}Z",
        "outcome": "/api/v1/receipts/{receiptId}",
    }, path if offset % 2 else None)


def _root(leaf, path):
    node = hashlib.sha256(b"\0" + leaf).digest()
    for step in path:
        [(side, text)] = step.items()
        pair = [base64.b64decode(text), node]
        if side == "right":
            pair.reverse()
        node = hashlib.sha256(b"\1" + b"".join(pair)).digest()
    return node


def _canonical(members):
    # Names in ASCII and small integers: RFC 8785 needs no more than this.
    return json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _url_base64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
