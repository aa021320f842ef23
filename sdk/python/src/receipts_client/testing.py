"""A gateway in memory, for tests of programs that use this package."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


class FakeGateway:
    """A gateway on a free port of this machine that accepts every batch.

    ``receipts`` are the receipts that arrived. It verifies nothing. Use it in a ``with``::

        with FakeGateway() as gateway:
            client = Client(gateway.url, ...)
    """

    def __init__(self) -> None:
        self.receipts: list[dict[str, Any]] = []
        receipts = self.receipts

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                batch = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                receipts.extend(batch["receipts"])
                answer = json.dumps({"batchId": batch["batchId"], "status": "queued"}).encode()
                self.send_response(202)
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
