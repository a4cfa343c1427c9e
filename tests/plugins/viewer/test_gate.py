"""Without the token nothing is shown, only the viewer's own page changes remarks, and what is not read holds little."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from agent_r1_viewer import app as app_module
from agent_r1_viewer.answers import Answers
from agent_r1_viewer.app import THREADS, build
from agent_r1_viewer.front_page import STATIC
from agent_r1_viewer.live import Live
from agent_r1_viewer.remarks import Remarks
from asking import OWN_PAGE, TOKEN, client, told, tree

from agent_r1_core.folders import state_dir
from agent_r1_core.runs.reading.found_runs import FoundRuns

if TYPE_CHECKING:
    from starlette.types import Message

PATIENCE = float(os.environ.get("LAWS_PATIENCE", "60"))
"""Seconds for all of them."""


def test_whoever_lacks_the_token_learns_nothing_of_a_run(home: Path) -> None:
    with client(home, cookies={}) as asked:
        shown = [
            asked.get(path) for path in ("/", "/?token=guessed", "/static/app.js", f"/static/app.js?token={TOKEN}")
        ]
        assert [(one.status_code, one.headers.get("set-cookie")) for one in shown] == [(200, None)] * 4
        for path in ("/api/runs", "/api/live", "/api/runs/small/search", "/api/nothing", "/%61pi/runs", "/nowhere"):
            for held in ({}, {"agent-r1-8700": "guessed"}, {"agent-r1-8701": TOKEN}, {"agent-r1-8700": ""}):
                for ask in (path, f"{path}?token={TOKEN}"):
                    cookie = "; ".join(f"{name}={value}" for name, value in held.items())
                    answer = asked.get(ask, headers={"cookie": cookie} if cookie else {})
                    assert (answer.status_code, "agent-r1 view` printed" in answer.json()["error"]) == (403, True), path
        first = asked.get("/", params={"token": TOKEN})
        assert first.headers["set-cookie"] == f"agent-r1-8700={TOKEN}; Path=/api; HttpOnly; SameSite=Strict"
        assert TOKEN not in first.text
        assert asked.get("/api/runs").status_code == 200


def test_only_the_viewers_own_page_can_change_a_remark(home: Path) -> None:
    sent = {"tags": ["ours"], "note": ""}
    with client(home) as asked:
        for origins in ([], ["http://127.0.0.1:9999"], ["null"], ["https://127.0.0.1:8700"],
                        ["http://127.0.0.1:8700", "http://127.0.0.1:9999"]):  # fmt: skip
            answer = asked.post("/api/runs/small/remark", json=sent, headers=[("origin", one) for one in origins])
            assert (answer.status_code, "own page" in answer.json()["error"]) == (403, True), origins
        asked.cookies.clear()
        assert asked.post("/api/runs/small/remark", json=sent, headers=OWN_PAGE).status_code == 403
    with client(home) as asked:
        assert told(asked, "runs", "small")["summary"]["remark"] == {"tags": [], "note": ""}


async def test_searches_that_nobody_reads_hold_little_and_end(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of forty, those whose turn it is hold a part; the others begin when these have ended."""
    monkeypatch.setattr(app_module, "UNREAD", 0.05)
    answers = Answers(FoundRuns([home]))
    app = build(answers, Live(answers.runs), TOKEN)
    held = most = ended = 0

    async def ask() -> None:
        nonlocal ended

        async def receive() -> Message:
            return await asyncio.Future()

        async def send(message: Message) -> None:
            nonlocal held, most
            if message["type"] == "http.response.body" and message["body"]:
                held += 1
                most = max(most, held)
                try:
                    await asyncio.Future()
                finally:
                    held -= 1

        headers = [(b"host", b"127.0.0.1:8700"), (b"cookie", f"agent-r1-8700={TOKEN}".encode())]
        path = "/api/runs/small/search"
        about = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"text=a"}
        await app({**about, "headers": headers}, receive, send)
        ended += 1

    await asyncio.wait_for(asyncio.gather(*(ask() for _ in range(40))), PATIENCE)
    assert (most, held, ended) == (THREADS, 0, 40)


