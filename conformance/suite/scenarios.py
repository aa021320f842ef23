"""The scenarios. Each is a function with a world; its docstring is the rule."""

import contextlib
import json
import shutil
import struct
import subprocess
import tempfile
import time
from pathlib import Path

from .acknowledgement import AcknowledgementKey
from .gateway import ScriptedGateway, Step

VECTORS = Path(__file__).resolve().parents[1] / "vectors"
KEYS = VECTORS / "keys"
SCENARIOS = {}
# Fast enough for a suite, slow enough to differ from no delay at all.
# Nothing waits for the delay but what is about it: a flush and a full batch don't. It is long, so
# that what is recorded at once is in one batch on a busy machine too.
FAST = {"batchReceiptsMax": 10, "batchDelayMs": 2_000, "retryDelayMsMin": 50, "retryDelayMsMax": 400}


def scenario(function):
    """Register a scenario by its name."""
    SCENARIOS[function.__name__] = function
    return function


class Skipped(Exception):
    """This machine can't play a scenario. The text is the reason."""


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


def vectors(name):
    return json.loads((VECTORS / f"{name}.json").read_text())


def wait_for(condition, what, timeout_s=20):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def remove(folder):
    """Remove a directory that a process uses: nobody finds a part of it."""
    gone = Path(folder).with_name("gone")
    Path(folder).rename(gone)
    while gone.exists():
        shutil.rmtree(gone, ignore_errors=True)


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
    chosen = {"url": "https://www.news.example/0", "publisher": "news.example",
              "receiptId": "0192f0c1-d2e3-7a4b-8c5d-6e7f80910001",
              "entryId": "69f09ffd-d89e-5092-b485-1da5d197cce5", "datasetId": "d", "modelId": "m",
              "queryId": "q", "sessionId": "s", "studyId": "t", "researcherId": "r"}
    recorded, _ = adapter.record(uses(1, **chosen))
    assert adapter.flush()
    assert recorded == [chosen["receiptId"]]
    [receipt] = gateway.arrivals[0].receipts
    assert receipt["content"]["publisher"] == "news.example"
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


@scenario
def a_page_of_a_proxy_ends_no_batch(world):
    """What vectors/answers.json marks as retried is tried again with the same bytes, and logged."""
    pages = [vector for vector in vectors("answers") if vector["outcome"] == "retried"]
    steps = [
        Step(vector["status"], text=vector["body"].encode(), content_type=vector["contentType"],
             location=vector.get("location"))
        for vector in pages
    ]
    gateway = world.gateway(*steps)
    options = {**FAST, "retryDelayMsMin": 5, "retryDelayMsMax": 20}
    adapter = world.adapter(gateway, requestsInFlightMax=1, **options)
    recorded, _ = adapter.record(uses(3))
    assert adapter.flush(60), "flush reports unfinished receipts"
    assert not adapter.state()["rejected"], f"{gateway.arrivals[-1].step}: {adapter.state()['rejected']}"
    check(gateway, recorded)
    assert len(check_same_bytes(gateway)) == 1, "a batch was made again"
    log = adapter.log()
    # An address that moved is for people to correct.
    for text in ["404", "https://elsewhere.example/login"]:
        assert text in log, f"the log doesn't have {text!r}"


@scenario
def a_refusal_of_the_gateway_ends_a_batch(world):
    """What vectors/answers.json marks as refused is reported, and not sent again."""
    answers = [vector for vector in vectors("answers") if vector["outcome"] == "refused"]
    steps = [
        Step(vector["status"], text=vector["body"].encode(), content_type=vector["contentType"])
        for vector in answers
    ]
    gateway = world.gateway()
    adapter = world.adapter(gateway, requestsInFlightMax=1, **FAST)
    for vector, step in zip(answers, steps):
        gateway.steps = [step]
        arrivals, reports = len(gateway.arrivals), len(adapter.state()["rejected"])
        adapter.record(uses(2))
        assert adapter.flush(20), vector["name"]
        # Of named receipts, the others are sent again.
        is_named = "errors" in json.loads(vector["body"])
        counts = len(gateway.arrivals) - arrivals, len(adapter.state()["rejected"]) - reports
        assert counts == ((2, 1) if is_named else (1, 2)), (vector["name"], counts)


