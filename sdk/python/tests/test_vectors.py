"""The vectors of conformance/, which crates/receipt writes."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import uuid
from pathlib import Path
from typing import Any

import pytest

from receipts_client import (
    CallbackSigner,
    CanonicalError,
    PemSigner,
    Use,
    UseError,
    Webhook,
    WebhookError,
    canonicalize,
)
from receipts_client.acknowledgements import AcknowledgementError, PublishedKeys, verified
from receipts_client.canonical import parse
from receipts_client.canonical_url import canonical_url, entry_id_of
from receipts_client.public_key import PublicKey
from receipts_client.transport import answer_of

VECTORS = Path(__file__).resolve().parents[3] / "conformance" / "vectors"


def vectors(name: str) -> Any:
    return json.loads((VECTORS / f"{name}.json").read_text())


def named(name: str) -> Any:
    return pytest.mark.parametrize("vector", vectors(name), ids=lambda vector: vector["name"])


@named("canonical")
def test_canonical_form_and_hash(vector: dict[str, str]) -> None:
    canonical = canonicalize(parse(vector["input"].encode()))
    assert canonical == vector["canonical"].encode()
    assert hashlib.sha256(canonical).hexdigest() == vector["sha256"]


@named("refused")
def test_text_without_canonical_form_is_refused(vector: dict[str, str]) -> None:
    with pytest.raises(CanonicalError):
        canonicalize(parse(vector["input"].encode()))


def test_numbers_are_written_as_ecmascript_writes_them() -> None:
    for vector in vectors("numbers"):
        (number,) = struct.unpack(">d", bytes.fromhex(vector["bits"]))
        assert canonicalize(number).decode() == vector["text"]
        assert canonicalize(parse(vector["text"].encode())).decode() == vector["text"]


@named("signatures")
def test_signature_is_judged_as_the_service_judges(vector: dict[str, Any]) -> None:
    message, signature = (base64.b64decode(vector[name]) for name in ("message", "signature"))
    assert PublicKey(vector["publicKey"]).verify(message, signature) == vector["valid"]


@named("receipts")
def test_webhook_judges_as_the_service_judges(vector: dict[str, Any]) -> None:
    body = json.dumps(vector["receipt"]).encode()
    if vector["valid"]:
        assert Webhook("news.example").verify(body) == vector["receipt"]
    else:
        with pytest.raises(WebhookError) as error:
            Webhook("news.example").verify(body)
        assert error.value.code == "bad_signature"


@named("receipts")
def test_payload_hash(vector: dict[str, Any]) -> None:
    receipt = dict(vector["receipt"])
    del receipt["signature"], receipt["signatureAlgorithm"]
    canonical = canonicalize(receipt)
    assert canonical == vector["canonical"].encode()
    assert hashlib.sha256(canonical).hexdigest() == vector["payloadHash"]


@named("answers")
def test_answer_means_what_the_rule_says(vector: dict[str, Any]) -> None:
    fields = {"Location": vector["location"]} if "location" in vector else {}
    answer = answer_of(vector["status"], vector["body"].encode(), fields)
    # Of a 202, the acknowledgement decides.
    expected = "acknowledged" if vector["name"] == "a 202 of something else" else vector["outcome"]
    assert answer.outcome == expected
    if answer.outcome == "split":
        assert answer.is_gateways == (vector["name"] != "a proxy's 413")
    assert vector.get("location", "") in answer.detail


@named("acknowledgements")
def test_acknowledgement_proves_what_it_says(vector: dict[str, Any]) -> None:
    body = vector["body"].encode()
    batch = json.loads(body)
    keys = PublishedKeys(lambda: json.dumps(vector["keys"]).encode())
    members = json.loads(vector["answer"]) if vector["answer"].startswith("{") else {}
    arguments = (members, body, batch["batchId"], len(batch["receipts"]), keys)
    if vector["valid"]:
        assert verified(*arguments) == members["acknowledgement"]
    else:
        with pytest.raises(AcknowledgementError):
            verified(*arguments)


@named("private-keys")
def test_private_key_is_read_or_the_error_has_the_command(
    vector: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECEIPTS_CLIENT_KEY", vector["pem"])
    if "algorithm" in vector:
        assert PemSigner.from_env().algorithm == vector["algorithm"]
    else:
        with pytest.raises(ValueError) as error:
            PemSigner.from_env()
        assert vector["command"] in str(error.value)


@named("public-keys")
def test_public_key_is_read_or_the_error_has_the_command(vector: dict[str, str]) -> None:
    if "algorithm" in vector:
        signer = CallbackSigner(vector["pem"], bytes)
        assert signer.algorithm == vector["algorithm"]
        assert signer.public_key == vector["publicKey"]
    else:
        with pytest.raises(ValueError) as error:
            CallbackSigner(vector["pem"], bytes)
        assert vector["command"] in str(error.value)


@named("public-keys")
def test_webhook_reads_the_public_keys_that_receipts_may_carry(vector: dict[str, Any]) -> None:
    receipt = vectors("receipts")[0]["receipt"]
    receipt["client"]["publicKey"] = vector["pem"]
    receipt["usage"]["context"] += ", changed"
    receipt["signatureAlgorithm"] = vector.get("algorithm", "Ed25519")
    with pytest.raises(WebhookError) as error:
        Webhook().verify(json.dumps(receipt).encode())
    # Nobody signed this receipt, so the check behind the key's refuses it.
    expected = "bad_signature" if vector.get("inReceipts") else "bad_public_key"
    assert error.value.code == expected


@pytest.mark.parametrize("vector", vectors("entries"), ids=lambda vector: vector["url"])
def test_canonical_url_and_entry_id(vector: dict[str, str]) -> None:
    assert canonical_url(vector["url"]) == vector["canonicalUrl"]
    assert entry_id_of(vector["url"]) == vector["entryId"]


@pytest.mark.parametrize("vector", vectors("refused-urls"), ids=lambda vector: vector["name"])
def test_url_without_a_canonical_form_is_refused(vector: dict[str, str]) -> None:
    with pytest.raises(UseError):
        canonical_url(vector["url"])


@named("publishers")
def test_publisher_is_judged_as_the_gateway_judges(vector: dict[str, str]) -> None:
    use = Use(vector["url"], "research", "a", content="b", publisher=vector["publisher"])
    if "code" in vector:
        with pytest.raises(UseError):
            use.members()
    else:
        assert use.members()["content"]["publisher"] == vector["canonicalPublisher"]


def test_use_takes_the_entry_id_of_its_url() -> None:
    members = Use("https://News.example/2026/11/lead#a", "research", "a", content="b").members()
    assert members["content"]["entryId"] == entry_id_of("https://news.example/2026/11/lead")


@pytest.mark.parametrize("kind", ["ed25519", "rsa-2048", "ecdsa-p256"])
def test_signer_of_each_kind_signs_what_verifies(kind: str) -> None:
    signer = PemSigner.from_file(VECTORS / "keys" / f"{kind}.pem")
    message = uuid.uuid4().bytes
    key = PublicKey(signer.public_key)
    assert key.verify(message, signer.sign(message))
    assert not key.verify(message + b".", signer.sign(message))
