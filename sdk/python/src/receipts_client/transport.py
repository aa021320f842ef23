"""Requests to the gateway, and what its answers mean."""

from __future__ import annotations

# The codec of host names, which a thread would import with its first request. A process that is
# forked meanwhile could never import it.
import encodings.idna  # noqa: F401
import gzip
import json
import re
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3

from .acknowledgements import KEYS_PATH, AcknowledgementError, PublishedKeys, verified
from .backoff import retry_after_s
from .deadline import Deadline, TimedHTTPConnectionPool, TimedHTTPSConnectionPool
from .version import __version__

BATCH_PATH = "/api/v1/receipts/batch"
_CONNECT_S_MAX = 5.0
_ANSWER_BYTES_MAX = 16 << 20
# A shorter body isn't worth the compression.
_COMPRESSED_BYTES_MIN = 1_024
_EXCERPT_CHARACTERS = 80
_POINTER = re.compile(r"/receipts/([0-9]{1,9})((?:/.*)?)", re.DOTALL)
# The gateway's own problems that judge the bytes of a batch (conformance/README.md).
_FINAL = re.compile(
    r"(?:.*/)?problems/(?:invalid_(?:json|receipt|batch|request_signature)|wrong_address"
    r"|bad_(?:signature|batch_signature|request_signature)|missing_request_signature"
    r"|client_key_(?:unknown|revoked)|(?:decoded_)?body_too_large)"
)
_ENCODING_CODES = ("unsupported_encoding", "invalid_encoding")


@dataclass(frozen=True)
class Fault:
    """A fault that the service found; ``index`` is the receipt's in its batch."""

    index: int
    code: str
    pointer: str
    detail: str


@dataclass(frozen=True)
class Answer:
    """What became of a request.

    ``outcome`` is ``acknowledged``, ``refused``, ``split`` (too large) or ``retried``, as the rule
    in conformance/README.md defines them. ``is_gateways`` says whether the gateway itself refused
    the batch, ``retry_after_s`` is the least time until the next try.
    """

    outcome: str
    code: str = ""
    detail: str = ""
    faults: list[Fault] = field(default_factory=list)
    retry_after_s: float = 0.0
    is_gateways: bool = False
    # Whether a person should look, as the answer isn't one of a gateway that is away or overloaded.
    is_strange: bool = False
    acknowledgement: dict[str, Any] = field(default_factory=dict)


