"""A judge that follows a script, at a real address."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from scripted_judge import ScriptedJudge


@pytest.fixture
def judge() -> Iterator[ScriptedJudge]:
    script = ScriptedJudge()

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
        def handle_error(self, *given: object) -> None:
            """Say nothing of clients that left."""

    server = Server(("127.0.0.1", 0), Handler)
    script.address = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield script
    server.shutdown()
    server.server_close()
    thread.join()
