"""Signed receipts and batches, as bytes in canonical form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .canonical import canonicalize
from .signers import Signer, signature_text
from .use import new_id


def signed_receipt(members: dict[str, Any], client: dict[str, str], signer: Signer) -> bytes:
    """Return the signed receipt of a use's members, in canonical form."""
    receipt = {**members, "client": client}
    signature = signature_text(signer, canonicalize(receipt))
    return canonicalize({**receipt, "signature": signature, "signatureAlgorithm": signer.algorithm})


def signed_batch(receipts: Sequence[bytes], signer: Signer) -> tuple[str, bytes]:
    """Return the ID and the body of a new batch of receipts in canonical form."""
    batch_id = new_id()
    # The members in their canonical order.
    head = f'{{"batchId":"{batch_id}","receipts":['.encode() + b",".join(receipts) + b"]"
    tail = b',"version":"1.0.0"}'
    signature = signature_text(signer, head + tail)
    own = f',"signature":"{signature}","signatureAlgorithm":"{signer.algorithm}"'.encode()
    return batch_id, head + own + tail


def receipts_of(body: bytes) -> list[bytes]:
    """Return the receipts of a batch, as ``signed_batch`` got them."""
    return [canonicalize(receipt) for receipt in json.loads(body)["receipts"]]


def receipt_id(receipt: bytes) -> str:
    """Return the ID of a receipt in canonical form."""
    return str(json.loads(receipt)["receiptId"])
