"""The default task, played by a program with a search of its own, gives the episodes of the built-in environment."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agent_r1_core.assembly.assembly import assemble
from agent_r1_core.rollout import RolloutRequest
from agent_r1_core.training.api import resolve
from agent_r1_core.trajectory import Trajectory

PROGRAM = ("env={name: program, function: 'wiki_agent:run', max_tokens: 1024, max_turns: 5}", "tools=[]")


async def played(*overrides: str) -> list[Trajectory]:
    resolved = resolve("default", ["deterministic=true", *overrides], training=False)
    assembly = assemble(resolved, learning=False, task_sets=("eval",))
    try:
        await assembly.start()
        request = RolloutRequest(assembly.sets["eval"].tasks[:8], samples=3, round="same", split="eval")
        result = await assembly.rollouts.collect(request)
        assert not result.dropped, result.dropped[0].reason
        return result.trajectories
    finally:
        await assembly.close()


def test_a_program_plays_as_the_environment_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    built_in, program = asyncio.run(played()), asyncio.run(played(*PROGRAM))
    assert sum(len(one.turns) for one in built_in) > 2 * len(built_in), "they search before they answer"
    for one, other in zip(built_in, program, strict=True):
        assert other.segments == one.segments
        assert other.answer == one.answer
        assert other.rewards["exact_match"] == one.rewards["exact_match"]
