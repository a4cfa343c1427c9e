"""Clients from their packages, unchanged: each calls its tool, reads what it says, and answers."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest

from agent_r1_core import EndStatus, Task
from agent_r1_core.testing import tiny_tokenizer
from agent_r1_core.testing.model import TURN_END

from .clients import CLIENTS
from .conftest import played

pytestmark = [pytest.mark.installed, pytest.mark.slow]

TASK = Task("q", 'Where was "Karimo" born?')
NOBODY = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_calls_its_tool_and_asks_nobody_else(name: str, options_of: Callable[..., dict[str, Any]]) -> None:
    client = CLIENTS[name]
    script = [f"<think>\nI look.\n</think>\n\nA moment.\n{client.call()}", "In Tavelo."]
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        address = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        proxies = NOBODY | dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), address)
        result, counts = played(script, [TASK], **options_of(client, **proxies))
        proxy.setblocking(False)
        with pytest.raises(BlockingIOError):
            proxy.accept()
    (trajectory,) = result.trajectories
    assert (trajectory.status, trajectory.answer) == (EndStatus.TERMINATED, "In Tavelo.")
    assert [(call.name, call.arguments) for call in trajectory.turns[0].calls] == [(client.tool, client.arguments)]
    assert f" {client.tool}" in tiny_tokenizer().decode(trajectory.segments[0].ids).partition(TURN_END)[0]
    assert any(client.found in message["content"] for message in trajectory.turns[1].observation)
    assert (counts.requests, counts.segments) == (client.requests, client.requests if client.rewrites else 1)
    assert bool(counts.encoded_again) is client.rewrites
    assert (counts.trained_once, counts.trained_otherwise) == (counts.sampled, 0)
