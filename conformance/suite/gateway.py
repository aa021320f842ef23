"""The scripted gateway: verifies and records what arrives, and answers as a scenario says."""

import email.utils
import gzip
import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .acknowledgement import AcknowledgementKey, acknowledgement_of
from .verification import check_batch

PATH = "/api/v1/receipts/batch"
KEYS_PATH = "/.well-known/receipts-keys.json"


@dataclass
class Step:
    """An answer. ``cut`` is ``request``, ``answer`` or ``half`` for a connection that is closed
    without reading the body, without an answer, or within it."""

    status: int = 202
    retry_after_s: int | None = None
    # Whether Retry-After is a date (RFC 9110, section 10.2.3), which has whole seconds.
    is_date: bool = False
    cut: str | None = None
    delay_s: float = 0.0
    text: bytes | None = None
    content_type: str | None = None
    location: str | None = None
    # Changes the acknowledgement of a 202, which is none then.
    forge: Callable[[dict], object] | None = None
    # (index, code, pointer within the receipt) of faulty receipts.
    faults: list = field(default_factory=list)
    # The gateway's problem: by default one that fits the status.
    code: str = ""

    @property
    def problem(self):
        fits = {408: "request_timeout", 413: "body_too_large", 429: "rate_limited"}
        return self.code or fits.get(self.status, "overloaded" if self.status >= 500 else "invalid_batch")

    @property
    def acknowledges(self):
        return self.status == 202 and not self.cut and self.text is None and not self.forge


@dataclass
class Arrival:
    """A request: when it began, its decoded body, its receipts, and how it was answered."""

    at: float
    body: bytes
    receipts: list
    step: Step
    headers: dict = field(default_factory=dict)
    # The 202's, if it was sent.
    acknowledgement: dict | None = None
    answered_at: float = 0.0

    @property
    def batch_id(self):
        return json.loads(self.body)["batchId"]


class ScriptedGateway:
    """A gateway on a free port. ``steps`` are its first answers; then it answers ``default``.

    It signs acknowledgements with ``key``, and publishes ``keys`` while ``keys_status`` is 200.
    """

    def __init__(self, steps=(), default=None):
        self.steps = list(steps)
        self.default = default or Step()
        self.arrivals = []
        self.problems = []
        self.in_flight = self.in_flight_most = 0
        self.key = AcknowledgementKey()
        self.keys = [self.key]
        self.keys_status = 200
        self._lock = threading.Lock()
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                gateway._publish(self)

            def do_POST(self):
                gateway._receive(self)

            def log_message(self, format, *args):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request, address):
                pass  # Connections that a scenario cuts.

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def acknowledged(self):
        """Receipt IDs to the number of times that a 202 for them was sent whole."""
        counts = {}
        with self._lock:
            for arrival in self.arrivals:
                if arrival.step.acknowledges:
                    for receipt in arrival.receipts:
                        counts[receipt["receiptId"]] = counts.get(receipt["receiptId"], 0) + 1
        return counts

    def _publish(self, request):
        is_found = request.path == KEYS_PATH
        status = self.keys_status if is_found else 404
        keys = {"keys": [key.jwk for key in self.keys]}
        text = json.dumps(keys).encode() if status == 200 else b"<html>"
        request.send_response(status)
        request.send_header("Content-Type", "application/jwk-set+json")
        request.send_header("Content-Length", str(len(text)))
        request.end_headers()
        request.wfile.write(text)

    def _receive(self, request):
        at = time.monotonic()
        with self._lock:
            step = self.steps.pop(0) if self.steps else self.default
            self.in_flight += 1
            self.in_flight_most = max(self.in_flight_most, self.in_flight)
        try:
            if step.cut == "request":
                return self._cut(request)
            length = int(request.headers["Content-Length"])
            body = request.rfile.read(length)
            if len(body) < length:
                # The client was killed while it sent.
                request.close_connection = True
                return
            if request.headers["Content-Encoding"] == "gzip":
                body = gzip.decompress(body)
            headers = {name.title(): value for name, value in request.headers.items()}
            arrival = Arrival(at, body, [], step, headers)
            self._record(request, arrival)
            time.sleep(step.delay_s)
        finally:
            # Before the answer, which the client's next request may overtake on its way back here.
            with self._lock:
                self.in_flight -= 1
        if step.cut == "answer":
            return self._cut(request)
        self._answer(request, step, arrival)

    def _record(self, request, arrival):
        try:
            assert request.path == PATH, f"the path {request.path}"
            assert request.headers["Content-Type"] == "application/json", "Content-Type"
            arrival.receipts = check_batch(arrival.body)
        except (AssertionError, KeyError, ValueError) as error:
            self.problems.append(f"{type(error).__name__}: {error}")
        arrival.answered_at = time.monotonic() + arrival.step.delay_s
        with self._lock:
            self.arrivals.append(arrival)

    def _answer(self, request, step, arrival):
        text = step.text if step.text is not None else self._text(step, arrival)
        request.send_response(step.status)
        kind = "application/json" if step.status < 400 else "application/problem+json"
        request.send_header("Content-Type", step.content_type or kind)
        if step.location:
            request.send_header("Location", step.location)
        request.send_header("Content-Length", str(len(text)))
        if step.retry_after_s:
            date = email.utils.formatdate(time.time() + step.retry_after_s, usegmt=True)
            request.send_header("Retry-After", date if step.is_date else str(step.retry_after_s))
        request.end_headers()
        if step.cut == "half":
            request.wfile.write(text[: len(text) // 2])
            request.wfile.flush()
            return self._cut(request)
        request.wfile.write(text)

    def _text(self, step, arrival):
        if step.status == 202:
            signed = acknowledgement_of(arrival.body, len(self.arrivals), self.key)
            if step.forge:
                signed = step.forge(signed)
            else:
                arrival.acknowledgement = signed
            answer = {"batchId": arrival.batch_id, "receiptCount": len(arrival.receipts),
                      "status": "queued", "acknowledgement": signed}
            return json.dumps(answer).encode()
        errors = [
            {"code": code, "pointer": f"/receipts/{index}{pointer}", "detail": f"scripted {code}"}
            for index, code, pointer in step.faults
        ]
        members = {"type": f"/problems/{step.problem}", "title": "scripted", "status": step.status,
                   "code": step.problem, "detail": "a scripted answer", "errors": errors}
        return json.dumps(members).encode()

    @staticmethod
    def _cut(request):
        # A reset, as by a process that is killed.
        request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.close_connection = True
        request.connection.close()