def test_the_folder_for_remarks_is_made(copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_R1_STATE", str(tmp_path / "not" / "yet"))
    assert Remarks().keep(copied, b'{"tags": ["good"], "note": ""}').tags == ("good",)
    assert Remarks().of(copied).tags == ("good",)


def test_what_a_reader_keeps_beside_a_run_is_not_in_it_and_moves_with_it(copied: Path, tmp_path: Path) -> None:
    before = tree(copied.parent)
    with client(copied.parent) as asked:
        sent = {"tags": [" paper ", "paper", "", "seed  7"], "note": "It forgets.\n"}
        kept = asked.post("/api/runs/small/remark", json=sent, headers=OWN_PAGE)
        assert kept.json() == {"tags": ["paper", "seed 7"], "note": "It forgets."}
        assert told(asked, "runs")["runs"][0]["remark"] == kept.json()
        for bad, status in ((b"[", 422), (b'{"tags": 1}', 422), (json.dumps(sent | {"note": "x" * 10_001}), 422),
                            (b"x" * 70_000, 413)):  # fmt: skip
            assert asked.post("/api/runs/small/remark", content=bad, headers=OWN_PAGE).status_code == status
        assert asked.post("/api/runs/other/remark", json=sent, headers=OWN_PAGE).status_code == 404
        assert tree(copied.parent) == before
    moved = tmp_path / "elsewhere" / "small"
    shutil.move(copied, moved)
    with client(moved.parent) as asked:
        assert told(asked, "runs", "small")["summary"]["remark"] == kept.json()
        moved.rename(moved.with_name("renamed"))
        assert told(asked, "runs", "renamed")["summary"]["remark"] == {"tags": [], "note": ""}
        moved.with_name("renamed").rename(moved)
        asked.post("/api/runs/small/remark", json={"tags": [], "note": ""}, headers=OWN_PAGE)
        assert told(asked, "runs", "small")["summary"]["remark"] == {"tags": [], "note": ""}
    assert not list((state_dir() / "remarks").iterdir())


def test_names_of_this_machine_are_served_other_names_are_refused_and_nothing_can_be_sent(home: Path) -> None:
    ours = {"localhost": 80, "localhost:9000": 9000, "127.0.0.1:80": 80, "[::1]:8700": 8700, "LOCALHOST": 80}
    with client(home, cookies={}) as asked:
        for host, port in ours.items():
            headers = {"host": host, "cookie": f"agent-r1-{port}={TOKEN}"}
            assert asked.get("/api/runs", headers=headers).status_code == 200
    with client(home) as asked:
        for host in ("evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "", "127.0.0.2"):
            for path in ("/", "/api/runs", "/static/app.js", "/api/live"):
                for hosts in ([("host", host)], [("host", "localhost"), ("host", host)]):
                    answer = asked.get(path, headers=hosts)
                    assert (answer.status_code, "localhost" in answer.json()["error"]) == (403, True)
                    assert answer.headers["content-security-policy"].startswith("default-src 'none';")
    with client(home, cookies={}) as asked:
        assert asked.head("/").status_code == 200
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
            for path in ("/", "/api/runs", "/static/app.js", "/nowhere"):
                answer = asked.request(method, path)
                assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
                assert answer.json() == {"error": "This viewer only shows; ask it with GET."}


def test_the_policy_allows_the_import_map_alone_and_static_files_are_compressed_and_remembered(home: Path) -> None:
    with client(home) as asked:
        page = asked.get("/")
        policy = page.headers["content-security-policy"]
        (inline,) = re.findall(r'<script(?! type="application/json")[^>]*>([^<]+)</script>', page.text)
        allowed = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        assert dict(part.split(" ", 1) for part in policy.split("; ")) == {
            **dict.fromkeys(("default-src", "base-uri", "form-action", "frame-ancestors"), "'none'"),
            **dict.fromkeys(("style-src", "connect-src"), "'self'"),
            "script-src": f"'self' 'sha256-{allowed}'",
            "img-src": "'self' data:",
        }
        for path in ("/", "/api/runs", "/api/nowhere", "/static/app.js", "/static/missing.js", "/nowhere"):
            assert (
                asked.get(path).headers.items()
                >= {
                    "content-security-policy": policy,
                    "x-content-type-options": "nosniff",
                    "referrer-policy": "no-referrer",
                    "cache-control": "no-store" if path.startswith("/api") else "no-cache",
                    **dict.fromkeys(("cross-origin-resource-policy", "cross-origin-opener-policy"), "same-origin"),
                }.items()
            )
    with client(home) as asked:
        for way, encoding in (("identity", None), ("gzip", "gzip")):
            file = asked.get("/static/style.css", headers={"accept-encoding": way})
            assert file.content == (STATIC / "style.css").read_bytes()
            assert file.headers.get("content-encoding") == encoding
        again = asked.get("/static/style.css", headers={"if-none-match": file.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert asked.get("/static/%2e%2e/gate.py").status_code == 404