@scenario
def a_proxys_limit_splits_a_batch(world):
    """A 413 of anybody splits a batch; a batch of one ends only by the gateway's own problem."""
    page = next(vector for vector in vectors("answers") if vector["name"] == "a proxy's 413")
    step = Step(413, text=page["body"].encode(), content_type=page["contentType"])
    gateway = world.gateway(step, step, step)
    adapter = world.adapter(gateway, requestsInFlightMax=1, **FAST)
    recorded, _ = adapter.record(uses(2))
    assert adapter.flush()
    check(gateway, recorded)
    assert not adapter.state()["rejected"], adapter.state()["rejected"]
    assert {len(arrival.receipts) for arrival in gateway.arrivals[1:]} == {1}


@scenario
def an_encoding_that_is_refused_is_left_out(world):
    """After invalid_encoding or unsupported_encoding, bodies are sent uncompressed."""
    for code, status in [("unsupported_encoding", 415), ("invalid_encoding", 400)]:
        gateway = world.gateway(Step(status, code=code))
        adapter = world.adapter(gateway, requestsInFlightMax=1, **FAST)
        recorded, _ = adapter.record(uses(10))
        assert adapter.flush(), code
        check(gateway, recorded)
        check_same_bytes(gateway)
        encodings = [arrival.headers.get("Content-Encoding") for arrival in gateway.arrivals]
        assert encodings == ["gzip", None], encodings


@scenario
def acknowledgements_are_handed_over(world):
    """Each 202's acknowledgement reaches the program as it was signed, with the receipts' IDs."""
    gateway = world.gateway()
    adapter = world.adapter(gateway, **FAST)
    recorded, _ = adapter.record(uses(25))
    assert adapter.flush()
    check(gateway, recorded)
    handed = adapter.state()["acknowledgements"]
    sent = {arrival.batch_id: arrival for arrival in gateway.arrivals if arrival.acknowledgement}
    assert len(handed) == len(sent), f"{len(handed)} of {len(sent)} acknowledgements"
    for one in handed:
        arrival = sent[one["batchId"]]
        assert one["acknowledgement"] == arrival.acknowledgement, one
        assert one["receiptIds"] == [receipt["receiptId"] for receipt in arrival.receipts], one


@scenario
def a_forged_acknowledgement_isnt_one(world):
    """A 202 ends a batch only with an acknowledgement of its bytes by a published key."""
    foreign = AcknowledgementKey()
    gateway = world.gateway()

    def signed(**members):
        return lambda signed: gateway.key.sign({**signed, **members})

    forgeries = [
        lambda signed: None,
        lambda signed: {**signed, "receivedAt": "2026-11-23T12:00:00.000Z"},
        lambda signed: {**signed, "signature": "AAAA"},
        lambda signed: {**signed, "path": [{"left": "A" * 43 + "="}]},
        foreign.sign,
        signed(requestDigest="sha256:" + "0" * 64),
        signed(batchId="0192f0c1-d2e3-7a4b-8c5d-6e7f80910008"),
        signed(receiptCount=9),
    ]
    gateway.steps = [Step(forge=forge) for forge in forgeries]
    adapter = world.adapter(gateway, requestsInFlightMax=1, **FAST)
    recorded, _ = adapter.record(uses(3))
    assert adapter.flush(60), "flush reports unfinished receipts"
    check(gateway, recorded)
    check_same_bytes(gateway)
    assert len(gateway.arrivals) == len(forgeries) + 1, f"{len(gateway.arrivals)} requests"
    assert len(adapter.state()["acknowledgements"]) == 1
    assert not adapter.state()["rejected"], adapter.state()["rejected"]


