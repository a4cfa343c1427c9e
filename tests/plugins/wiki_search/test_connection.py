"""Requests to a service that sends its answers a little at a time."""

from __future__ import annotations

import contextlib
import json
import socketserver
import threading
import time

import pytest
from agent_r1_wiki_search import connection
from agent_r1_wiki_search.connection import Call
from agent_r1_wiki_search.remote import RemoteSearcher, Unavailable

from agent_r1_core import ToolError

ANSWER = json.dumps({"status": "ready", "index": "1", "facts": {"backend": "bm25"}}).encode()
REST = b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(ANSWER), ANSWER)
DRIPS = {
    "a status line": (b"HTTP/1.1 200 ", b"O", b"\r\n" + REST),
    "a header": (b"HTTP/1.1 200 OK\r\nx: ", b"a", b"\r\n" + REST),
    "informational answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + REST),
    "a body": (b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n", b" ", ANSWER),
}
"""What an answer begins with, what then comes many times, and the rest."""


class Dripping(socketserver.ThreadingTCPServer):
    """Sends its answers in pieces, for seconds; whoever still waits then gets the rest."""

    def __init__(self, answer: tuple[bytes, bytes, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), Tap)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.answer = answer
        self.pieces = 1
        self.outlasted = 0
        """Clients that waited for the rest of more than one piece."""


class Tap(socketserver.StreamRequestHandler):
    server: Dripping

    def handle(self) -> None:
        (first, piece, rest), pieces = self.server.answer, self.server.pieces
        with contextlib.suppress(OSError):  # the client has had enough
            while self.rfile.readline() != b"\r\n":
                pass
            self.wfile.write(first)
            for _ in range(pieces):
                self.wfile.write(piece)
                threading.Event().wait(0.01)
            self.wfile.write(rest)
            self.server.outlasted += pieces > 1


@pytest.mark.parametrize("what", DRIPS)
def test_an_answer_that_drips_ends_with_the_call(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Dripping(DRIPS[what]) as service:
        thread = threading.Thread(target=service.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            searcher = RemoteSearcher(service.url, retries=0)
            service.pieces = 400
            with pytest.raises(Unavailable):
                searcher.search(["a"], 1, Call(time.monotonic() + 0.2))
            searcher.close()
            monkeypatch.setattr(connection, "CALL_SECONDS", 0.2)
            with pytest.raises(ToolError, match=r"does not answer \(ReadTimeout: timed out\); start it with"):
                RemoteSearcher(service.url, retries=0)
        finally:
            service.shutdown()
            thread.join()
    assert service.outlasted == 0
