"""Transport: sends requests of httpx2 so that whatever they wait for ends at one moment.

httpx2 counts its time-outs anew at every read, so that a server which sends a byte now and then outlasts them. Here the
time-outs for connecting, reading and writing are moments of `time.monotonic()`; `pool` stays a number of seconds. What
looking up a host's name takes is up to the system.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable, Iterator
from typing import Any

import httpcore2
import httpx2

_PART = 4096
"""Bytes that a socket which takes any takes at once, so that each part is one wait."""


class Transport(httpx2.BaseTransport):
    """Pooled connections over HTTP/1.1; safe to use from several threads. Errors are those of httpcore2."""

    def __init__(self, connections: int) -> None:
        """Nothing is connected yet; `connections` is the most at once."""
        self._pool = httpcore2.ConnectionPool(
            ssl_context=httpx2.create_ssl_context(trust_env=False),
            max_connections=connections,
            keepalive_expiry=5.0,
            network_backend=_Network(),
        )

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; the body of its answer is read later."""
        url = request.url
        target = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        response = self._pool.handle_request(
            httpcore2.Request(
                request.method,
                target,
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        return httpx2.Response(response.status, headers=response.headers, stream=_Body(response))

    def close(self) -> None:
        self._pool.close()


class _Body(httpx2.SyncByteStream):
    def __init__(self, response: httpcore2.Response) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        yield from self._response.iter_stream()

    def close(self) -> None:
        self._response.close()


class _Network(httpcore2.SyncBackend):
    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> _Stream:
        left = _left(timeout, httpcore2.ConnectTimeout)
        return _Stream(super().connect_tcp(host, port, left, local_address, socket_options))


class _Stream(httpcore2.NetworkStream):
    """Reads and writes until a moment."""

    def __init__(self, inner: httpcore2.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _left(timeout, httpcore2.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), _PART):
            self._inner.write(buffer[start : start + _PART], _left(timeout, httpcore2.WriteTimeout))

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> _Stream:
        left = _left(timeout, httpcore2.ConnectTimeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, left))

    def close(self) -> None:
        self._inner.close()

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _left(moment: float | None, too_late: type[httpcore2.TimeoutException]) -> float | None:
    """Seconds until the moment.

    Raises:
        TimeoutException: it is over.
    """
    if moment is None:
        return None
    left = moment - time.monotonic()
    if left <= 0:
        raise too_late("timed out")
    return left
