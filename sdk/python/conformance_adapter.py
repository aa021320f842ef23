"""The adapter of conformance/README.md for this package."""

from __future__ import annotations

import json
import os
import signal
import threading
from dataclasses import fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from receipts_client import (
    Acknowledgement,
    Client,
    Options,
    PemSigner,
    QueueFullError,
    Rejection,
    Use,
)

_UNSUPPORTED = {
    "a_record_that_nobody_awaits_reports_its_failure": "record raises in its caller",
}
_OPTIONS = {
    "clientName": ("name", 1),
    "clientVersion": ("version", 1),
    "spoolDir": ("spool_dir", 1),
    "batchReceiptsMax": ("batch_receipts_max", 1),
    "batchBytesMax": ("batch_bytes_max", 1),
    "batchDelayMs": ("batch_delay_s", 1_000),
    "queueReceiptsMax": ("queue_receipts_max", 1),
    "queueBytesMax": ("queue_bytes_max", 1),
    "queueWaitMs": ("queue_wait_s", 1_000),
    "requestsInFlightMax": ("requests_in_flight_max", 1),
    "retryDelayMsMin": ("retry_min_s", 1_000),
    "retryDelayMsMax": ("retry_max_s", 1_000),
}
_USE = {
    "contentHash": "content_hash",
    "entryId": "entry_id",
    "receiptId": "receipt_id",
    "datasetId": "dataset_id",
    "modelId": "model_id",
    "queryId": "query_id",
    "sessionId": "session_id",
    "studyId": "study_id",
    "researcherId": "researcher_id",
}


class Adapter:
    """One client and what it reported."""

    client: Client
    rejected: list[Rejection]
    acknowledgements: list[Acknowledgement]
    metrics: dict[str, float]

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def capabilities(self) -> tuple[int, dict[str, Any]]:
        return 200, {"unsupported": _UNSUPPORTED}

    def init(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        options: dict[str, Any] = {}
        for member, value in body.items():
            name, unit = _OPTIONS.get(member, (member, 1))
            options[name] = value / unit if unit > 1 else value
        bounds = {one.name: options.pop(one.name) for one in fields(Options) if one.name in options}
        self.rejected, self.acknowledgements, self.metrics = [], [], {}
        self.client = Client(
            options.pop("url"),
            options.pop("clientId"),
            PemSigner(options.pop("privateKey")),
            on_rejected=self.rejected.append,
            on_acknowledged=self.acknowledgements.append,
            on_metric=self.measure,
            options=Options(**bounds),
            **options,
        )
        return 200, {}

    def measure(self, name: str, value: float) -> None:
        with self._lock:
            self.metrics[name] = self.metrics.get(name, 0) + value

    def record(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        recorded: list[str] = []
        for members in body["uses"]:
            use = Use(**{_USE.get(name, name): value for name, value in members.items()})
            try:
                recorded.append(self.client.record(use))
            except QueueFullError:
                return 507, {"receiptIds": recorded, "error": "queue_full"}
            except OSError:
                return 507, {"receiptIds": recorded, "error": "spool_failed"}
        return 200, {"receiptIds": recorded}

    def flush(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        return 200, {"flushed": self.client.flush(body["timeoutMs"] / 1_000)}

    def close(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.client.close()
        return 200, {}

    def state(self) -> tuple[int, dict[str, Any]]:
        state = self.client.state()
        return 200, {
            "queued": state["queued"],
            "inFlight": state["in_flight"],
            "acknowledged": state["acknowledged"],
            "batchesAcknowledged": state["batches_acknowledged"],
            "retries": state["retries"],
            "spooledBatches": state["spooled_batches"],
            "rejected": [
                {
                    "receiptId": rejection.receipt_id,
                    "code": rejection.code,
                    "pointer": rejection.pointer,
                    "detail": rejection.detail,
                }
                for rejection in self.rejected
            ],
            "acknowledgements": [
                {
                    "batchId": one.batch_id,
                    "receiptIds": one.receipt_ids,
                    "acknowledgement": one.acknowledgement,
                }
                for one in self.acknowledgements
            ],
            "failed": [],
            "metrics": self.metrics,
        }


adapter = Adapter()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if self.path == "/kill":
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            self._answer(*getattr(adapter, self.path.strip("/"))(body))
        except (ValueError, TypeError) as error:
            self._answer(400, {"error": str(error)})

    def do_GET(self) -> None:
        self._answer(*getattr(adapter, self.path.strip("/"))())

    def _answer(self, status: int, members: dict[str, Any]) -> None:
        data = json.dumps(members).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def main() -> None:
    port = int(os.environ["PORT"])
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    server.serve_forever()


if __name__ == "__main__":
    main()
