"""The scenarios. Each is a function with a world; its docstring is the rule."""

import tempfile
import time
from pathlib import Path

from .gateway import ScriptedGateway, Step

KEYS = Path(__file__).resolve().parents[1] / "vectors" / "keys"
SCENARIOS = {}
# Fast enough for a suite, slow enough to differ from no delay at all.
FAST = {"batchReceiptsMax": 10, "batchDelayMs": 100, "retryDelayMsMin": 50, "retryDelayMsMax": 400}


def scenario(function):
    """Register a scenario by its name."""
    SCENARIOS[function.__name__] = function
    return function


class World:
    """A gateway, a spool directory, and a factory of adapters; all end with the scenario."""

    def __init__(self, start_adapter):
        self._start_adapter = start_adapter
        self._folder = tempfile.TemporaryDirectory(prefix="receipts-conformance-")
        self.spool = str(Path(self._folder.name) / "spool")
        self.gateways, self.adapters = [], []

    def gateway(self, *steps, default=None):
        self.gateways.append(ScriptedGateway(steps, default))
        return self.gateways[-1]

    def adapter(self, gateway, key="ed25519", init=True, **options):
        adapter = self._start_adapter()
        self.adapters.append(adapter)
        members = {
            "url": gateway.url,
            "clientId": "018f3f3c-7f2e-7cc0-8b6a-2f6d1c7e9a10",
            "clientName": "Atlas",
            "clientVersion": "3.1",
            "organization": "Example Labs",
            "privateKey": (KEYS / f"{key}.pem").read_text(),
            **options,
        }
        if init:
            adapter.init(**members)
        adapter.members = members
        return adapter

    def close(self):
        for adapter in self.adapters:
            adapter.stop()
        for gateway in self.gateways:
            gateway.close()
        self._folder.cleanup()


def uses(count, **members):
    return [
        {"url": f"https://news.example/{number}", "purpose": "inference", "context": "an answer",
         "content": f"text {number}", **members}
        for number in range(count)
    ]


def check(gateway, recorded):
    """Everything recorded is acknowledged, and everything that arrived was in order."""
    assert not gateway.problems, f"the gateway found: {gateway.problems}"
    missing = set(recorded) - set(gateway.acknowledged())
    assert not missing, f"{len(missing)} of {len(recorded)} recorded receipts aren't acknowledged"
    foreign = set(gateway.acknowledged()) - set(recorded)
    assert not foreign, f"{len(foreign)} receipts arrived that weren't recorded"


def check_same_bytes(gateway):
    """A batch that arrived again had the same bytes."""
    bodies = {}
    for arrival in gateway.arrivals:
        first = bodies.setdefault(arrival.batch_id, arrival.body)
        assert first == arrival.body, f"batch {arrival.batch_id} changed between two requests"
    return bodies


@scenario
def delivers(world):
    """What is recorded arrives, signed, once."""
    gateway = world.gateway()
    adapter = world.adapter(gateway, **FAST)
    recorded, _ = adapter.record(uses(35))
    assert adapter.flush(), "flush reports unfinished receipts"
    check(gateway, recorded)
    assert set(gateway.acknowledged().values()) == {1}, "a receipt was sent twice"
    state = adapter.state()
    assert (state["acknowledged"], state["queued"], state["inFlight"]) == (35, 0, 0), state


@scenario
def signs_with_every_algorithm(world):
    """Ed25519, RSA-2048 and ECDSA P-256 are verified, with unusual characters."""
    for key in ["ed25519", "rsa-2048", "ecdsa-p256"]:
        gateway = world.gateway()
        adapter = world.adapter(gateway, key, **FAST)
        text = "é€😀\u2028\x7f\n\"\\/ \u0001"
        recorded, _ = adapter.record(uses(3, context=text, modelId=text, content=text))
        assert adapter.flush(), key
        check(gateway, recorded)
        assert gateway.arrivals[0].receipts[0]["usage"]["context"] == text


