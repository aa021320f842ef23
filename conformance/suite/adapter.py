"""The process of an adapter, and requests to it."""

import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

START_MAX_S = 30


def free_port():
    """Return a port that the adapter can listen on.

    It is below the ports that systems give to sockets by themselves (32768 and up). One of those
    could be given to another program's gateway before the adapter has it.
    """
    while True:
        port = random.randrange(10_000, 32_000)
        try:
            socket.create_server(("127.0.0.1", port)).close()
            return port
        except OSError:
            continue


class Adapter:
    """A started adapter. ``log()`` is what it has printed on its standard error."""

    def __init__(self, command, environment=None):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        # A proxy of this machine's has nothing to do with the scripted gateway.
        direct = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        variables = {**os.environ, **direct, **(environment or {}), "PORT": str(port)}
        self._log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, env=variables, stderr=self._log)
        deadline = time.monotonic() + START_MAX_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                assert self.process.poll() is None, f"the adapter ended: {command}"
                assert time.monotonic() < deadline, f"the adapter doesn't listen: {command}"
                time.sleep(0.05)

    def init(self, **options):
        """Make the client. Raises ``AssertionError`` if it refuses the options."""
        status, answer = self.request("/init", options)
        assert status == 200, f"/init: {status} {answer}"

    def unsupported(self):
        """Return the scenarios that the library can't pass yet, with the reasons."""
        status, answer = self.request("/capabilities", None)
        assert status == 200, f"/capabilities: {status} {answer}"
        return answer["unsupported"]

    def record(self, uses):
        """Record uses; return the IDs, and whether there was no room for all of them."""
        status, answer = self.request("/record", {"uses": uses})
        assert status in (200, 507), f"/record: {status} {answer}"
        return answer["receiptIds"], status == 507

    def flush(self, timeout_s=30):
        status, answer = self.request("/flush", {"timeoutMs": int(timeout_s * 1_000)}, timeout_s + 60)
        assert status == 200, f"/flush: {status} {answer}"
        return answer["flushed"]

    def close(self):
        status, answer = self.request("/close", {})
        assert status == 200, f"/close: {status} {answer}"

    def state(self):
        return self.request("/state", None)[1]

    def kill(self):
        """End the process at once."""
        try:
            self.request("/kill", {})
        except OSError:
            pass
        self.stop()

    def log(self):
        if not self._log.closed:
            self._log.seek(0)
            self._text = self._log.read().decode(errors="replace")
        return self._text

    def stop(self):
        if not self._log.closed:
            self.process.kill()
            self.process.wait()
            sys.stderr.write(self.log())
            self._log.close()

    def request(self, path, body, timeout_s=60):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)
