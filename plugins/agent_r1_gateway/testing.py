"""Plays programs against a scripted policy, for tests of agents: no model is loaded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import httpx2

from agent_r1_core import EnvServices, RewardFn, Sampling, Task, ToolEnv, ToolFormat, Trajectory
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.plugins import Registry
from agent_r1_core.rollout import Collector, RolloutRequest, RolloutResult, RolloutSettings, WeightedReward
from agent_r1_core.testing import ScriptedPolicy, make_task, tiny_tokenizer
from agent_r1_gateway.env import ProgramConfig, ProgramEnv
from agent_r1_gateway.program import Episode


def play_programs(
    env: Callable[[EnvServices], ToolEnv],
    policy: ScriptedPolicy,
    tasks: Sequence[Task],
    tool_format: ToolFormat | None = None,
    rewards: Sequence[RewardFn] = (),
    **settings: Any,
) -> RolloutResult:
    """Play each task once; `settings` are further ones of `RolloutSettings`."""
    chosen: dict[str, Any] = {
        "sampling": Sampling(max_new_tokens=256),
        "max_retries": 0,
        "max_episodes": 512,
        "rewards": [WeightedReward(reward) for reward in rewards],
    }
    tokenizer = ChatTokenizer(tiny_tokenizer())
    collector = Collector(policy, tokenizer, RolloutSettings(env, tool_format=tool_format, **chosen | settings))
    try:
        return asyncio.run(collector.collect(RolloutRequest(tasks)))
    finally:
        collector.close()


def play_program(
    script: Sequence[str] | Callable[..., str],
    task: Task | None = None,
    env: type[ProgramEnv] = ProgramEnv,
    tool_format: ToolFormat | None = None,
    rewards: Sequence[RewardFn] = (),
    **options: Any,
) -> Trajectory:
    """One episode of a program.

    Args:
        script: what the policy says, action by action, or a function, as for `ScriptedPolicy`.
        task: what the program is asked; by default a small one.
        env: the environment `program`, or one that is derived from it.
        tool_format: reads the calls in what the policy says; None: as the options say.
        rewards: score the trajectory.
        options: those of the environment, such as `command` or `function`.

    Raises:
        AssertionError: the episode failed; the text is its reason.
    """
    config = env.Config(**options)
    form = tool_format_of(config) if tool_format is None else tool_format
    result = play_programs(
        lambda services: env(config, services), ScriptedPolicy(script), [task or make_task()], form, rewards
    )
    assert result.trajectories, result.dropped[0].reason
    return result.trajectories[0]


def tool_format_of(config: ProgramConfig) -> ToolFormat:
    """The tool format that the options name."""
    block = config.format
    loaded: Any = Registry.discover().load("tool_format", block.name)
    return loaded.cls(loaded.cls.Config(**block.config.model_dump()))


def echo(episode: Episode) -> dict[str, Any]:
    """An agent for tests: it asks its task, sends each reply back as a question, and ends after three."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": episode.task["prompt"]}]
    headers = {"authorization": f"Bearer {episode.api_key}"}
    with httpx2.Client(base_url=episode.base_url, headers=headers, timeout=60) as client:
        for _ in range(3):
            answer = client.post("chat/completions", json={"model": "policy", "messages": messages}).raise_for_status()
            said = answer.json()["choices"][0]["message"]
            messages += [said, {"role": "user", "content": f"You said: {said['content']}"}]
    return {"reward": 1.0, "answer": messages[-2]["content"]}