@scenario
def fills_in_what_the_caller_leaves_out(world):
    """Publisher, entry ID, receipt ID, timestamp and content hash follow the format."""
    gateway = world.gateway()
    adapter = world.adapter(gateway, **FAST)
    url = "https://news.example/2026/11/lead"
    adapter.record([{"url": url + "#part", "purpose": "training", "context": "a", "content": "hello"}])
    assert adapter.flush()
    [receipt] = gateway.arrivals[0].receipts
    content = receipt["content"]
    assert content["publisher"] == "news.example", content
    assert content["entryId"] == "69f09ffd-d89e-5092-b485-1da5d197cce5", content
    hello = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    assert content["contentHash"] == f"sha256:{hello}", content
    assert receipt["receiptId"][14] in "47", "the receipt's ID isn't a UUID of version 4 or 7"


@scenario
def keeps_what_the_caller_chooses(world):
    """IDs, publisher, timestamp and optional members arrive as given."""
    gateway = world.gateway()
    adapter = world.adapter(gateway, **FAST)
    chosen = {"receiptId": "0192f0c1-d2e3-7a4b-8c5d-6e7f80910001", "publisher": "example",
              "entryId": "69f09ffd-d89e-5092-b485-1da5d197cce5", "datasetId": "d", "modelId": "m",
              "queryId": "q", "sessionId": "s", "studyId": "t", "researcherId": "r"}
    recorded, _ = adapter.record(uses(1, **chosen))
    assert adapter.flush()
    assert recorded == [chosen["receiptId"]]
    [receipt] = gateway.arrivals[0].receipts
    assert receipt["content"]["publisher"] == "example"
    assert receipt["content"]["entryId"] == chosen["entryId"]
    names = ["datasetId", "modelId", "queryId", "sessionId", "studyId", "researcherId"]
    assert {name: receipt["usage"][name] for name in names} == {name: chosen[name] for name in names}


@scenario
def refuses_wrong_uses(world):
    """A use that can't become a receipt is refused when it is recorded."""
    gateway = world.gateway()
    adapter = world.adapter(gateway, **FAST)
    for wrong in [{"url": "ftp://news.example/"}, {"url": "nonsense"}, {"purpose": "fun"},
                  {"contentHash": "sha256:12"}, {"receiptId": "12"}, {"context": "x" * 5_000}]:
        status, answer = adapter.request("/record", {"uses": uses(1, **{"content": "a", **wrong})})
        assert status == 400 and answer["error"], f"{wrong}: {status} {answer}"
    assert adapter.flush() and not gateway.arrivals


@scenario
def batches_by_number(world):
    """A batch has at most batchReceiptsMax receipts, and a full one doesn't wait."""
    gateway = world.gateway()
    adapter = world.adapter(gateway, **{**FAST, "batchDelayMs": 60_000})
    recorded, _ = adapter.record(uses(30))
    deadline = time.monotonic() + 20
    while len(gateway.acknowledged()) < 30 and time.monotonic() < deadline:
        time.sleep(0.02)
    check(gateway, recorded)
    assert all(len(arrival.receipts) == 10 for arrival in gateway.arrivals)


@scenario
def batches_by_size(world):
    """A batch has at most batchBytesMax bytes, give or take its own members."""
    gateway = world.gateway()
    adapter = world.adapter(gateway, **{**FAST, "batchReceiptsMax": 500, "batchBytesMax": 20_000})
    recorded, _ = adapter.record(uses(60, context="x" * 1_000))
    assert adapter.flush()
    check(gateway, recorded)
    assert max(len(arrival.body) for arrival in gateway.arrivals) <= 21_000
    assert len(gateway.arrivals) > 3


@scenario
def batches_by_time(world):
    """A batch that isn't full is sent after batchDelayMs, without a flush."""
    gateway = world.gateway()
    adapter = world.adapter(gateway, **FAST)
    recorded, _ = adapter.record(uses(3))
    deadline = time.monotonic() + 20
    while len(gateway.acknowledged()) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    check(gateway, recorded)
    assert len(gateway.arrivals) == 1, "three receipts went in several batches"


