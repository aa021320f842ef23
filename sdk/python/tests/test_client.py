"""The client against the scripted gateway of the conformance suite, beyond its scenarios."""

from __future__ import annotations

import hashlib
import logging
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import CLIENT_ID, Gateway, Step

from receipts_client import (
    Acknowledgement,
    Client,
    ClosedError,
    Options,
    QueueFullError,
    ReceiptsError,
    Rejection,
    Use,
    UseError,
)
from receipts_client.testing import FakeGateway, new_signer

Make = Callable[..., Client]
AWAY = "http://127.0.0.1:1"


def use(number: int = 0, **members: Any) -> Use:
    return Use(f"https://news.example/{number}", "inference", "an answer", content="a", **members)


def test_client_is_made_with_its_required_arguments_alone(gateway: Gateway) -> None:
    with Client(gateway.url, CLIENT_ID, new_signer()) as client:
        identifier = client.record(use())
    assert gateway.ids() == {identifier} and not gateway.problems


@pytest.mark.parametrize(
    "options",
    [
        {"url": "gateway.example"},
        {"url": "http://"},
        {"url": "http://a.example/?b"},
        {"name": 3},
        {"batch_receipts_max": 0},
        {"batch_receipts_max": 10_001},
        {"retry_max_s": -1},
        {"retry_max_s": float("nan")},
        {"queue_wait_s": float("inf")},
        {"queue_wait_s": "1"},
        {"batch_receipts_max": "five"},
        {"batch_receipts_max": 5.5},
        {"request_timeout_s": 0},
        {"is_compressed": "gzip"},
        {"ca_file": "/nope"},
        {"proxy": "nonsense"},
        {"proxy": "socks5://127.0.0.1:1"},
    ],
)
def test_wrong_option_is_refused(new_client: Make, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        new_client(**options)
    with pytest.raises(ValueError):
        Client("http://a.example", "12", new_signer())
    with pytest.raises(TypeError):
        new_client(no_such_option=1)


def test_closed_client_records_nothing(new_client: Make, gateway: Gateway) -> None:
    client = new_client()
    identifier = client.record(use())
    assert client.close() and client.close()
    with pytest.raises(ClosedError):
        client.record(use())
    assert client.flush() and gateway.ids() == {identifier}
    client = new_client()
    assert client.close()
    with pytest.raises(ClosedError):
        client.record(use())


def test_undelivered_receipts_are_reported_at_close(
    new_client: Make, rejected: list[Rejection]
) -> None:
    client = new_client(url=AWAY, batch_receipts_max=2)
    recorded = {client.record(use(number)) for number in range(7)}
    assert not client.close(0.3) and not client.close()
    deadline = time.monotonic() + 10
    while len(rejected) < 7 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert {one.receipt_id for one in rejected} == recorded and len(rejected) == 7
    assert {one.code for one in rejected} == {"undelivered"}


def test_receipts_in_flight_are_reported_at_close(
    new_client: Make, gateway: Gateway, rejected: list[Rejection]
) -> None:
    gateway.default = Step(delay_s=6)
    client = new_client(batch_receipts_max=10)
    recorded = {client.record(use(number)) for number in range(20)}
    while len(gateway.arrivals) < 2:
        time.sleep(0.01)
    assert not client.close(0.1)
    assert {one.receipt_id for one in rejected} == recorded and len(rejected) == 20
    assert {one.code for one in rejected} == {"undelivered"}
    while gateway.in_flight:
        time.sleep(0.1)
    time.sleep(0.5)
    # The answers that come nevertheless change nothing.
    assert len(rejected) == 20 and client.state()["acknowledged"] == 0


def test_receipts_in_flight_are_reported_at_exit(gateway: Gateway) -> None:
    gateway.default = Step(delay_s=60)
    program = f"""
from receipts_client import Client, Use
from receipts_client.testing import new_signer
signer = new_signer()
client = Client({gateway.url!r}, {CLIENT_ID!r}, signer, on_rejected=lambda one: print(one.code))
client.record(Use("https://news.example/", "training", "a", content="b"))
"""
    process = run_program(program)
    assert process.stdout == "undelivered\n" and "undelivered" in process.stderr


def test_first_request_after_a_fork_needs_no_import() -> None:
    # A fork while the parent imports the codec of host names leaves the lock of its import held.
    process = run_program("import sys, receipts_client; print('encodings.idna' in sys.modules)")
    assert process.stdout == "True\n", process.stderr


@pytest.mark.parametrize("kind", ["Pool(2)", "Process"])
def test_children_of_billiard_deliver_at_their_end(gateway: Gateway, kind: str) -> None:
    program = f"""
import billiard
from receipts_client import Client, Options, Use
from receipts_client.testing import new_signer
options = Options(batch_delay_s=60)
client = Client({gateway.url!r}, {CLIENT_ID!r}, new_signer(), options=options)
def work(number):
    return client.record(Use(f"https://news.example/{{number}}", "training", "a", content="b"))
if {kind!r} == "Process":
    children = [billiard.Process(target=work, args=(number,)) for number in range(6)]
    for child in children:
        child.start()
else:
    pool = billiard.{kind}
    pool.map(work, range(6))
    pool.close()
    children = [pool]
for child in children:
    child.join()
"""
    process = run_program(program)
    assert process.returncode == 0, process.stderr
    assert len(gateway.ids()) == 6, process.stderr


def test_failed_records_are_counted(new_client: Make, gateway: Gateway) -> None:
    names: list[str] = []
    client = new_client(
        url=AWAY, on_metric=lambda name, _: names.append(name), queue_receipts_max=1
    )
    client.record(use())
    with pytest.raises(UseError):
        client.record(Use("nonsense", "training", "a", content="b"))
    with pytest.raises(QueueFullError):
        client.record(use())
    client.close(0)
    with pytest.raises(ClosedError):
        client.record(use())
    assert names.count("failed") == 3


def test_receipt_beyond_64_kib_is_refused(new_client: Make, gateway: Gateway) -> None:
    # Control characters take six bytes each.
    texts = {name: "\x01" * 4_096 for name in ("model_id", "query_id", "session_id")}
    with pytest.raises(UseError, match="65536"):
        new_client().record(use(**texts))


def test_either_bound_of_the_queue_can_be_reached() -> None:
    options = Options()
    # Of the smallest receipts, and of ones with all members.
    assert options.queue_receipts_max * 750 < options.queue_bytes_max
    assert options.queue_receipts_max * 1_500 > options.queue_bytes_max


def test_acknowledgements_are_handed_over_before_the_batch_ends(
    new_client: Make, gateway: Gateway, tmp_path: Path
) -> None:
    seen: list[tuple[Acknowledgement, int]] = []

    def keep(one: Acknowledgement) -> None:
        seen.append((one, len(list(tmp_path.rglob("*.batch")))))

    client = new_client(spool_dir=tmp_path, on_acknowledged=keep)
    recorded = [client.record(use(number)) for number in range(3)]
    assert client.flush(30)
    [(one, files)] = seen
    assert one.receipt_ids == recorded and files == 1
    assert one.acknowledgement == gateway.arrivals[0].acknowledgement
    digest = hashlib.sha256(one.body).hexdigest()
    assert one.acknowledgement["requestDigest"] == f"sha256:{digest}"


def test_full_queue_waits_and_then_raises(new_client: Make, gateway: Gateway) -> None:
    gateway.default = Step(503)
    client = new_client(queue_receipts_max=3, queue_wait_s=0.05)
    recorded = {client.record(use()) for _ in range(3)}
    with pytest.raises(QueueFullError, match="3 receipts"):
        client.record(use())
    waiting = new_client(queue_receipts_max=1, queue_wait_s=60)
    recorded |= {waiting.record(use())}
    gateway.default = Step()
    assert client.flush(30)
    recorded |= {waiting.record(use()), client.record(use())}
    assert client.flush(30) and waiting.flush(30)
    assert gateway.ids() == recorded and len(recorded) == 6


def test_queue_returns_to_empty(new_client: Make, gateway: Gateway) -> None:
    faults = [(1, "invalid_url", "/content/url")]
    gateway.steps = [Step(400, faults=faults), Step(413), Step(503)]
    client = new_client(batch_receipts_max=10)
    for number in range(95):
        client.record(use(number))
    assert client.flush(60)
    assert client.state()["queued"] == client.state()["in_flight"] == 0
    assert client._delivery is not None and client._delivery._queued_bytes == 0


def test_retry_after_pauses_other_batches_too(new_client: Make, gateway: Gateway) -> None:
    gateway.steps = [Step(429, retry_after_s=2)]
    client = new_client(batch_receipts_max=1, requests_in_flight_max=1)
    for number in range(5):
        client.record(use(number))
    assert client.flush(30)
    first, second = gateway.arrivals[:2]
    assert second.at - first.answered_at >= 2


def test_failing_batch_doesnt_stop_the_others(new_client: Make, gateway: Gateway) -> None:
    client = new_client(batch_receipts_max=1, requests_in_flight_max=1)
    gateway.steps = [Step(500)] + [Step(), Step(500)] * 4
    recorded = {client.record(use(number)) for number in range(8)}
    assert client.flush(30) and gateway.ids() == recorded


def test_many_faults_are_reported_by_name(
    new_client: Make, gateway: Gateway, rejected: list[Rejection]
) -> None:
    faults = [(index, "invalid_url", "/content/url") for index in range(1_000)]
    gateway.steps = [Step(400, faults=faults), Step(400, faults=faults[:200])]
    bounds = {"batch_receipts_max": 1_300, "batch_bytes_max": 4 << 20, "batch_delay_s": 60}
    client = new_client(requests_in_flight_max=1, **bounds)
    recorded = [client.record(use(number)) for number in range(1_300)]
    assert client.flush(60)
    assert [one.receipt_id for one in rejected] == recorded[:1_200]
    assert {(one.code, one.pointer) for one in rejected} == {("invalid_url", "/content/url")}
    assert gateway.ids() == set(recorded[1_200:]) and not gateway.problems


def test_strange_answers_acknowledge_nothing(new_client: Make, gateway: Gateway) -> None:
    texts = [b"[]", b'{"batchId":null}', b'{"batchId":"another"}', b"[" * 10_000, b"\xff", b""]
    gateway.steps = [Step(202, text=text) for text in texts] + [Step(301), Step(204)]
    client = new_client(requests_in_flight_max=1)
    identifier = client.record(use())
    assert client.flush(60)
    assert client.state()["acknowledged"] == 1 and gateway.ids() == {identifier}
    assert len({arrival.body for arrival in gateway.arrivals}) == 1


@pytest.mark.parametrize(
    "text",
    [
        b'{"type":"/problems/invalid_batch","errors":' + errors + b"}"
        for errors in [
            b"3",
            b'[3,{"pointer":4},{"pointer":"/receipts/x/a"},{"pointer":"/receipts/77"}]',
            b'[{"pointer":"/receipts/' + b"9" * 5_000 + b'"}]',
        ]
    ],
)
def test_strange_refusal_ends_the_batch(
    new_client: Make, gateway: Gateway, rejected: list[Rejection], text: bytes
) -> None:
    gateway.steps = [Step(400, text=text)]
    client = new_client()
    identifier = client.record(use())
    assert client.flush(30)
    assert [one.receipt_id for one in rejected] == [identifier] and len(gateway.arrivals) == 1


def test_callbacks_that_raise_change_nothing(new_client: Make, gateway: Gateway) -> None:
    def fail(*_: Any) -> None:
        raise SystemExit("a callback")

    gateway.steps = [Step(400), Step(503)]
    client = new_client(on_rejected=fail, on_metric=fail, requests_in_flight_max=1)
    client.record(use())
    assert client.flush(30)
    identifier = client.record(use())
    assert client.flush(30) and gateway.ids() == {identifier}


def test_callback_may_record_and_close(new_client: Make, gateway: Gateway) -> None:
    gateway.steps = [Step(400)]
    recorded: list[str] = []
    client = new_client(on_rejected=lambda _: recorded.append(client.record(use(1))))
    client.record(use())
    assert client.flush(30) and client.flush(30)
    assert gateway.ids() == set(recorded) and recorded
    gateway.steps = [Step(400)]
    closing = new_client(on_rejected=lambda _: closing.close(0.1))
    closing.record(use())
    assert closing.flush(30)


def test_metrics_count_what_happens(new_client: Make, gateway: Gateway) -> None:
    numbers: dict[str, float] = {}

    def add(name: str, value: float) -> None:
        numbers[name] = numbers.get(name, 0) + value

    gateway.steps = [Step(503), Step(400, faults=[(0, "invalid_url", "/content/url")])]
    client = new_client(on_metric=add, requests_in_flight_max=1)
    for number in range(5):
        client.record(use(number))
    client.close(30)
    assert numbers.pop("request_s") > 0
    assert numbers == {"recorded": 5, "retries": 1, "rejected": 1, "acknowledged": 4}


def test_signer_that_fails_for_a_while_loses_nothing(new_client: Make, gateway: Gateway) -> None:
    key = new_signer()

    class Flaky:
        algorithm, public_key = key.algorithm, key.public_key
        failures = 0

        def sign(self, message: bytes) -> bytes:
            if message.startswith(b'{"batchId"') and self.failures < 1:
                self.failures += 1
                raise OSError("the HSM is away")
            return key.sign(message)

    client = new_client(signer=Flaky())
    identifier = client.record(use())
    assert client.flush(30) and gateway.ids() == {identifier}


def test_threads_record_at_one_time(new_client: Make, gateway: Gateway) -> None:
    client = new_client(batch_receipts_max=20)
    recorded: list[str] = []

    def run() -> None:
        for number in range(50):
            recorded.append(client.record(use(number)))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.flush(60) and gateway.ids() == set(recorded) and len(set(recorded)) == 400


def child_of(client: Client, queue: Any) -> None:
    """Record in a process that was forked, and end without a close."""
    queue.put(client.record(use(1)))


@pytest.mark.parametrize("has_spool", [False, True])
def test_forked_process_has_a_queue_of_its_own(
    new_client: Make, gateway: Gateway, tmp_path: Any, has_spool: bool
) -> None:
    client = new_client(spool_dir=tmp_path if has_spool else None, batch_delay_s=60)
    recorded = {client.record(use())}
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    for _ in range(2):
        child = context.Process(target=child_of, args=(client, queue))
        child.start()
        recorded.add(queue.get(timeout=30))
        child.join(30)
        assert child.exitcode == 0
    assert client.flush(30) and not gateway.problems
    assert gateway.ids() == recorded and set(gateway.acknowledged().values()) == {1}


def test_fork_while_threads_record(new_client: Make, gateway: Gateway) -> None:
    client = new_client()
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(0.01):
            client.record(use())

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            child = os.fork()
            if not child:
                client.record(use())
                os._exit(0 if client.close(20) else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
    for thread in threads:
        thread.join()
    assert client.flush(30) and not gateway.problems


def run_program(program: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)


def test_exit_of_the_interpreter_delivers(gateway: Gateway) -> None:
    program = f"""
from receipts_client import Client, Options, Use
from receipts_client.testing import new_signer
def run():
    options = Options(batch_delay_s=60)
    client = Client({gateway.url!r}, {CLIENT_ID!r}, new_signer(), options=options)
    print(client.record(Use("https://news.example/", "training", "a", content="b")))
run()
"""
    process = run_program(program)
    assert process.returncode == 0, process.stderr
    assert gateway.ids() == {process.stdout.strip()}


def test_sigterm_that_ends_the_interpreter_delivers(gateway: Gateway) -> None:
    program = f"""
import os, signal, sys
from receipts_client import Client, Options, Use
from receipts_client.testing import new_signer
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
options = Options(batch_delay_s=60)
client = Client({gateway.url!r}, {CLIENT_ID!r}, new_signer(), options=options)
client.record(Use("https://news.example/", "training", "a", content="b"))
os.kill(os.getpid(), signal.SIGTERM)
"""
    process = run_program(program)
    assert process.returncode == 0 and len(gateway.ids()) == 1, process.stderr


def test_exit_of_the_interpreter_waits_5_seconds_at_most() -> None:
    program = f"""
from receipts_client import Client, Use
from receipts_client.testing import new_signer
for _ in range(4):
    client = Client({AWAY!r}, {CLIENT_ID!r}, new_signer())
    client.record(Use("https://news.example/", "training", "a", content="b"))
"""
    process = run_program(program)
    assert process.returncode == 0, process.stderr
    assert process.stderr.count("undelivered") == 4


def test_fake_gateway_collects_receipts(rejected: list[Rejection]) -> None:
    with FakeGateway() as fake:
        options = Options(batch_delay_s=0.05)
        signer = new_signer()
        client = Client(fake.url, CLIENT_ID, signer, on_rejected=rejected.append, options=options)
        identifier = client.record(use())
        assert client.flush(30)
        assert list(client.outcomes()) == []
        with pytest.raises(ReceiptsError, match="not_found"):
            client.explain(b"{}")
        fake.status = 400
        client.record(use())
        assert client.close()
    assert [receipt["receiptId"] for receipt in fake.receipts] == [identifier]
    assert [one.code for one in rejected] == ["invalid_batch"]


def test_logs_have_no_keys(
    new_client: Make, gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.steps = [Step(503), Step(400)]
    with caplog.at_level(logging.DEBUG):
        client = new_client()
        client.record(use())
        client.flush(30)
    assert "PRIVATE" not in caplog.text and "PUBLIC KEY" not in caplog.text and caplog.text
