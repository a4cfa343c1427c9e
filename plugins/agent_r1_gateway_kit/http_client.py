"""Requests that are sent now and read later, or never, as programs do that retry, leave or ask in parallel."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

PATIENCE = 60.0
"""Seconds for one answer."""


@dataclass(frozen=True)
class Answer:
    """The answer to a request."""

    status: int
    text: str

    @property
    def json(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.text)


class Pending:
    """A request that was sent, and whose answer nobody has read."""

    def __init__(self, method: str, url: str, body: Any, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        assert parts.netloc, f"{url} is no address; give one such as http://127.0.0.1:8720"
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._connection = kind(parts.netloc, timeout=PATIENCE)
        sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        self._cut_off = False
        try:
            self._connection.request(method, parts.path or "/", sent, {"content-type": "application/json", **headers})
        except ConnectionRefusedError:
            raise AssertionError(f"nobody listens at {url}") from None
        except OSError:  # a server may refuse before it has read everything
            self._cut_off = True

    def read(self) -> Answer:
        """The answer; 413 where the server closed while it was written to."""
        try:
            answer = self._connection.getresponse()
            return Answer(answer.status, answer.read().decode())
        except (OSError, HTTPException) as error:
            if self._cut_off:
                return Answer(413, "")
            raise AssertionError(f"the gateway gave no answer: {error!r}") from error
        finally:
            self._connection.close()

    def leave(self) -> None:
        """Close the connection; nobody will read the answer."""
        self._connection.close()


def call(method: str, url: str, body: Any = None) -> dict[str, Any]:
    """The JSON object that a reporting address answers."""
    answer = Pending(method, url, body, {}).read()
    assert answer.status == 200, f"{method} {url} answers {answer.status}: {answer.text[:500]}"
    return dict(answer.json)