@scenario
def retries_with_the_same_bytes(world):
    """408, 429, 5xx, cut connections and wrong answers are tried again with the same bytes."""
    failures = [Step(408), Step(429), Step(500), Step(502), Step(503), Step(cut="request"),
                Step(cut="answer"), Step(cut="half"), Step(200, text=b"<html>ok</html>"),
                Step(202, text=b"<html>"), Step(202, text=b"{")]
    gateway = world.gateway(*failures)
    adapter = world.adapter(gateway, requestsInFlightMax=1, **FAST)
    recorded, _ = adapter.record(uses(5))
    assert adapter.flush(60), "flush reports unfinished receipts"
    check(gateway, recorded)
    bodies = check_same_bytes(gateway)
    assert len(bodies) == 1, "a failed batch was made again"
    assert adapter.state()["retries"] >= len(failures)


@scenario
def waits_as_long_as_retry_after(world):
    """The next try is never before Retry-After, in seconds or as a date."""
    for step in [Step(429, retry_after_s=2), Step(503, retry_after_s=3, is_date=True)]:
        gateway = world.gateway(step)
        adapter = world.adapter(gateway, requestsInFlightMax=1, **FAST)
        recorded, _ = adapter.record(uses(1))
        assert adapter.flush(30)
        check(gateway, recorded)
        first, second = gateway.arrivals
        waited = second.at - first.answered_at
        assert waited >= (1.9 if step.is_date else 2), f"the next request came after {waited:.2f} s"


@scenario
def backs_off_with_growing_random_delays(world):
    """Delays grow, differ from each other, and stay below retryDelayMsMax."""
    gateway = world.gateway(*[Step(503)] * 9)
    options = {**FAST, "retryDelayMsMin": 20, "retryDelayMsMax": 2_000}
    adapter = world.adapter(gateway, requestsInFlightMax=1, **options)
    recorded, _ = adapter.record(uses(1))
    assert adapter.flush(60)
    check(gateway, recorded)
    arrivals = gateway.arrivals
    delays = [next.at - this.answered_at for this, next in zip(arrivals, arrivals[1:])]
    assert min(delays) >= 0.015, f"a delay is shorter than retryDelayMsMin: {delays}"
    assert sum(delays[5:]) > sum(delays[:3]), f"the delays don't grow: {delays}"
    assert len({round(delay, 2) for delay in delays[4:]}) > 2, f"the delays aren't random: {delays}"


@scenario
def removes_receipts_that_are_refused_by_name(world):
    """Faulty receipts are reported, and the others arrive in a new batch."""
    faults = [(2, "invalid_url", "/content/url"), (5, "timestamp_out_of_range", "/timestamp")]
    gateway = world.gateway(Step(400, faults=faults, code="invalid_receipt"))
    adapter = world.adapter(gateway, requestsInFlightMax=1, **FAST)
    recorded, _ = adapter.record(uses(10))
    assert adapter.flush(), "flush reports unfinished receipts"
    first = gateway.arrivals[0]
    refused = {first.receipts[index]["receiptId"]: (code, pointer) for index, code, pointer in faults}
    check(gateway, [identifier for identifier in recorded if identifier not in refused])
    reported = {one["receiptId"]: (one["code"], one["pointer"]) for one in adapter.state()["rejected"]}
    assert reported == refused, reported
    assert gateway.arrivals[1].batch_id != first.batch_id, "the new batch has the old one's ID"


