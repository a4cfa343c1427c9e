"""The command line inside this process, with its two streams apart."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from typer.testing import CliRunner


@pytest.fixture
def agent_r1(monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    """`agent_r1("plugins", "list")` runs a command; the result has `exit_code`, `stdout` and `stderr`."""
    from agent_r1_cli.main import build_app

    monkeypatch.delenv("AGENT_R1_DEBUG", raising=False)
    monkeypatch.delenv("AGENT_R1_DISABLE_PLUGINS", raising=False)
    monkeypatch.setenv("COLUMNS", "120")

    def invoke(*arguments: object, **options: object) -> object:
        return CliRunner().invoke(build_app(), [str(argument) for argument in arguments], **options)

    return invoke
