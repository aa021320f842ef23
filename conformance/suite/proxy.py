"""A proxy that refuses some requests with 429, and cuts some answers off."""

import http.client
import random
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

REFUSED_SHARE = 0.1
CUT_SHARE = 0.03
RETRY_AFTER_S = 1


class Proxy:
    """A proxy on a free port for a gateway on another. Without the gateway it cuts connections."""

    def __init__(self, gateway_port):
        self.refused = self.cut = 0
        self._lock = threading.Lock()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                """The published keys, unharmed."""
                connection = http.client.HTTPConnection("127.0.0.1", gateway_port, timeout=60)
                try:
                    connection.request("GET", self.path)
                    answer = connection.getresponse()
                    self._answer(answer.status, answer.read(), None)
                except (OSError, http.client.HTTPException):
                    self._cut()
                finally:
                    connection.close()

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if random.random() < REFUSED_SHARE:
                    proxy._count(refused=1)
                    return self._answer(429, b'{"code":"rate_limited"}', RETRY_AFTER_S)
                connection = http.client.HTTPConnection("127.0.0.1", gateway_port, timeout=60)
                try:
                    names = ("Content-Type", "Content-Encoding")
                    headers = {name: self.headers[name] for name in names if self.headers[name]}
                    connection.request("POST", self.path, body, headers)
                    answer = connection.getresponse()
                    data = answer.read()
                except (OSError, http.client.HTTPException):
                    return self._cut()
                finally:
                    connection.close()
                if random.random() < CUT_SHARE:
                    # The gateway has stored the batch, and the client doesn't learn of it.
                    proxy._count(cut=1)
                    return self._cut()
                self._answer(answer.status, data, answer.getheader("Retry-After"))

            def _cut(self):
                self.close_connection = True

            def _answer(self, status, data, retry_after_s):
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                if retry_after_s:
                    self.send_header("Retry-After", str(retry_after_s))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format, *args):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, address):
                pass  # Clients that are killed.

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def _count(self, refused=0, cut=0):
        with self._lock:
            self.refused += refused
            self.cut += cut
