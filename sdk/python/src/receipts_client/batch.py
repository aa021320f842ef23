"""Signed receipts and batches, as bytes in canonical form."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from .canonical import canonicalize
from .signers import Signer, signature_text

# Within a text the quotation marks would be escaped.
_RECEIPT_ID = re.compile(rb'"receiptId":"([-0-9a-fA-F]{36})"')


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


def key_member(signer: Signer) -> bytes:
    """Return the member of the public key, as it is in the signer's receipts."""
    return b'"publicKey":' + canonicalize(signer.public_key)


def with_key(receipt: bytes, signer: Signer, member: bytes) -> bytes:
    """Return a receipt signed by ``signer``, whose ``key_member`` is ``member``.

    Receipts that an earlier process left may have another key, for example after a rotation, and a
    batch is signed by the one key of all its receipts. Only for receipts that the service has not
    stored.
    """
    # Within a text the quotation marks would be escaped.
    if member in receipt:
        return receipt
    members = json.loads(receipt)
    members["client"]["publicKey"] = signer.public_key
    return signed_receipt(members, canonicalize(members["client"]), signer)


def receipts_of(body: bytes) -> list[bytes]:
    """Return the receipts of a batch, as ``signed_batch`` got them.

    Much faster than a JSON parser: each receipt begins with the member ``client``, and within a
    text the quotation marks would be escaped.
    """
    head, separator = body.index(b'"receipts":[') + len(b'"receipts":['), b',{"client":'
    inner = body[head : body.rindex(b'],"signature":')]
    first, *others = inner.split(separator)
    return [first, *(separator[1:] + other for other in others)]


def receipt_ids(data: bytes) -> list[str]:
    """Return the IDs of the receipts in canonical form that the bytes have."""
    return [match.decode() for match in _RECEIPT_ID.findall(data)]


def receipt_id(receipt: bytes) -> str:
    """Return the ID of a receipt in canonical form."""
    return receipt_ids(receipt)[0]


def _signature(signer: Signer, message: bytes) -> bytes:
    text = signature_text(signer, message)
    return f',"signature":"{text}","signatureAlgorithm":"{signer.algorithm}"'.encode()
