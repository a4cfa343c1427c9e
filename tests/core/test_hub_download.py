"""A model is downloaded from a hub on this machine: its bytes are counted as long work, and no other bar is drawn."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

FILES = {"config.json": b"{}", "model.safetensors": b"w" * 3_000_000, "old.gguf": b"g" * 1_000_000}
COMMIT = "c" * 40
FETCH = """
from agent_r1_core.models import download
from agent_r1_core.work import watched_by

told = []
with watched_by(lambda work: told.append((work.what, work.done, work.total))):
    folder = download("org/model")
print(sorted(path.name for path in folder.iterdir()), told[0], told[-1])
"""


class Hub(BaseHTTPRequestHandler):
    """As much of the hub's API as a download asks for."""

    def log_message(self, *_: object) -> None:
        """Silent."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if "/resolve/" in path:
            name = path.rpartition("/")[2]
            return self._send(FILES[name], {"ETag": f'"{_id(name)}"', "X-Repo-Commit": COMMIT})
        if "/tree/" in path:
            listed = [{"type": "file", "path": name, "size": len(FILES[name]), "oid": _id(name)} for name in FILES]
            return self._send(json.dumps(listed).encode(), {})
        about = {"id": "org/model", "sha": COMMIT, "siblings": [{"rfilename": name} for name in FILES]}
        return self._send(json.dumps(about).encode(), {})

    do_HEAD = do_GET

    def _send(self, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(200)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


def _id(name: str) -> str:
    return hashlib.sha1(name.encode()).hexdigest()


@pytest.fixture
def hub() -> Iterator[str]:
    """Its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_bytes_of_a_download_are_counted_and_no_other_bar_is_drawn(hub: str, tmp_path: Path) -> None:
    own = {"HF_ENDPOINT": hub, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"}
    environment = {**os.environ, **own, "PYTHONPATH": os.pathsep.join(sys.path), "TQDM_POSITION": "-1"}
    done = subprocess.run([sys.executable, "-c", FETCH], capture_output=True, text=True, env=environment)
    size = sum(len(content) for name, content in FILES.items() if name != "old.gguf")
    began, ended = ("downloading org/model", 0, None), ("downloading org/model", size, size)
    assert done.stdout == f"{['config.json', 'model.safetensors']} {began} {ended}\n", done.stderr
    assert done.stderr == ""
