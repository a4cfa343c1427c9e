"""Gate: what a request must be before the viewer answers, and the headers that every answer has.

The viewer serves one person. Another user of this machine lacks the token, which only the address that `agent-r1 view`
printed carries; the first page takes it over into a cookie. A page elsewhere that makes a name of its own lead here
(DNS rebinding) is refused by the name, and may embed nothing of it. Browsers send a cookie to every port of a name: a
server of somebody else on this machine, opened in the same browser, is shown the token.
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_OURS = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::(?P<port>\d{1,5}))?", re.IGNORECASE)
_METHODS = ("GET", "HEAD")
_WRITTEN = re.compile(r"/api/runs/[^/]+/remark")
"""The one address that takes something: what a reader keeps beside a run."""


class Gate:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, policy: str, token: str) -> None:
        self._app = app
        self._token = token
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
        refused = _refusal(scope) or self._stranger(scope)
        given = None if refused else self._given(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(self._headers)
                headers.setdefault("cache-control", "no-cache")
                if given:
                    headers.append("set-cookie", given)
            await send(message)

        await (refused or self._app)(scope, receive, send_with_headers)

    def _given(self, scope: Scope) -> str | None:
        """The cookie for those who open the first page with the token."""
        shown = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["path"] != "/" or not self._fits(shown):
            return None
        return f"{cookie_name(Headers(scope=scope)['host'])}={self._token}; Path=/api; HttpOnly; SameSite=Strict"

    def _stranger(self, scope: Scope) -> JSONResponse | None:
        """All but the page and its files, which say nothing of runs, needs the token."""
        if scope["path"] == "/" or scope["path"].startswith("/static/"):
            return None
        headers = Headers(scope=scope)
        cookies = cookie_parser("; ".join(headers.getlist("cookie")))
        if self._fits(cookies.get(cookie_name(headers["host"]), "")):
            return None
        sentence = "This viewer shows runs to whoever has its token; open the address that `agent-r1 view` printed."
        return JSONResponse({"error": sentence}, 403, {"cache-control": "no-store"})

    def _fits(self, token: str) -> bool:
        return secrets.compare_digest(token.encode("utf-8", "replace"), self._token.encode())


def cookie_name(host: str) -> str:
    """The cookie with the token, as a browser keeps it for a viewer at a port: it has one store for all ports."""
    match = _OURS.fullmatch(host)
    return f"agent-r1-{(match and match['port']) or 80}"


def _refusal(scope: Scope) -> JSONResponse | None:
    headers = Headers(scope=scope)
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not _OURS.fullmatch(hosts[0]):
        sentence = "This viewer answers to localhost, 127.0.0.1 and [::1] only; open it by one of these names."
        return JSONResponse({"error": sentence}, 403)
    if scope["method"] == "POST" and _WRITTEN.fullmatch(scope["raw_path"].decode("latin-1")):
        if headers.getlist("origin") == [f"http://{hosts[0]}"]:
            return None
        return JSONResponse({"error": "Only this viewer's own page may change what is kept beside a run."}, 403)
    if scope["method"] not in _METHODS:
        return JSONResponse({"error": "This viewer only shows; ask it with GET."}, 405, {"allow": ", ".join(_METHODS)})
    return None
