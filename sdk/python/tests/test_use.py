"""Uses, and the receipts they become."""

from __future__ import annotations

import json
import uuid
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receipts_client import PemSigner, Use, UseError, canonicalize
from receipts_client.batch import (
    key_member,
    receipt_ids,
    receipts_of,
    signed_batch,
    signed_receipt,
    with_key,
)
from receipts_client.testing import new_signer
from receipts_client.use import new_id
from receipts_client.webhook import Webhook

URL = "https://www.news.example:8443/a?b=c"


def use(**members: Any) -> Use:
    return Use(**{"url": URL, "purpose": "training", "context": "a", "content": b"b", **members})


@pytest.mark.parametrize(
    "members",
    [
        {"url": "ftp://news.example/"},
        {"url": "nonsense"},
        {"url": None},
        {"url": "https://user@news.example/"},
        {"url": "https://news.example/a b"},
        {"url": "https://news.example/\n"},
        {"url": "https://a..news.example/"},
        {"url": "https://%61.news.example/"},
        {"url": "https://localhost/"},
        {"url": "https://127.0.0.1/"},
        {"url": "https://ne\u200dws.example/"},
        {"url": "https://news.example:70000/"},
        {"url": "https://news.example/" + "a" * 2_048},
        {"publisher": "other.example"},
        {"publisher": "s.example"},
        {"publisher": "example"},
        {"publisher": "-"},
        {"purpose": "fun"},
        {"context": None},
        {"context": ""},
        {"context": " \u3000"},
        {"context": "\ud800"},
        {"context": "é" * 2_049},
        {"content": None},
        {"content_hash": "sha256:" + "0" * 64},
        {"content": None, "content_hash": "sha256:12"},
        {"content": "\udfff"},
        {"content": 5},
        {"content": None, "content_hash": 5},
        {"receipt_id": ""},
        {"entry_id": ""},
        {"receipt_id": "12"},
        {"receipt_id": str(uuid.UUID(int=0))},
        {"entry_id": 12},
        {"timestamp": datetime(2026, 11, 25)},
        {"timestamp": "2026-11-25T00:00:00.000Z"},
        {"model_id": 3},
    ],
)
def test_wrong_member_is_refused(members: dict[str, Any]) -> None:
    with pytest.raises(UseError):
        use(**members).members()


def test_error_names_a_member_that_the_caller_gave() -> None:
    with pytest.raises(UseError, match="url's host 'my_blog.example'"):
        use(url="https://my_blog.example/").members()


@pytest.mark.parametrize("publisher", ["www.news.example", "news.example", "News.Example."])
def test_publisher_is_the_host_or_above(publisher: str) -> None:
    canonical = publisher.lower().removesuffix(".")
    assert use(publisher=publisher).members()["content"]["publisher"] == canonical
    assert use().members()["content"]["publisher"] == "www.news.example"


@pytest.mark.parametrize("host", ["bücher.example", "BÜCHER.example.", "xn--bcher-kva.example"])
def test_publisher_of_an_international_host_is_in_ascii_form(host: str) -> None:
    content = use(url=f"https://{host}/a").members()["content"]
    assert (content["url"], content["publisher"]) == (f"https://{host}/a", "xn--bcher-kva.example")


def test_timestamp_is_in_utc_with_milliseconds() -> None:
    zone = timezone(timedelta(hours=2))
    moment = datetime(2026, 11, 25, 1, 2, 3, 999_999, zone)
    assert use(timestamp=moment).members()["timestamp"] == "2026-11-24T23:02:03.999Z"


def test_new_ids_are_uuids_of_version_7_in_order_of_time() -> None:
    identifiers = [uuid.UUID(new_id()) for _ in range(100)]
    assert {(one.version, one.variant) for one in identifiers} == {(7, uuid.RFC_4122)}
    assert [one.int >> 80 for one in identifiers] == sorted(one.int >> 80 for one in identifiers)
    assert len(set(identifiers)) == 100


def receipt_of(signer: PemSigner, **members: Any) -> bytes:
    client = {"id": new_id(), "name": 'é"\\', "version": "1", "organization": "\u2028"}
    canonical = canonicalize({**client, "publicKey": signer.public_key})
    return signed_receipt(use(**members).members(), canonical, signer)


def test_receipt_and_batch_are_canonical_and_verify() -> None:
    signer = new_signer()
    receipts = [receipt_of(signer, context='é"\\\n😀', model_id="\x7f") for _ in range(3)]
    for receipt in receipts:
        assert canonicalize(json.loads(receipt)) == receipt
    body = signed_batch(new_id(), receipts, signer)
    assert canonicalize(json.loads(body)) == body
    assert receipts_of(body) == receipts
    assert len(Webhook("www.news.example").verify_all(body)) == 3


@given(
    st.lists(
        st.text() | st.sampled_from([',{"client":', '],"signature":', '"receiptId":"']), min_size=1
    )
)
def test_receipts_of_a_batch_are_found_whatever_their_texts(texts: list[str]) -> None:
    signer = new_signer()
    receipts = [
        receipt_of(signer, context="a" + one.encode("utf-8", "replace").decode()) for one in texts
    ]
    body = signed_batch(new_id(), receipts, signer)
    assert receipts_of(body) == receipts
    assert receipt_ids(body) == [json.loads(receipt)["receiptId"] for receipt in receipts]


def test_receipt_of_another_key_is_signed_again() -> None:
    old, new = new_signer(), new_signer()
    # A text that looks like the new key's member doesn't count as one.
    receipt = receipt_of(old, context=f'"publicKey":{json.dumps(new.public_key)}')
    again = with_key(receipt, new, key_member(new))
    verified = Webhook().verify(again)
    assert verified["client"]["publicKey"] == new.public_key
    assert verified["receiptId"] == json.loads(receipt)["receiptId"]
    assert with_key(again, new, key_member(new)) is again
