"""Requests: proxies, total time, compression, and queries of the service."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import pytest
import urllib3
from conftest import Gateway, Step
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from receipts_client import Client, Entry, ReceiptsError, Use, __version__
from receipts_client.transport import Transport

Make = Callable[..., Client]


def use(number: int = 0) -> Use:
    return Use(f"https://news.example/{number}", "inference", "an answer", content="a")


class Server:
    """A server on a free port, whose answers a function gives."""

    def __init__(self, answer: Callable[[str, str, Any, bytes], tuple[int, bytes]]) -> None:
        self.requests: list[tuple[str, str, Any]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                server.requests.append((self.command, self.path, self.headers))
                status, text = answer(self.command, self.path, self.headers, body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.listener.server_port}"
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.listener.shutdown()
        self.listener.server_close()


@pytest.fixture
def proxy() -> Iterator[Server]:
    """A proxy that forwards whole URLs."""

    def forward(method: str, url: str, headers: Any, body: bytes) -> tuple[int, bytes]:
        retained = {
            name: headers[name] for name in ("Content-Type", "Content-Encoding") if headers[name]
        }
        request = Request(url, body or None, retained, method=method)
        with build_opener(ProxyHandler({})).open(request, timeout=30) as answer:
            return answer.status, answer.read()

    server = Server(forward)
    yield server
    server.close()


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_proxy_of_the_environment_is_used(
    new_client: Make, gateway: Gateway, proxy: Server, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, proxy.url)
    client = new_client()
    identifier = client.record(use())
    assert client.flush(30) and gateway.ids() == {identifier}
    # The batch, and the published keys.
    assert len(proxy.requests) == 2 and all(gateway.url in one[1] for one in proxy.requests)


def test_proxy_can_be_given_or_turned_off(
    new_client: Make, gateway: Gateway, proxy: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    for options in ({"proxy": ""}, {"proxy": proxy.url.replace("//", "//user:p%40ss@")}):
        client = new_client(**options)
        client.record(use())
        assert client.flush(30)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    client = new_client()
    client.record(use())
    assert client.flush(30) and len(gateway.ids()) == 3
    assert len(proxy.requests) == 2
    # user:p@ss
    assert proxy.requests[0][2]["Proxy-Authorization"] == "Basic dXNlcjpwQHNz"


def test_request_has_a_total_time(new_client: Make, gateway: Gateway) -> None:
    """A server that sends a byte now and then doesn't hold a worker."""
    listener = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def drip() -> None:
        while not stop.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.sendall(b"HTTP/1.1 202 Accepted\r\nContent-Length: 9999\r\n\r\n")
                try:
                    while not stop.wait(0.1):
                        connection.sendall(b" ")
                except OSError:
                    pass

    threading.Thread(target=drip, daemon=True).start()
    transport = Transport(f"http://127.0.0.1:{listener.getsockname()[1]}", request_timeout_s=0.5)
    began = time.monotonic()
    answer = transport.send_batch(b"{}", "a", 1)
    took = time.monotonic() - began
    stop.set()
    listener.close()
    assert (answer.outcome, answer.code) == ("retried", "unreachable")
    assert "no whole answer within 0.5 s" in answer.detail
    assert took < 20


def certificate(folder: Path) -> Path:
    """A certificate of 127.0.0.1 by itself, and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
    now = datetime.now(timezone.utc)
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file = folder / "server.pem"
    file.write_bytes(secret + signed.public_bytes(Encoding.PEM))
    return file


def test_total_time_holds_with_tls(tmp_path: Path) -> None:
    file = certificate(tmp_path)
    stop = threading.Event()

    def answer(method: str, path: str, headers: Any, body: bytes) -> tuple[int, bytes]:
        if path == "/slow":
            stop.wait(60)
        return 200, b"yes"

    server = Server(answer)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    server.listener.socket = context.wrap_socket(server.listener.socket, server_side=True)
    url = server.url.replace("http:", "https:")
    transport = Transport(url, ca_file=str(file), request_timeout_s=1)
    assert transport.request("GET", url + "/fast", {})[:2] == (200, b"yes")
    with pytest.raises(urllib3.exceptions.HTTPError):
        transport.request("GET", url + "/slow", {})
    with pytest.raises(urllib3.exceptions.HTTPError, match="certificate"):
        Transport(url).request("GET", url + "/fast", {})
    stop.set()
    server.close()


def test_requests_are_made_while_no_thread_can_start(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: threading.Timer) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    transport = Transport(gateway.url)
    monkeypatch.setattr(threading.Timer, "start", fail)
    assert transport.request("GET", gateway.url + "/.well-known/receipts-keys.json", {})[0] == 200


@pytest.mark.parametrize("is_compressed", [True, False])
def test_bodies_are_compressed(new_client: Make, gateway: Gateway, is_compressed: bool) -> None:
    # One batch, however slowly they are recorded: a receipt alone is compressed less.
    client = new_client(is_compressed=is_compressed, batch_receipts_max=100, batch_delay_s=60.0)
    recorded = {client.record(use(number)) for number in range(100)}
    assert client.flush(30) and gateway.ids() == recorded and not gateway.problems
    headers = gateway.arrivals[0].headers
    share = int(headers["Content-Length"]) / len(gateway.arrivals[0].body)
    assert headers.get("Content-Encoding") == ("gzip" if is_compressed else None)
    assert share < 0.4 if is_compressed else share == 1
    assert headers["User-Agent"] == f"receipts-client-python/{__version__}"


def test_log_has_where_a_gateway_moved(
    new_client: Make, gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.steps = [Step(301, text=b"", location="https://new.example/")]
    client = new_client()
    client.record(use())
    assert client.flush(30)
    [record] = [one for one in caplog.records if "Location https://new.example/" in one.message]
    assert record.levelname == "ERROR"


def test_urls_are_resolved_in_bulk_and_cached(new_client: Make, gateway: Gateway) -> None:
    def answer(method: str, path: str, headers: Any, body: bytes) -> tuple[int, bytes]:
        urls = json.loads(body)["urls"]
        assert method == "POST" and path == "/api/v1/entries/lookup" and len(urls) <= 1_000
        entries = [
            None
            if "wrong" in url
            else {"url": url, "entryId": url[-4:], "publisher": "news.example", "listed": False}
            for url in urls
        ]
        return 200, json.dumps({"entries": entries}).encode()

    server = Server(answer)
    client = new_client(publisher_url=server.url)
    urls = [f"https://www.news.example/{number:04}" for number in range(1_500)]
    found = client.resolve([*urls, *urls, "wrong"])
    assert list(found) == [*urls, "wrong"] and found["wrong"] is None
    assert found[urls[7]] == Entry(urls[7], "0007", "news.example", False, None)
    assert len(server.requests) == 2
    assert client.resolve(urls[:3]) == {url: found[url] for url in urls[:3]}
    assert len(server.requests) == 2
    server.close()
    with pytest.raises(ReceiptsError):
        client.resolve(["https://other.example/"])
