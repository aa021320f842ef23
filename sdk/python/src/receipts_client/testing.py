"""A gateway in memory, for tests of programs that use this package."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import threading
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from .acknowledgements import KEYS_PATH
from .canonical import canonicalize
from .signers import PemSigner
from .transport import BATCH_PATH


def new_signer() -> PemSigner:
    """Return a new Ed25519 key."""
    key = Ed25519PrivateKey.generate()
    return PemSigner(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


class FakeGateway:
    """A gateway on a free port of this machine that accepts every batch.

    ``receipts`` are the receipts that arrived. It verifies nothing. Use it in a ``with``::

        with FakeGateway() as gateway:
            client = Client(gateway.url, client_id, new_signer())
            program_under_test(client)
            client.flush()
            assert len(gateway.receipts) == 3

    While ``status`` is something else than 202, such as 503 or 400, it answers that. A 4xx but 408
    and 429 is the gateway's own refusal. ``outcomes`` are what ``Client.outcomes`` yields.
    """

    def __init__(self) -> None:
        self.receipts: list[dict[str, Any]] = []
        self.outcomes: list[dict[str, Any]] = []
        self.status = 202
        self._key = Ed25519PrivateKey.generate()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                if path == KEYS_PATH:
                    self._answer(200, json.dumps({"keys": [fake._jwk()]}).encode())
                elif path == "/api/v1/client/outcomes":
                    lines = [*fake.outcomes, {"cursor": "end", "more": False}]
                    self._answer(200, b"\n".join(json.dumps(line).encode() for line in lines))
                else:
                    self._answer(404, _problem(404, "not_found"))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers["Content-Encoding"] == "gzip":
                    body = gzip.decompress(body)
                if self.path != BATCH_PATH:
                    self._answer(404, _problem(404, "not_found"))
                elif fake.status == 202:
                    batch = json.loads(body)
                    fake.receipts.extend(batch["receipts"])
                    self._answer(202, fake._acknowledged(batch, body))
                else:
                    self._answer(fake.status, _problem(fake.status, "invalid_batch"))

            def _answer(self, status: int, answer: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def _jwk(self) -> dict[str, str]:
        raw = self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        x = base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
        return {"kty": "OKP", "crv": "Ed25519", "x": x, "kid": "fake"}

    def _acknowledged(self, batch: dict[str, Any], body: bytes) -> bytes:
        signed: dict[str, Any] = {
            "requestDigest": f"sha256:{hashlib.sha256(body).hexdigest()}",
            "batchId": batch["batchId"],
            "receiptCount": len(batch["receipts"]),
            "logPosition": {"epoch": 1, "partition": 0, "offset": len(self.receipts)},
            "receivedAt": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
            "keyId": "fake",
            "outcome": "/api/v1/receipts/{receiptId}",
        }
        signature = base64.b64encode(self._key.sign(canonicalize(signed))).decode()
        answer = {
            "batchId": batch["batchId"],
            "receiptCount": len(batch["receipts"]),
            "status": "queued",
            "acknowledgement": {**signed, "signature": signature},
        }
        return json.dumps(answer).encode()

    def __enter__(self) -> FakeGateway:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


def _problem(status: int, code: str) -> bytes:
    """Return a problem document as a gateway writes it."""
    detail = f"the fake gateway's status is {status}"
    members = {"type": f"/problems/{code}", "status": status, "code": code, "detail": detail}
    return json.dumps(members).encode()