@scenario
def reports_a_batch_that_is_refused_as_a_whole(world):
    """A 4xx without names ends a batch: it is reported, not sent again, and others continue."""
    gateway = world.gateway(Step(401, code="bad_batch_signature"))
    adapter = world.adapter(gateway, requestsInFlightMax=1, spoolDir=world.spool, **FAST)
    refused, _ = adapter.record(uses(4))
    assert adapter.flush()
    recorded, _ = adapter.record(uses(4))
    assert adapter.flush()
    check(gateway, recorded)
    rejected = adapter.state()["rejected"]
    assert {one["receiptId"] for one in rejected} == set(refused), rejected
    assert {one["code"] for one in rejected} == {"bad_batch_signature"}, rejected
    assert len(gateway.arrivals) == 2


@scenario
def splits_a_batch_that_is_too_large(world):
    """A 413 isn't the end of receipts that fit by themselves."""
    gateway = world.gateway(Step(413, code="body_too_large"))
    adapter = world.adapter(gateway, requestsInFlightMax=1, **FAST)
    recorded, _ = adapter.record(uses(10))
    assert adapter.flush()
    check(gateway, recorded)
    assert not adapter.state()["rejected"]


@scenario
def a_full_queue_is_an_error(world):
    """Beyond queueReceiptsMax, /record reports 507 and nothing is dropped."""
    gateway = world.gateway(default=Step(503))
    adapter = world.adapter(gateway, queueReceiptsMax=50, queueWaitMs=100, **FAST)
    recorded, is_full = adapter.record(uses(80))
    assert is_full, "80 receipts fit into a queue of 50"
    assert len(recorded) == 50, f"{len(recorded)} receipts were recorded"
    gateway.default = Step()
    assert adapter.flush(60)
    check(gateway, recorded)


@scenario
def a_queue_full_of_bytes_is_an_error(world):
    """Beyond queueBytesMax, /record reports 507."""
    gateway = world.gateway(default=Step(503))
    adapter = world.adapter(gateway, queueBytesMax=100_000, queueWaitMs=100, **FAST)
    recorded, is_full = adapter.record(uses(200, context="x" * 2_000))
    assert is_full and 0 < len(recorded) < 60, f"{len(recorded)} receipts were recorded"
    gateway.default = Step()
    assert adapter.flush(60)
    check(gateway, recorded)


@scenario
def requests_in_flight_are_bounded(world):
    """At most requestsInFlightMax requests at one time, and more than one where allowed."""
    gateway = world.gateway(default=Step(delay_s=0.2))
    adapter = world.adapter(gateway, requestsInFlightMax=2, **FAST)
    recorded, _ = adapter.record(uses(80))
    assert adapter.flush(60)
    check(gateway, recorded)
    assert gateway.in_flight_most == 2, f"{gateway.in_flight_most} requests at one time"


@scenario
def close_delivers(world):
    """Close sends what is queued."""
    gateway = world.gateway()
    adapter = world.adapter(gateway, **{**FAST, "batchDelayMs": 60_000})
    recorded, _ = adapter.record(uses(7))
    adapter.close()
    check(gateway, recorded)


@scenario
def a_kill_loses_nothing_with_a_spool(world):
    """What /record returned before kill -9 arrives through the next process."""
    gateway = world.gateway(default=Step(503))
    recorded = []
    for round in range(3):
        adapter = world.adapter(gateway, spoolDir=world.spool, **FAST)
        # The last ones aren't a batch yet.
        for batch in (uses(25), uses(3)):
            recorded += adapter.record(batch)[0]
        time.sleep(0.05 * round)
        adapter.kill()
    gateway.default = Step()
    adapter = world.adapter(gateway, spoolDir=world.spool, **FAST)
    assert adapter.flush(60), "flush reports unfinished receipts"
    check(gateway, recorded)


@scenario
def a_sealed_batch_keeps_its_bytes_over_a_kill(world):
    """A batch that an earlier process sent has the same bytes when a later one sends it."""
    gateway = world.gateway(default=Step(503))
    adapter = world.adapter(gateway, spoolDir=world.spool, **FAST)
    recorded, _ = adapter.record(uses(40))
    deadline = time.monotonic() + 20
    while len({arrival.batch_id for arrival in gateway.arrivals}) < 4 and time.monotonic() < deadline:
        time.sleep(0.02)
    before = {arrival.batch_id for arrival in gateway.arrivals}
    assert len(before) == 4, "the batches weren't sent"
    adapter.kill()
    gateway.default = Step()
    adapter = world.adapter(gateway, spoolDir=world.spool, **FAST)
    assert adapter.flush(60)
    check(gateway, recorded)
    assert set(check_same_bytes(gateway)) == before, "a batch was made again"


