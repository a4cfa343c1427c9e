"""Asks the viewer, in this process or in one of its own, and looks at what its pages and its folders hold."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from agent_r1_viewer.answers import Answers
from agent_r1_viewer.app import build
from agent_r1_viewer.live import Live
from agent_r1_viewer.remarks import Remarks
from served import free_port
from starlette.testclient import TestClient

from agent_r1_core.runs.reading.found_runs import FoundRuns

TOKEN = "of-one-person"
COOKIE = {"agent-r1-8700": TOKEN}
OWN_PAGE = {"origin": "http://127.0.0.1:8700"}


def client(*folders: Path, cookies: Mapping[str, str] = COOKIE) -> TestClient:
    """Whoever asks about the runs in some folders, with the token."""
    answers = Answers(FoundRuns(folders), Remarks())
    app = build(answers, Live(answers.runs), TOKEN)
    return TestClient(app, base_url="http://127.0.0.1:8700", cookies=dict(cookies))


def told(asked: TestClient, *parts: object, **query: object) -> Any:
    """The JSON at `/api/<parts>`, with its status if that is not 200."""
    path = "/".join(quote(str(part), safe="") for part in parts)
    response = asked.get(f"/api/{path}", params={key.rstrip("_"): str(value) for key, value in query.items()})
    return response.json() | ({} if response.status_code == 200 else {"status": response.status_code})


@contextmanager
def shown(folder: Path) -> Iterator[str]:
    """The address at which `agent-r1 view` shows a folder, with its token."""
    main = [sys.executable, "-c", "from agent_r1_cli.main import main; main()"]
    call = [*main, "view", str(folder), "--no-open", "--port", str(free_port())]
    child = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert child.stdout is not None
        said = ""
        while (found := re.search(r"http://127\.0\.0\.1:\d+/\?token=[\w-]+", said)) is None:
            line = child.stdout.readline()
            assert line, f"agent-r1 view gave no address: {said}"
            said += line
        yield found[0]
    finally:
        child.terminate()
        child.communicate()


def arrive(page: Any, title: str) -> None:
    """Wait for the page whose title begins so."""
    from playwright.sync_api import expect

    expect(page).to_have_title(re.compile(f"^{re.escape(title)}"), timeout=30_000)


def tree(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """All that a folder holds, with times and modes."""
    found = {}
    for path in sorted(folder.rglob("*")):
        about = os.stat(path)
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (about.st_mtime_ns, about.st_mode, content)
    return found
