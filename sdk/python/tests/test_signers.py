"""Signers, and the check of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from receipts_client import CallbackSigner, Client, PemSigner
from receipts_client.testing import new_signer

KEYS = Path(__file__).resolve().parents[3] / "conformance" / "vectors" / "keys"


def client_of(signer: object) -> Client:
    return Client("http://127.0.0.1:1", "018f3f3c-7f2e-7cc0-8b6a-2f6d1c7e9a10", signer)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["rsa-2048", "ecdsa-p256"])
def test_callback_holds_the_key(kind: str) -> None:
    key = PemSigner.from_file(KEYS / f"{kind}.pem")
    client_of(CallbackSigner(key.public_key, key.sign)).close()


def test_callback_with_another_key_is_refused() -> None:
    key, other = new_signer(), new_signer()
    with pytest.raises(ValueError, match="which key"):
        client_of(CallbackSigner(key.public_key, other.sign))


def test_environment_may_have_a_key_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    pem = (KEYS / "ed25519.pem").read_text()
    for text in (pem, pem.replace("\n", "\\n")):
        monkeypatch.setenv("RECEIPTS_CLIENT_KEY", text)
        assert PemSigner.from_env().public_key == PemSigner(pem).public_key
    monkeypatch.delenv("RECEIPTS_CLIENT_KEY")
    with pytest.raises(KeyError):
        PemSigner.from_env()
