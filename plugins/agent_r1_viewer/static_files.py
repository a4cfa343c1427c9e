"""StaticFiles: the page's own files, read and compressed once, since a page asks for two dozen of them before it shows
anything. Whoever changes one of them starts the viewer again.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

_UNKNOWN = "application/octet-stream"
_TYPES = {".js": "text/javascript"}
"""Where the machine's own table may say something that browsers refuse."""


class StaticFiles:
    """An ASGI application that serves the files which a folder has when it is made, and nothing else."""

    def __init__(self, folder: Path) -> None:
        paths = (path for path in folder.rglob("*") if path.is_file())
        self._files = {f"/{path.relative_to(folder).as_posix()}": _File(path) for path in paths}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with a file, or that the browser has it already."""
        request = Request(scope)
        file = self._files.get(scope["path"].removeprefix(scope.get("root_path", "")))
        if file is None:
            raise HTTPException(404)
        await file.answer(request)(scope, receive, send)


@dataclass(frozen=True)
class _File:
    path: Path

    def answer(self, request: Request) -> Response:
        packed = "gzip" in request.headers.get("accept-encoding", "")
        headers = {"etag": self._tag, "vary": "accept-encoding"}
        if request.headers.get("if-none-match") == self._tag:
            return Response(status_code=304, headers=headers)
        if packed:
            headers["content-encoding"] = "gzip"
        kind = _TYPES.get(self.path.suffix) or mimetypes.guess_type(self.path)[0] or _UNKNOWN
        return Response(self._packed if packed else self._content, media_type=kind, headers=headers)

    @cached_property
    def _content(self) -> bytes:
        return self.path.read_bytes()

    @cached_property
    def _packed(self) -> bytes:
        return gzip.compress(self._content, mtime=0)

    @cached_property
    def _tag(self) -> str:
        return f'"{hashlib.sha256(self._content).hexdigest()}"'