class Transport:
    """Connections to the gateway. Raises ``ValueError`` for options that can't be."""

    def __init__(
        self,
        url: str,
        *,
        ca_file: str | None = None,
        proxy: str | None = None,
        request_timeout_s: float = 30.0,
        is_compressed: bool = True,
        connections_max: int = 3,
    ) -> None:
        try:
            host = urllib3.util.parse_url(url).host
        except urllib3.exceptions.LocationParseError:
            host = None
        if not url.startswith(("http://", "https://")) or not host or "?" in url or "#" in url:
            raise ValueError(f"url is {url!r}: write http:// or https://, a host, and no query")
        if ca_file is not None:
            try:
                ssl.create_default_context(cafile=ca_file)
            except OSError as error:
                raise ValueError(f"ca_file is {ca_file!r}: {error}") from None
        self.url = url.rstrip("/")
        self._ca_file, self._proxy = ca_file, proxy
        self._request_timeout_s = request_timeout_s
        self._is_compressed = is_compressed
        self._connections_max = connections_max
        self._keys = PublishedKeys(self._read_keys)
        self._pools: dict[str | None, urllib3.PoolManager] = {}
        self._lock = threading.Lock()
        self._pool(url)

    def send_batch(self, body: bytes, batch_id: str, count: int) -> Answer:
        """Send a batch of ``count`` receipts once."""
        headers = {"Content-Type": "application/json"}
        sent = body
        if self._is_compressed and len(body) >= _COMPRESSED_BYTES_MIN:
            headers["Content-Encoding"] = "gzip"
            # Higher levels take twice the time for 6 % of the bytes.
            sent = gzip.compress(body, 1)
        try:
            status, data, fields = self.request("POST", self.url + BATCH_PATH, headers, sent)
            answer = answer_of(status, data, fields)
            if answer.outcome == "acknowledged":
                members = json.loads(data)
                signed = verified(members, body, batch_id, count, self._keys)
                return Answer("acknowledged", acknowledgement=signed)
        except AcknowledgementError as error:
            return Answer(
                "retried", "unexpected_answer", f"acknowledgement: {error}", is_strange=True
            )
        except urllib3.exceptions.HTTPError as error:
            return Answer("retried", "unreachable", str(error))
        if answer.code in _ENCODING_CODES:
            self._is_compressed = False
        return answer

    def request(
        self, method: str, url: str, headers: dict[str, str], body: bytes | None = None
    ) -> tuple[int, bytes, Mapping[str, str]]:
        """Send a request once; return status, body and header. Raises urllib3's errors."""
        with Deadline(self._request_timeout_s):
            response = self._pool(url).request(
                method,
                url,
                body=body,
                headers={**headers, "User-Agent": f"receipts-client-python/{__version__}"},
                redirect=False,
                preload_content=False,
            )
            # Closed unless it was read to its end: what is left would precede the next answer.
            is_whole = False
            try:
                data = response.read(_ANSWER_BYTES_MAX + 1)
                is_whole = len(data) <= _ANSWER_BYTES_MAX
            finally:
                if is_whole:
                    response.release_conn()
                else:
                    response.close()
        if not is_whole:
            raise urllib3.exceptions.HTTPError(f"an answer has over {_ANSWER_BYTES_MAX} bytes")
        return response.status, data, response.headers

    def again(self) -> Transport:
        """Return a transport with the same options and no connections."""
        return Transport(
            self.url,
            ca_file=self._ca_file,
            proxy=self._proxy,
            request_timeout_s=self._request_timeout_s,
            is_compressed=self._is_compressed,
            connections_max=self._connections_max,
        )

    def _read_keys(self) -> bytes:
        status, data, _ = self.request("GET", self.url + KEYS_PATH, {})
        if status != 200:
            raise AcknowledgementError(f"{KEYS_PATH} can't be read: status {status}")
        return data

    def _pool(self, url: str) -> urllib3.PoolManager:
        proxy = self._proxy_of(url)
        with self._lock:
            if proxy not in self._pools:
                self._pools[proxy] = self._new_pool(proxy)
            return self._pools[proxy]

    def _proxy_of(self, url: str) -> str | None:
        if self._proxy is not None:
            return self._proxy or None
        parts = urlsplit(url)
        proxies = getproxies()
        if proxy_bypass(parts.netloc.rpartition("@")[2]):
            return None
        return proxies.get(parts.scheme) or proxies.get("all")

    def _new_pool(self, proxy: str | None) -> urllib3.PoolManager:
        options: dict[str, Any] = {
            "maxsize": self._connections_max,
            "retries": False,
            "timeout": urllib3.Timeout(
                connect=min(_CONNECT_S_MAX, self._request_timeout_s), read=self._request_timeout_s
            ),
            "ca_certs": self._ca_file,
        }
        if proxy is None:
            pool = urllib3.PoolManager(**options)
        else:
            parts = urlsplit(proxy)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError(
                    "the proxy's address must be http://HOST:PORT or https://HOST:PORT"
                )
            if parts.username is not None:
                user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
                options["proxy_headers"] = urllib3.make_headers(proxy_basic_auth=user)
            pool = urllib3.ProxyManager(proxy, **options)
        pool.pool_classes_by_scheme = {
            "http": TimedHTTPConnectionPool,
            "https": TimedHTTPSConnectionPool,
        }
        return pool


def answer_of(status: int, data: bytes, fields: Mapping[str, str]) -> Answer:
    """Read the answer to a batch by the rule of conformance/README.md.

    What isn't the gateway's, such as a proxy's page, doesn't end the batch. That a 202
    acknowledges it is for ``verified`` to decide.
    """
    retry_s = retry_after_s(fields.get("Retry-After"))
    try:
        members = json.loads(data)
    except (ValueError, RecursionError):
        members = None
    if status == 202 and isinstance(members, dict):
        return Answer("acknowledged")
    problem = members if isinstance(members, dict) else {}
    kind = problem.get("type")
    is_gateways = 400 <= status < 500 and isinstance(kind, str) and bool(_FINAL.fullmatch(kind))
    code, detail = str(problem.get("code", status)), str(problem.get("detail", ""))
    if status == 413 or is_gateways:
        errors = problem.get("errors")
        faults = [
            fault
            for error in (errors if is_gateways and isinstance(errors, list) else [])
            if (fault := _fault(error)) is not None
        ]
        outcome = "split" if status == 413 else "refused"
        return Answer(outcome, code, detail, faults, retry_s, is_gateways)
    is_strange = status < 500 and status not in (408, 429)
    if is_strange or not detail:
        text = data.decode(errors="replace")[:_EXCERPT_CHARACTERS]
        detail = f"status {status}, {text!r}"
        if "Location" in fields:
            detail += f", Location {fields['Location']}"
    if is_strange and code not in _ENCODING_CODES:
        code = "unexpected_answer"
    return Answer("retried", code, detail, [], retry_s, is_strange=is_strange)


def _fault(error: Any) -> Fault | None:
    if not isinstance(error, dict):
        return None
    match = _POINTER.fullmatch(str(error.get("pointer", "")))
    if not match:
        return None
    detail = str(error.get("detail", ""))
    return Fault(int(match[1]), str(error.get("code", "")), match[2], detail)
