"""Verification of receipts that a publisher gets."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
from test_use import receipt_of

from receipts_client import UseError, Webhook, WebhookError, canonicalize
from receipts_client.batch import signed_batch
from receipts_client.testing import new_signer
from receipts_client.use import new_id

SIGNER = new_signer()
RECEIPT = receipt_of(SIGNER)


def code_of(webhook: Webhook, body: bytes) -> str:
    with pytest.raises(WebhookError) as error:
        webhook.verify_all(body)
    return error.value.code


def changed(**members: Any) -> bytes:
    return json.dumps({**json.loads(RECEIPT), **members}).encode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"[]",
        b"1",
        b'"a"',
        b"{}",
        b"\xef\xbb\xbf{}",
        RECEIPT[:-1] + b',"version":"1.0.0"}',
        changed(signature=None),
        changed(signature="é"),
        changed(signature="A"),
        changed(client={}),
        changed(client=[]),
        changed(content={"publisher": 3, "url": 4}),
        b'{"receipts":[]}',
        b'{"receipts":{}}',
        b'{"receipts":[3]}',
        b"[" * 50_000,
        RECEIPT[:-1] + b',"extension":1e999}',
        RECEIPT[:-1] + b',"extension":"\\ud800"}',
    ],
)
def test_body_that_is_no_receipt_is_malformed(body: bytes) -> None:
    assert code_of(Webhook(), body) == "malformed"


def test_further_members_are_signed() -> None:
    assert code_of(Webhook(), changed(extension=1)) == "bad_signature"


def test_key_that_is_none() -> None:
    client = json.loads(RECEIPT)["client"]
    body = changed(client={**client, "publicKey": "-----BEGIN PUBLIC KEY-----\n-----END"})
    assert code_of(Webhook(), body) == "bad_public_key"
    assert code_of(Webhook(), changed(signatureAlgorithm="RSA-2048")) == "key_algorithm_mismatch"


def test_other_publisher_and_other_key_are_refused() -> None:
    assert Webhook("WWW.news.example").verify(RECEIPT)["receiptId"]
    assert code_of(Webhook("other.example"), RECEIPT) == "malformed"
    key = load_pem_public_key(SIGNER.public_key.encode())
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    fingerprint = hashlib.sha256(der).hexdigest()
    assert Webhook(fingerprints=[fingerprint]).verify(RECEIPT)
    assert code_of(Webhook(fingerprints=["00"]), RECEIPT) == "client_key_unknown"


def test_publishers_are_compared_in_canonical_form() -> None:
    receipt = receipt_of(SIGNER, url="https://www.BÜCHER.example./a", publisher="bücher.example")
    for publisher in ["bücher.example", "XN--bcher-kva.example."]:
        assert Webhook(publisher).verify(receipt)["receiptId"]
    assert code_of(Webhook("www.bücher.example"), receipt) == "malformed"
    with pytest.raises(UseError):
        Webhook("localhost")


def test_batch_is_judged_with_its_own_signature() -> None:
    body = signed_batch(new_id(), [RECEIPT, receipt_of(SIGNER)], SIGNER)
    assert len(Webhook().verify_all(body)) == 2
    other = signed_batch(new_id(), [RECEIPT], new_signer())
    assert code_of(Webhook(), other) == "bad_batch_signature"
    mixed = signed_batch(new_id(), [RECEIPT, receipt_of(new_signer())], SIGNER)
    assert code_of(Webhook(), mixed) == "malformed"
    dropped = {**json.loads(body), "receipts": json.loads(body)["receipts"][:1]}
    assert code_of(Webhook(), canonicalize(dropped)) == "bad_batch_signature"


def test_signature_with_a_key_of_small_order_is_refused() -> None:
    # The identity as key and R, and S = 0: OpenSSL accepts it for every message.
    identity = (1).to_bytes(32, "little")
    der = bytes.fromhex("302a300506032b6570032100") + identity
    pem = (
        f"-----BEGIN PUBLIC KEY-----\n{base64.b64encode(der).decode()}\n-----END PUBLIC KEY-----\n"
    )
    receipt = json.loads(RECEIPT)
    receipt["client"]["publicKey"] = pem
    receipt["signature"] = base64.b64encode(identity + bytes(32)).decode()
    assert code_of(Webhook(), json.dumps(receipt).encode()) == "bad_public_key"
