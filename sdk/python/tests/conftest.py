"""Fixtures of the tests."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from receipts_client import Client, Options, Rejection
from receipts_client.testing import new_signer

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "conformance"))

from suite.gateway import ScriptedGateway, Step  # noqa: E402

# A loaded machine is slow, and conformance/compare-canonical compares 100,000 values.
settings.register_profile("short", max_examples=60, deadline=None)
settings.load_profile("short")

CLIENT_ID = "018f3f3c-7f2e-7cc0-8b6a-2f6d1c7e9a10"
FAST = {"batch_delay_s": 0.05, "retry_min_s": 0.01, "retry_max_s": 0.05}
BOUNDS = {one.name for one in fields(Options)}


class Gateway(ScriptedGateway):
    """The scripted gateway of the conformance suite."""

    def ids(self) -> set[str]:
        return set(self.acknowledged())


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    gateway = Gateway()
    yield gateway
    gateway.close()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of this machine has nothing to do with the gateways of the tests."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def rejected() -> list[Rejection]:
    return []


@pytest.fixture
def new_client(gateway: Gateway, rejected: list[Rejection]) -> Iterator[Callable[..., Client]]:
    clients: list[Client] = []

    def make(**options: Any) -> Client:
        signer = options.pop("signer", None) or new_signer()
        url = options.pop("url", gateway.url)
        options = {"on_rejected": rejected.append, **options}
        bounds: dict[str, Any] = {**FAST}
        bounds |= {name: options.pop(name) for name in BOUNDS & set(options)}
        clients.append(Client(url, CLIENT_ID, signer, options=Options(**bounds), **options))
        return clients[-1]

    yield make
    for client in clients:
        client.close(0)


__all__ = ["CLIENT_ID", "FAST", "Gateway", "Step"]
