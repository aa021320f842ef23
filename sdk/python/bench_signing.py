"""Receipts signed per second by one process: `record` beside plain `cryptography`, in one run.

`bench_signing.py [SECONDS]`. Each number takes SECONDS (2) of CPU time of this process, all its
threads included, so other programs on the machine hardly change it.

- "sign" signs the bytes of one receipt again and again.
- "receipt" makes a signed receipt of a use.
- "record" also queues it, and seals and sends batches to a gateway in another process that accepts
  everything.
- "spool" also writes the journal and the batch files.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from receipts_client import Client, Options, PemSigner, Use, canonicalize
from receipts_client.batch import signed_receipt
from receipts_client.testing import FakeGateway

KEYS = Path(__file__).resolve().parents[2] / "conformance" / "vectors" / "keys"
CLIENT_ID = "018f3f3c-7f2e-7cc0-8b6a-2f6d1c7e9a10"
HASH = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"


def use() -> Use:
    return Use("https://news.example/2026/11/lead", "inference", "an answer", content_hash=HASH)


def rate(seconds: float, action: Callable[[], object]) -> float:
    count, begun = 0, time.process_time()
    while (now := time.process_time()) - begun < seconds:
        for _ in range(20):
            action()
        count += 20
    return count / (now - begun)


def serve(pipe: Any) -> None:
    with FakeGateway() as gateway:
        pipe.send(gateway.url)
        pipe.recv()


def record_rate(seconds: float, signer: PemSigner, url: str, spool: str | None) -> float:
    options = Options(queue_wait_s=60)
    client = Client(url, CLIENT_ID, signer, spool_dir=spool, options=options)
    measured = rate(seconds, lambda: client.record(use()))
    client.close(60)
    return measured


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    ours, theirs = multiprocessing.Pipe()
    multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True).start()
    url = ours.recv()
    print(f"{'':12}{'sign':>10}{'receipt':>10}{'record':>10}{'spool':>10}   record/sign")
    for kind in ["ed25519", "ecdsa-p256", "rsa-2048"]:
        signer = PemSigner.from_file(KEYS / f"{kind}.pem")
        client = canonicalize({"id": CLIENT_ID, "name": "Atlas", "publicKey": signer.public_key})
        message = signed_receipt(use().members(), client, signer)
        sign = rate(seconds, lambda s=signer, m=message: s.sign(m))  # type: ignore[misc]
        make = rate(seconds, lambda s=signer, c=client: signed_receipt(use().members(), c, s))  # type: ignore[misc]
        record = record_rate(seconds, signer, url, None)
        with tempfile.TemporaryDirectory() as folder:
            spool = record_rate(seconds, signer, url, folder)
        share = f"{100 * record / sign:.0f} %"
        print(f"{kind:12}{sign:10,.0f}{make:10,.0f}{record:10,.0f}{spool:10,.0f}   {share:>11}")
    ours.send(None)


if __name__ == "__main__":
    main()
