"""Fixtures of the tests."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from receipts_client import Client, Rejection
from receipts_client.testing import new_signer

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "conformance"))

from suite.gateway import ScriptedGateway, Step  # noqa: E402

# A loaded machine is slow, and conformance/compare-canonical compares 100,000 values.
settings.register_profile("short", max_examples=60, deadline=None)
settings.load_profile("short")

CLIENT_ID = "018f3f3c-7f2e-7cc0-8b6a-2f6d1c7e9a10"
FAST = {"batch_delay_s": 0.05, "retry_min_s": 0.01, "retry_max_s": 0.05}


class Gateway(ScriptedGateway):
    """The scripted gateway of the conformance suite."""

    def ids(self) -> set[str]:
        return set(self.acknowledged())


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    gateway = Gateway()
    yield gateway
    gateway.close()


@pytest.fixture
def rejected() -> list[Rejection]:
    return []


@pytest.fixture
def new_client(gateway: Gateway, rejected: list[Rejection]) -> Iterator[Callable[..., Client]]:
    clients: list[Client] = []

    def make(**options: Any) -> Client:
        signer = options.pop("signer", None) or new_signer()
        url = options.pop("url", gateway.url)
        options = {"on_rejected": rejected.append, **FAST, **options}
        clients.append(Client(url, CLIENT_ID, signer, **options))
        return clients[-1]

    yield make
    for client in clients:
        client.close(0)


__all__ = ["CLIENT_ID", "FAST", "Gateway", "Step"]
