"""A gateway in memory, for tests of programs that use this package."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from .signers import PemSigner


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

    While ``status`` is something else than 202, such as 503 or 400, it answers that.
    """

    def __init__(self) -> None:
        self.receipts: list[dict[str, Any]] = []
        self.status = 202
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                batch = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status = fake.status
                if status == 202:
                    fake.receipts.extend(batch["receipts"])
                members = {"batchId": batch["batchId"], "status": "queued"}
                if status >= 400:
                    members = {"code": "fake", "detail": f"the fake gateway's status is {status}"}
                answer = json.dumps(members).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

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