@scenario
def a_lost_answer_counts_once(world):
    """A kill between the gateway's 202 and its arrival leads to the same bytes again."""
    gateway = world.gateway(Step(cut="answer"), default=Step(503))
    adapter = world.adapter(gateway, spoolDir=world.spool, requestsInFlightMax=1, **FAST)
    recorded, _ = adapter.record(uses(10))
    deadline = time.monotonic() + 20
    while not gateway.arrivals and time.monotonic() < deadline:
        time.sleep(0.02)
    adapter.kill()
    gateway.default = Step()
    adapter = world.adapter(gateway, spoolDir=world.spool, **FAST)
    assert adapter.flush(60)
    check(gateway, recorded)
    assert len(check_same_bytes(gateway)) == 1


@scenario
def an_acknowledged_batch_leaves_the_spool(world):
    """After a restart, nothing that was acknowledged is sent again."""
    gateway = world.gateway()
    adapter = world.adapter(gateway, spoolDir=world.spool, **FAST)
    recorded, _ = adapter.record(uses(25))
    assert adapter.flush()
    adapter.kill()
    adapter = world.adapter(gateway, spoolDir=world.spool, **FAST)
    assert adapter.flush()
    check(gateway, recorded)
    assert set(gateway.acknowledged().values()) == {1}


@scenario
def two_processes_share_a_spool_directory(world):
    """Two processes with one directory don't disturb each other, or the second is refused."""
    gateway = world.gateway()
    first = world.adapter(gateway, spoolDir=world.spool, **FAST)
    second = world.adapter(gateway, init=False, spoolDir=world.spool, **FAST)
    recorded, _ = first.record(uses(15))
    status, answer = second.request("/init", second.members)
    if status == 200:
        recorded += second.record(uses(15))[0]
        assert second.flush()
    else:
        assert status == 400 and answer["error"], f"{status} {answer}"
    assert first.flush()
    check(gateway, recorded)
    assert set(gateway.acknowledged().values()) == {1}, "a receipt was sent twice"


@scenario
def a_damaged_spool_file_doesnt_stop_the_others(world):
    """A file that was cut off or changed is put aside, and the others are delivered."""
    adapter = world.adapter(world.gateway(default=Step(503)), spoolDir=world.spool, **FAST)
    recorded, _ = adapter.record(uses(40))
    deadline = time.monotonic() + 20
    while True:
        # One state: a batch is either spooled or in flight in it.
        state = adapter.state()
        if state["spooledBatches"] + state["inFlight"] // 10 >= 4:
            break
        assert time.monotonic() < deadline, "the batches aren't in the spool"
        time.sleep(0.02)
    adapter.kill()
    files = sorted(Path(world.spool).rglob("*.batch"), key=lambda file: file.stat().st_mtime)
    assert len(files) == 4, files
    files[0].write_bytes(files[0].read_bytes()[:-1])
    changed = bytearray(files[1].read_bytes())
    changed[len(changed) // 2] ^= 1
    files[1].write_bytes(changed)
    # Another gateway: requests that were in flight at the kill may still arrive at the first one.
    gateway = world.gateway()
    adapter = world.adapter(gateway, spoolDir=world.spool, **FAST)
    assert adapter.flush(60)
    assert not gateway.problems, gateway.problems
    assert len(gateway.acknowledged()) == 20, f"{len(gateway.acknowledged())} receipts arrived"
    assert set(gateway.acknowledged()) <= set(recorded) and len(gateway.arrivals) == 2
