"""A judge that follows a script, at a real address."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = str | tuple[int, str] | bytes


def block_of(request: dict[str, Any]) -> str:
    """The data that a request shows."""
    text: str = request["messages"][-1]["content"]
    return text.partition("<data>\n")[2].rpartition("\n</data>")[0]


@dataclass
class ScriptedJudge:
    """Answers chat completions by `says`: a text, a status with a body, or the bytes of a body."""

    says: Callable[[dict[str, Any]], Reply] = lambda request: '{"correct": 10}'
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    address: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    """Of answers that are not 200."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def data(self, place: int = -1) -> Any:
        """What stood in the data block of a request."""
        return json.loads(block_of(self.requests[place]))

    def answer(self, request: dict[str, Any], key: str | None) -> tuple[int, bytes]:
        with self._lock:
            self.requests.append(request)
            self.keys.append(key)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            said = self.says(request)
        finally:
            with self._lock:
                self.at_once -= 1
        if isinstance(said, tuple):
            return said[0], said[1].encode()
        if isinstance(said, bytes):
            return 200, said
        message = {"role": "assistant", "content": said}
        usage = {"prompt_tokens": 100, "completion_tokens": 7}
        return 200, json.dumps({"choices": [{"message": message}], "usage": usage}).encode()

    @contextmanager
    def served(self) -> Iterator[ScriptedJudge]:
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["content-length"]))
                status, body = script.answer(json.loads(content), self.headers.get("authorization"))
                self.send_response(status)
                for name, value in ({} if status == 200 else script.headers).items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *given: object) -> None:
                """Say nothing."""

        class Server(ThreadingHTTPServer):
            request_queue_size = 128

            def handle_error(self, *given: object) -> None:
                """Say nothing of clients that left."""

        server = Server(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{server.server_port}/v1"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield self
        server.shutdown()
        server.server_close()
        thread.join()
