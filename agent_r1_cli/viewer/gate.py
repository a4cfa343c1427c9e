"""Gate: what a request must be before the viewer answers, and the headers that every answer has.

The viewer serves people on this machine. A page elsewhere that makes a name of its own lead here (DNS rebinding) is
refused by the name, and may embed nothing of it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_OURS = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?", re.IGNORECASE)
_METHODS = ("GET", "HEAD")


class Gate:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, policy: str) -> None:
        self._app = app
        self._headers = {
            "content-security-policy": policy,
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
            "cross-origin-resource-policy": "same-origin",
            "cross-origin-opener-policy": "same-origin",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it with a sentence."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no web sockets

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(self._headers)
                headers.setdefault("cache-control", "no-cache")
            await send(message)

        await (_refusal(scope) or self._app)(scope, receive, send_with_headers)


def _refusal(scope: Scope) -> JSONResponse | None:
    hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
    if len(hosts) != 1 or not _OURS.fullmatch(hosts[0]):
        sentence = "This viewer answers to localhost, 127.0.0.1 and [::1] only; open it by one of these names."
        return JSONResponse({"error": sentence}, 403)
    if scope["method"] not in _METHODS:
        return JSONResponse({"error": "This viewer only shows; ask it with GET."}, 405, {"allow": ", ".join(_METHODS)})
    return None
