"""Verification of batches and receipts, independent of any client library."""

import base64
import json
import re
import uuid
from datetime import datetime

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from .canonical import canonicalize

_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d\d:\d\d)")


def check_batch(body):
    """Return the receipts of a batch. Raises ``AssertionError`` with what is wrong."""
    batch = json.loads(body, object_pairs_hook=_unique)
    assert batch["version"] == "1.0.0", "the batch's version"
    assert batch["batchId"], "the batch's ID is empty"
    receipts = batch["receipts"]
    assert receipts, "the batch is empty"
    keys = {receipt["client"]["publicKey"] for receipt in receipts}
    assert len(keys) == 1, "the receipts have different keys"
    key = keys.pop()
    check_signature(batch, key)
    for receipt in receipts:
        check_signature(receipt, key)
        _check_members(receipt)
    return receipts


def check_signature(value, key):
    """Assert that an object's signature is the key's over its canonical form."""
    value = dict(value)
    signature = base64.b64decode(value.pop("signature"), validate=True)
    algorithm = value.pop("signatureAlgorithm")
    message = canonicalize(value)
    public = load_pem_public_key(key.encode())
    try:
        if algorithm == "Ed25519":
            public.verify(signature, message)
        elif algorithm == "RSA-2048":
            public.verify(signature, message, padding.PKCS1v15(), hashes.SHA256())
        elif algorithm == "ECDSA-P256":
            if len(signature) == 64:
                r, s = signature[:32], signature[32:]
                signature = encode_dss_signature(int.from_bytes(r, "big"), int.from_bytes(s, "big"))
            public.verify(signature, message, ec.ECDSA(hashes.SHA256()))
        else:
            raise AssertionError(f"the algorithm {algorithm}")
    except InvalidSignature:
        raise AssertionError(f"a signature by {algorithm} isn't the key's") from None


def _check_members(receipt):
    assert receipt["version"] == "1.0.0", "a receipt's version"
    for name, value in [
        ("receiptId", receipt["receiptId"]),
        ("entryId", receipt["content"]["entryId"]),
        ("client.id", receipt["client"]["id"]),
    ]:
        assert str(uuid.UUID(value)) == value.lower(), f"{name} is {value}"
    assert _TIMESTAMP.fullmatch(receipt["timestamp"]), f"timestamp is {receipt['timestamp']}"
    age = datetime.now().astimezone() - datetime.fromisoformat(receipt["timestamp"].replace("Z", "+00:00"))
    assert -300 < age.total_seconds() < 30 * 86_400, f"timestamp is {receipt['timestamp']}"
    assert re.fullmatch("sha256:[0-9a-f]{64}", receipt["content"]["contentHash"]), "contentHash"
    assert receipt["usage"]["purpose"] in ("training", "inference", "research"), "purpose"


def _unique(pairs):
    assert len(dict(pairs)) == len(pairs), "a member occurs twice"
    return dict(pairs)
