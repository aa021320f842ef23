"""Signed receipts and batches, as bytes in canonical form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .canonical import canonicalize
from .signers import Signer, signature_text


def signed_receipt(members: dict[str, Any], client: bytes, signer: Signer) -> bytes:
    """Return the signed receipt of a use's members, in canonical form.

    ``client`` is the canonical form of the receipt's member of that name.
    """
    # The members in their canonical order, so that the signature can be put between them.
    content, usage = canonicalize(members["content"]), canonicalize(members["usage"])
    head = b'{"client":%b,"content":%b,"receiptId":"%b"' % (
        client,
        content,
        members["receiptId"].encode(),
    )
    tail = b',"timestamp":"%b","usage":%b,"version":"%b"}' % (
        members["timestamp"].encode(),
        usage,
        members["version"].encode(),
    )
    return head + _signature(signer, head + tail) + tail


def signed_batch(batch_id: str, receipts: Sequence[bytes], signer: Signer) -> bytes:
    """Return the body of a batch of receipts in canonical form."""
    head = b'{"batchId":"%b","receipts":[%b]' % (batch_id.encode(), b",".join(receipts))
    tail = b',"version":"1.0.0"}'
    return head + _signature(signer, head + tail) + tail


def with_key(receipt: bytes, signer: Signer) -> bytes:
    """Return a receipt signed by ``signer``.

    Receipts that an earlier process left may have another key, for example after a rotation, and a
    batch is signed by the one key of all its receipts. Only for receipts that the service has not
    stored.
    """
    # Within a text the quotation marks would be escaped.
    if b'"publicKey":' + canonicalize(signer.public_key) in receipt:
        return receipt
    members = json.loads(receipt)
    members["client"]["publicKey"] = signer.public_key
    return signed_receipt(members, canonicalize(members["client"]), signer)


def receipts_of(body: bytes) -> list[bytes]:
    """Return the receipts of a batch, as ``signed_batch`` got them."""
    return [canonicalize(receipt) for receipt in json.loads(body)["receipts"]]


def receipt_id(receipt: bytes) -> str:
    """Return the ID of a receipt in canonical form."""
    return str(json.loads(receipt)["receiptId"])


def _signature(signer: Signer, message: bytes) -> bytes:
    text = signature_text(signer, message)
    return f',"signature":"{text}","signatureAlgorithm":"{signer.algorithm}"'.encode()
