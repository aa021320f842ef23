"""The total time of a request, which urllib3 limits only between two reads."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

_current = threading.local()


class Deadline:
    """Cuts the connection of this thread's request when the time is over."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._timer = threading.Timer(timeout_s, self._cut)
        self._timer.daemon = True
        self._is_over = False
        self.connection: HTTPConnection | None = None

    def __enter__(self) -> Deadline:
        _current.deadline = self
        # Python 3.12 starts no thread at the interpreter's exit, where `close` has a deadline.
        with contextlib.suppress(RuntimeError):
            self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        _current.deadline = None
        if self._is_over and isinstance(error, (urllib3.exceptions.HTTPError, OSError)):
            text = f"no whole answer within {self._timeout_s:g} s"
            raise urllib3.exceptions.HTTPError(text) from None

    def _cut(self) -> None:
        self._is_over = True
        connection = getattr(self.connection, "sock", None)
        if isinstance(connection, socket.socket):
            with contextlib.suppress(OSError):
                # Not SSLSocket's, which would take the TLS state from under the reader.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)


class _Timed(HTTPConnection):
    def connect(self) -> None:
        self._register()
        super().connect()

    def request(self, *arguments: Any, **members: Any) -> None:
        self._register()
        super().request(*arguments, **members)

    def _register(self) -> None:
        deadline = getattr(_current, "deadline", None)
        if deadline:
            deadline.connection = self


class _TimedHTTPS(_Timed, HTTPSConnection):
    pass


class TimedHTTPConnectionPool(urllib3.HTTPConnectionPool):
    """A pool whose requests end with their ``Deadline``."""

    ConnectionCls = _Timed


class TimedHTTPSConnectionPool(urllib3.HTTPSConnectionPool):
    """A pool whose requests end with their ``Deadline``."""

    ConnectionCls = _TimedHTTPS