@scenario
def published_keys_are_read_again(world):
    """A key that is published later is found, and keys that can't be read delay, not drop."""
    gateway = world.gateway()
    adapter = world.adapter(gateway, requestsInFlightMax=1, **FAST)
    recorded, _ = adapter.record(uses(3))
    assert adapter.flush()
    gateway.key = AcknowledgementKey()
    gateway.keys.append(gateway.key)
    gateway.keys_status = 503
    recorded += adapter.record(uses(3))[0]
    assert not adapter.flush(1), "a batch ended without an acknowledgement that can be verified"
    gateway.keys_status = 200
    assert adapter.flush(30), "flush reports unfinished receipts"
    check(gateway, recorded)
    assert len(adapter.state()["acknowledgements"]) == 2


@scenario
def a_damaged_frame_costs_itself_alone(world):
    """Of 10 receipts in a journal, a damaged one is reported and retained, and 9 are delivered."""
    options = {**FAST, "batchDelayMs": 60_000, "batchReceiptsMax": 500}
    adapter = world.adapter(world.gateway(), spoolDir=world.spool, **options)
    recorded, _ = adapter.record(uses(10))
    adapter.kill()
    [journal] = Path(world.spool).rglob("*.journal")
    data, starts = journal.read_bytes(), [0]
    while starts[-1] < len(data):
        starts.append(starts[-1] + 8 + struct.unpack_from(">I", data, starts[-1])[0])
    assert len(starts) == 11, "the journal doesn't have a frame for each receipt"
    # Offsets in a frame: its length, its checksum, and within the context "an answer".
    for position in (0, 4, 9):
        frame = data[starts[position] : starts[position + 1]]
        for offset in (0, 3, 5, frame.index(b"an answer")):
            changed = bytearray(data)
            changed[starts[position] + offset] ^= 1
            name = f"frame {position}, byte {offset}"
            spool = Path(world.spool).with_name(f"damaged-{position}-{offset}")
            shutil.copytree(world.spool, spool, ignore=shutil.ignore_patterns("lock"))
            (spool / journal.relative_to(world.spool)).write_bytes(changed)
            gateway = world.gateway()
            adapter = world.adapter(gateway, spoolDir=str(spool), **FAST)
            assert adapter.flush(30), name
            check(gateway, recorded[:position] + recorded[position + 1 :])
            state = adapter.state()
            assert state["metrics"].get("damaged") == 1, (name, state["metrics"])
            reported = [(one["receiptId"], one["code"]) for one in state["rejected"]]
            assert reported == [(recorded[position], "damaged")], (name, reported)
            [retained] = [file for file in (spool / "damaged").iterdir() if file.is_file()]
            assert retained.read_bytes() == changed, f"{name}: the file in damaged/ isn't the journal"
            assert retained.name in adapter.log(), f"{name}: the log doesn't name {retained.name}"
            adapter.kill()


@scenario
def a_damaged_batch_is_counted_and_reported(world):
    """Receipts of a batch file that can't be read are reported as far as their IDs can be read."""
    adapter = world.adapter(world.gateway(default=Step(503)), spoolDir=world.spool, **FAST)
    recorded, _ = adapter.record(uses(10))
    wait_for(lambda: list(Path(world.spool).rglob("*.batch")), "the batch isn't in the spool")
    adapter.kill()
    [batch] = Path(world.spool).rglob("*.batch")
    for journal in Path(world.spool).rglob("*.journal"):
        journal.unlink()
    changed = bytearray(batch.read_bytes())
    changed[changed.index(b"an answer")] ^= 1
    batch.write_bytes(changed)
    gateway = world.gateway()
    adapter = world.adapter(gateway, spoolDir=world.spool, **FAST)
    assert adapter.flush(30)
    state = adapter.state()
    assert {one["receiptId"] for one in state["rejected"]} == set(recorded), state["rejected"]
    assert {one["code"] for one in state["rejected"]} == {"damaged"}
    assert state["metrics"].get("damaged") == 10, state["metrics"]
    assert [file.read_bytes() for file in (Path(world.spool) / "damaged").iterdir()] == [changed]
    assert not gateway.arrivals


