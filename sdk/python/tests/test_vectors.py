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
    CanonicalError,
    PemSigner,
    Use,
    UseError,
    Webhook,
    WebhookError,
    canonicalize,
)
from receipts_client.canonical import parse
from receipts_client.canonical_url import canonical_url, entry_id_of
from receipts_client.signers import verify

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
    assert verify(vector["publicKey"].encode(), message, signature) == vector["valid"]


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


@pytest.mark.parametrize("vector", vectors("entries"), ids=lambda vector: vector["url"])
def test_canonical_url_and_entry_id(vector: dict[str, str]) -> None:
    assert canonical_url(vector["url"]) == vector["canonicalUrl"]
    assert entry_id_of(vector["url"]) == vector["entryId"]


@pytest.mark.parametrize("vector", vectors("refused-urls"), ids=lambda vector: vector["name"])
def test_url_without_a_canonical_form_is_refused(vector: dict[str, str]) -> None:
    with pytest.raises(UseError):
        canonical_url(vector["url"])


def test_use_takes_the_entry_id_of_its_url() -> None:
    members = Use("https://News.example/2026/11/lead#a", "research", "a", content="b").members()
    assert members["content"]["entryId"] == entry_id_of("https://news.example/2026/11/lead")


@pytest.mark.parametrize("kind", ["ed25519", "rsa-2048", "ecdsa-p256"])
def test_signer_of_each_kind_signs_what_verifies(kind: str) -> None:
    signer = PemSigner.from_file(VECTORS / "keys" / f"{kind}.pem")
    message = uuid.uuid4().bytes
    assert verify(signer.public_key.encode(), message, signer.sign(message))
    assert not verify(signer.public_key.encode(), message + b".", signer.sign(message))
