"""The client of asyncio programs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from conftest import Gateway, Step

from receipts_client import (
    AsyncClient,
    Client,
    ClosedError,
    QueueFullError,
    RejectedError,
    Use,
    UseError,
)

Make = Callable[..., Client]


def use(number: int = 0, receipt_id: str | None = None) -> Use:
    url = f"https://news.example/{number}"
    return Use(url, "inference", "an answer", content="a", receipt_id=receipt_id)


def test_leaving_the_context_delivers(new_client: Make, gateway: Gateway) -> None:
    async def run() -> set[str]:
        async with AsyncClient(new_client(batch_delay_s=60)) as client:
            return set(await asyncio.gather(*(client.record(use(number)) for number in range(50))))

    recorded = asyncio.run(run())
    assert gateway.ids() == recorded and len(recorded) == 50


def test_full_queue_doesnt_block_the_loop(new_client: Make, gateway: Gateway) -> None:
    gateway.default = Step(503)

    async def run() -> None:
        client = AsyncClient(new_client(queue_receipts_max=5, queue_wait_s=1))
        for number in range(5):
            await client.record(use(number))
        failing = asyncio.gather(
            *(client.record(use(number)) for number in range(20)), return_exceptions=True
        )
        ticks = 0
        while not failing.done():
            await asyncio.sleep(0.01)
            ticks += 1
        # All wait at one time, and the loop runs meanwhile.
        assert {type(error) for error in await failing} == {QueueFullError}
        assert ticks > 3, f"the loop ran {ticks} times in the second that they waited"
        waiting = asyncio.create_task(client.record(use(9)))
        gateway.default = Step()
        assert await waiting
        assert await client.close(30)

    asyncio.run(asyncio.wait_for(run(), 60))
    assert len(gateway.ids()) == 6


def test_submit_waits_for_the_answer(new_client: Make, gateway: Gateway) -> None:
    upper = "0192F0C1-D2E3-7A4B-8C5D-6E7F80910001"

    async def run() -> None:
        client = AsyncClient(new_client(requests_in_flight_max=1))
        both = await asyncio.gather(
            client.submit(use(receipt_id=upper)), client.submit(use(receipt_id=upper.lower()))
        )
        assert set(both) == {upper.lower()}
        gateway.steps = [Step(400, faults=[(0, "invalid_url", "/content/url")])]
        with pytest.raises(RejectedError) as error:
            await client.submit(use())
        assert error.value.rejection.pointer == "/content/url"
        with pytest.raises(UseError):
            await client.submit(Use("nonsense", "training", ""))
        gateway.default = Step(503)
        waiting = asyncio.create_task(client.submit(use()))
        await asyncio.sleep(0.1)
        await client.close(0.1)
        with pytest.raises((ClosedError, RejectedError)):
            await waiting

    asyncio.run(asyncio.wait_for(run(), 60))


def test_submit_whose_loop_ended_disturbs_nothing(new_client: Make, gateway: Gateway) -> None:
    gateway.default = Step(delay_s=0.3)
    client = new_client()

    async def run() -> None:
        submitting = asyncio.create_task(AsyncClient(client).submit(use()))
        while not sum(client.state()[name] for name in ("queued", "in_flight")):
            await asyncio.sleep(0.01)
        submitting.cancel()

    asyncio.run(run())
    assert client.flush(30) and len(gateway.arrivals) == 1


def test_failed_task_that_nobody_awaits_is_counted(new_client: Make, gateway: Gateway) -> None:
    names: list[str] = []

    async def run() -> None:
        client = AsyncClient(new_client(on_metric=lambda name, _: names.append(name)))
        task = asyncio.create_task(client.record(Use("nonsense", "training", "")))
        await asyncio.wait([task])
        await client.close()

    asyncio.run(run())
    assert names == ["failed"]