@scenario
def a_removed_spool_is_made_again(world):
    """After the directory is removed, what is in memory is sent, and new receipts are spooled."""
    gateway = world.gateway(default=Step(503))
    adapter = world.adapter(gateway, spoolDir=world.spool, **FAST)
    # The last ones aren't a batch yet.
    recorded = adapter.record(uses(20))[0] + adapter.record(uses(3))[0]
    wait_for(lambda: len({arrival.batch_id for arrival in gateway.arrivals}) >= 2, "no batch was sent")
    remove(world.spool)
    recorded += adapter.record(uses(2))[0]
    gateway.default = Step()
    assert adapter.flush(30), "flush reports unfinished receipts"
    check(gateway, recorded)
    gateway.default = Step(503)
    recorded += adapter.record(uses(25))[0]
    adapter.kill()
    gateway.default = Step()
    adapter = world.adapter(gateway, spoolDir=world.spool, **FAST)
    assert adapter.flush(30)
    check(gateway, recorded)
    assert not adapter.state()["rejected"]


@scenario
def a_spool_that_cant_be_written_blocks_nothing(world):
    """What is in memory is sent; a receipt that can't be stored is an error of /record."""
    gateway = world.gateway(default=Step(503))
    adapter = world.adapter(gateway, spoolDir=world.spool, **FAST)
    recorded = adapter.record(uses(20))[0] + adapter.record(uses(3))[0]
    # A file under its name stops the superuser too. The client may make the directory first.
    while not Path(world.spool).is_file():
        remove(world.spool)
        with contextlib.suppress(IsADirectoryError):
            Path(world.spool).write_text("in the way")
    status, answer = adapter.request("/record", {"uses": uses(3)})
    assert (status, answer["error"]) == (507, "spool_failed"), (status, answer)
    recorded += answer["receiptIds"]
    gateway.default = Step()
    assert adapter.flush(30), "flush reports unfinished receipts"
    check(gateway, recorded)
    Path(world.spool).unlink()
    more, is_full = adapter.record(uses(3))
    assert not is_full, "the spool wasn't made again"
    assert adapter.flush(30)
    check(gateway, recorded + more)


@scenario
def a_full_disk_blocks_nothing(world):
    """With a spool that fills its disk, everything that was recorded is sent."""
    folder = Path(world.spool)
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "receipts-conformance", str(folder)]
    if not shutil.which("mount") or subprocess.run(command, capture_output=True).returncode:
        raise Skipped("mounting a small tmpfs is refused here")
    try:
        gateway = world.gateway(default=Step(503))
        adapter = world.adapter(gateway, spoolDir=world.spool, **FAST)
        recorded, is_full = adapter.record(uses(600, context="x" * 1_000))
        assert is_full, "600 receipts fit on a disk of 512 KiB"
        gateway.default = Step()
        assert adapter.flush(60), "flush reports unfinished receipts"
        check(gateway, recorded)
        more, is_full = adapter.record(uses(20))
        assert not is_full, "the disk is still full"
        assert adapter.flush(30)
        check(gateway, recorded + more)
        # Nothing is left for the next process.
        adapter.kill()
        gateway = world.gateway()
        adapter = world.adapter(gateway, spoolDir=world.spool, **FAST)
        assert adapter.flush(30) and not gateway.arrivals, "an acknowledged receipt is sent again"
        adapter.kill()
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@scenario
def close_reports_what_is_lost(world):
    """Without a spool, receipts without an answer are reported at close, those in flight too."""
    gateway = world.gateway(default=Step(delay_s=60))
    adapter = world.adapter(gateway, requestsInFlightMax=1, **FAST)
    recorded, _ = adapter.record(uses(25))
    wait_for(lambda: gateway.arrivals, "no batch was sent")
    adapter.close()
    rejected = adapter.state()["rejected"]
    assert {one["receiptId"] for one in rejected} == set(recorded) and len(rejected) == 25, rejected
    assert {one["code"] for one in rejected} == {"undelivered"}, rejected


