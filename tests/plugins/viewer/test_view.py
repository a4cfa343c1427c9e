"""`agent-r1 view` from the command line, but for serving: other commands know nothing of it."""

from __future__ import annotations

import html
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_r1_viewer.view_command import _opened, view

from agent_r1_core.testing import CommandContract


class TestView(CommandContract):
    component = view


def test_a_place_without_runs_is_named(
    agent_r1: Callable[..., object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = {
        (): "there is no folder runs here; `agent-r1 train`",
        ("nowhere",): "there is no nowhere; give a run or a folder",
    }
    for arguments, sentence in said.items():
        asked = agent_r1("view", *arguments, "--no-open")
        assert (asked.exit_code, asked.stdout) == (1, "")  # type: ignore[attr-defined]
        assert asked.stderr.startswith(f"error: {sentence}")  # type: ignore[attr-defined]


def test_other_commands_import_no_server_and_the_viewer_no_torch() -> None:
    listed = "from agent_r1_core.plugins import Registry; assert Registry.discover().components('command')"
    for more, names in (
        (
            "from agent_r1_cli.main import build_app; build_app()",
            {"agent_r1_viewer", "starlette", "uvicorn", "pyarrow"},
        ),
        (listed, {"agent_r1_viewer.view_command", "starlette", "uvicorn", "pyarrow", "typer"}),
        ("import agent_r1_viewer.serving", {"torch", "transformers"}),
    ):
        code = f"{more}; import sys; print(sorted({names} & set(sys.modules)))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == "[]\n"


@pytest.mark.parametrize("folder", ["home/Downloads", "home", "elsewhere"])
def test_no_command_line_shows_the_token_and_a_browser_with_a_tmp_of_its_own_finds_the_page(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "elsewhere"))
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    address = "http://127.0.0.1:8700/?token=secret#/runs/a%27b"
    with _opened(address):
        (page,) = (tmp_path / folder).iterdir()
        assert opened == [page.as_uri()]
        assert html.unescape(page.read_text()) == f'<meta http-equiv="refresh" content="0; url={address}">'
        assert (page.stat().st_mode & 0o777, page.name[0]) == (0o600, "a")
    assert not page.exists()
