"""An OpenEnv server as its clients see it: what it says about itself, sessions over `/ws`, and how many it can take."""

from __future__ import annotations

import functools
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from agent_r1_core import EpisodeError

LONGEST = 2**24
"""Bytes of one message or answer."""
_PAUSE = 0.2
"""Seconds before a full server is asked again, when no session of ours has ended."""


def missing() -> str | None:
    """A sentence if the package websockets is missing."""
    if find_spec("websockets") is None:
        return "the package websockets is missing; run `pip install 'agent-r1[openenv]'`"
    return None


class Refused(Exception):
    """The server answered with an error."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.code, self.data = str(data.get("code", "")), data
        super().__init__(str(data.get("message", data)))


def ask(url: str, path: str, body: Any = None, timeout: float = 30.0) -> Any:
    """The JSON of a GET, or of a POST where there is a body.

    Raises:
        EpisodeError: it cannot be had; one sentence.
    """
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url + path, None if body is None else json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as reply:
            return json.loads(reply.read(LONGEST))
    except urllib.error.HTTPError as error:
        said = error.read(500).decode(errors="replace")
        raise EpisodeError(f"the OpenEnv server at {url}{path} answers {error.code}: {said}") from error
    except (OSError, ValueError) as error:
        raise EpisodeError(f"there is no OpenEnv server at {url}{path}: {error}; start one, or set its url") from error


@functools.cache
def action_schema(url: str) -> dict[str, Any]:
    """The JSON schema of an action, without what every action has."""
    schema: dict[str, Any] = ask(url, "/schema")["action"]
    fields = {name: field for name, field in schema.get("properties", {}).items() if name != "metadata"}
    return {**schema, "properties": fields}


class _Places:
    """The sessions that a server has for us; nobody knows how many until it refuses one."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.used = 0
        self.limit: int | None = None

    def take(self, deadline: float) -> None:
        with self.changed:
            free = self.changed.wait_for(lambda: self.limit is None or self.used < self.limit, _left(deadline))
            if not free:
                raise EpisodeError(
                    f"the OpenEnv server has only {self.limit} sessions; lower engine.max_episodes to it"
                )
            self.used += 1

    def give(self) -> None:
        with self.changed:
            self.used -= 1
            self.changed.notify()


@functools.cache
def places(url: str) -> _Places:
    """One queue for all episodes of this process."""
    return _Places()


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


class Session:
    """One episode's connection."""

    def __init__(self, url: str, first: Mapping[str, Any], timeout: float) -> None:
        """Wait for a place and reset; `answer` is what the server says to that.

        Raises:
            EpisodeError: there was no place, or no server, for `timeout` seconds.
        """
        self._timeout, self._places = timeout, places(url)
        self._socket: Any = None
        deadline = time.monotonic() + timeout
        while True:
            self._places.take(deadline)
            self._holds_place = True
            try:
                self._socket = _connect(url, timeout)
                self.answer = self.say("reset", first)
                return
            except Refused as refused:
                self.close()
                if refused.code != "CAPACITY_REACHED" or not _left(deadline):
                    raise EpisodeError(f"the OpenEnv server at {url} refuses to begin: {refused}") from refused
                self._places.limit = max(1, int(refused.data.get("max_sessions") or 1))
                time.sleep(_PAUSE)  # sessions of others, or one of ours that the server has not ended yet
            except BaseException:
                self.close()
                raise

    def say(self, kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Send a message and wait for the answer's data.

        Raises:
            Refused: it is an error.
            EpisodeError: the server is gone, or silent.
        """
        from websockets.exceptions import ConnectionClosed, WebSocketException

        try:
            with suppress(ConnectionClosed):  # a full server says so and closes, before it is asked anything
                self._socket.send(json.dumps({"type": kind, "data": dict(data)}))
            reply = json.loads(self._socket.recv(self._timeout))
        except (OSError, WebSocketException, TimeoutError) as error:
            raise EpisodeError(f"the OpenEnv server did not answer {kind}: {error or type(error).__name__}") from error
        if reply["type"] == "error":
            raise Refused(reply["data"])
        answer: dict[str, Any] = reply["data"]
        return answer

    def close(self) -> None:
        """End the session and give its place to the next one; harmless twice."""
        socket, self._socket = self._socket, None
        holds, self._holds_place = self._holds_place, False
        if socket is not None:
            with suppress(Exception):
                socket.send('{"type": "close"}')
            socket.close()
        if holds:
            self._places.give()


def _connect(url: str, timeout: float) -> Any:
    from websockets.exceptions import WebSocketException
    from websockets.sync.client import connect

    address = "ws" + url.removeprefix("http") + "/ws"
    try:
        return connect(address, open_timeout=timeout, close_timeout=2, max_size=LONGEST, proxy=None)
    except (OSError, WebSocketException, TimeoutError) as error:
        raise EpisodeError(f"there is no OpenEnv server at {address}: {error}; start one, or set its url") from error