@scenario
def a_record_that_nobody_awaits_reports_its_failure(world):
    """A failure that the caller can't see is in the log, the metrics and the report of failures."""
    gateway = world.gateway()
    adapter = world.adapter(gateway, **FAST)
    wrong = uses(2, purpose="fun") + uses(1)
    status, answer = adapter.request("/record", {"uses": wrong, "await": False})
    assert status == 200, (status, answer)
    wait_for(lambda: len(adapter.state()["failed"]) == 2, "the failures aren't reported")
    assert adapter.flush()
    state = adapter.state()
    assert state["metrics"].get("failed") == 2, state["metrics"]
    assert all("purpose" in text for text in state["failed"]), state["failed"]
    assert adapter.log().count("purpose") >= 1, "the log doesn't have the failure"
    assert len(gateway.acknowledged()) == 1


@scenario
def what_isnt_known_is_refused(world):
    """An option or a member of a use with a misspelt name is an error, not ignored."""
    adapter = world.adapter(world.gateway(), init=False)
    for name in ["spooldir", "onReject", "batchReceiptMax"]:
        status, answer = adapter.request("/init", {**adapter.members, name: 3})
        assert 400 <= status < 500, f"the option {name} was accepted"
    adapter.init(**adapter.members)
    for name in ["modelid", "contenthash", "model"]:
        status, answer = adapter.request("/record", {"uses": uses(1, **{name: "a"})})
        assert status == 400 and name in answer["error"], f"{name}: {status} {answer}"


@scenario
def a_key_in_another_form_is_converted_or_explained(world):
    """Of vectors/private-keys.json, a key signs or the error has the command that converts it."""
    gateway = world.gateway()
    adapter = world.adapter(gateway, init=False, **FAST)
    for vector in vectors("private-keys"):
        members = {**adapter.members, "privateKey": vector["pem"]}
        status, answer = adapter.request("/init", members)
        if "algorithm" in vector:
            assert status == 200, f"{vector['name']}: {status} {answer}"
            recorded, _ = adapter.record(uses(1))
            assert adapter.flush(), vector["name"]
            receipt = gateway.arrivals[-1].receipts[0]
            assert receipt["receiptId"] == recorded[0]
            assert receipt["signatureAlgorithm"] == vector["algorithm"], vector["name"]
        else:
            assert status == 400, f"{vector['name']} was accepted"
            assert vector["command"] in answer["error"], f"{vector['name']}: {answer['error']}"
            secret = vector["pem"].splitlines()[1:3]
            assert not any(line in answer["error"] for line in secret if len(line) > 20), "a secret"
    assert not gateway.problems, gateway.problems


@scenario
def metrics_have_the_same_names(world):
    """The names of conformance/README.md, and no others, with what happened."""
    steps = [Step(503), Step(400, faults=[(0, "invalid_url", "/content/url")], code="invalid_batch")]
    gateway = world.gateway(*steps)
    adapter = world.adapter(gateway, requestsInFlightMax=1, **FAST)
    adapter.record(uses(5))
    adapter.request("/record", {"uses": uses(1, purpose="fun")})
    assert adapter.flush()
    metrics = adapter.state()["metrics"]
    assert metrics.pop("request_s") > 0
    expected = {"recorded": 5, "failed": 1, "acknowledged": 4, "rejected": 1, "retries": 1}
    assert metrics == expected, metrics
