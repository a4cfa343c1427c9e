"""Coding agents from npm, unchanged: each runs a command in its shell, and answers; its tokens are trained once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_r1_core import EndStatus, Task

from .conftest import PROGRAMS, played

pytestmark = [pytest.mark.installed, pytest.mark.slow]

AGENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "claude_code.sh": ("Bash", {"command": "echo born in $((40 + 2))", "description": "Look"}),
    "codex.sh": ("exec_command", {"cmd": "echo born in $((40 + 2))"}),
    "pi.sh": ("bash", {"command": "echo born in $((40 + 2))"}),
}
TASK = Task("q", 'Where was "Karimo" born?')


@pytest.mark.parametrize("agent", AGENTS)
def test_a_coding_agent_plays_with_its_shell(agent: str, client_path: str) -> None:
    tool, arguments = AGENTS[agent]
    written = json.dumps({"name": tool, "arguments": arguments})
    call = f"<think>\nI look.\n</think>\n\nA moment.\n<tool_call>\n{written}\n</tool_call>"
    command = ["sh", str(PROGRAMS / agent), TASK.prompt]
    result, counts = played(
        [call, "In 42."], [TASK], command=command, environment={"PATH": client_path}, max_tokens=400_000
    )
    (trajectory,) = result.trajectories
    print(agent, counts, trajectory.seconds, [len(segment.ids) for segment in trajectory.segments])
    for turn in trajectory.turns:
        print(turn.info, turn.text, [(m["role"], m["content"][:300]) for m in turn.observation])
    assert (trajectory.status, trajectory.answer) == (EndStatus.TERMINATED, "In 42.")
    assert [(call.name, call.arguments) for call in trajectory.turns[0].calls] == [(tool, arguments)]
    assert "born in 42" in trajectory.turns[1].observation[0]["content"]
    assert (counts.requests, counts.segments, counts.encoded_again) == (2, 1, 0)
    assert (counts.trained_once, counts.trained_otherwise) == (counts.sampled, 0)
