"""Contract tests of a ToolEnv."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, ClassVar

from agent_r1_core.contracts.env import Action, EnvServices, Step, ToolEnv
from agent_r1_core.contracts.tool import Tool, ToolContext
from agent_r1_core.contracts.tool_format import ToolCall, ToolFormat, ToolResult
from agent_r1_core.rollout.env_checks import observation_of, step_of
from agent_r1_core.testing.contracts.base import ComponentContract, run, settle
from agent_r1_core.testing.trajectories import make_task
from agent_r1_core.tools.answer import to_text
from agent_r1_core.tools.plain import Unfit
from agent_r1_core.trajectory import Task

NOISE = ("", " ", "\n\n", "no sense at all", "<answer>", "</tool_call>", '{"name": 1}', "\x00", "x" * 5000, "🙂")
"""Malformed actions that a policy may produce; an environment answers them with an observation."""


class ToolEnvContract(ComponentContract):
    """Set `component` and `actions`; set `task` and `tools` if it needs them."""

    kind = "env"
    actions: ClassVar[Sequence[str]] = ()
    """Actions, turn by turn, that end an episode of `task`."""
    task: ClassVar[Task] = make_task()
    tools: ClassVar[Sequence[Tool]] = ()
    tool_format: ClassVar[ToolFormat | None] = None

    def services(self, seed: int = 0) -> EnvServices:
        """What the environment uses; tools are called one after the other, without time-outs."""
        tools = {tool.name: tool for tool in self.tools}
        rng = random.Random(seed)

        async def call_tools(calls: Sequence[ToolCall]) -> list[ToolResult]:
            return [await _call(tools, call, ToolContext("episode", 0, self.task, rng)) for call in calls]

        return EnvServices(tools, self.tool_format, call_tools, rng)

    def make(self, seed: int = 0) -> Any:
        """An instance with `config` and `services(seed)`."""
        instance = self.component(
            self.component.Config.model_validate(dict(self.config)),
            self.services(seed),  # type: ignore[call-arg]
        )
        instance.name = self.name
        return instance

    def test_an_episode_comes_to_its_end(self) -> None:
        episode = run(_play(self.make(), self.task, self.actions))
        last = episode[-1]
        assert isinstance(last, Step), "set `actions` to actions that end an episode"
        assert last.terminated or last.truncated, f"after {len(self.actions)} actions the episode goes on"

    def test_every_observation_and_step_is_well_formed(self) -> None:
        first, *steps = run(_play(self.make(), self.task, self.actions))
        _check_observation(first)
        assert first.messages, "reset shows the policy no message"
        for step in steps:
            _check_step(step)
        rewarded = any(step.reward for step in steps)
        assert self.component.gives_rewards or not rewarded, (  # type: ignore[attr-defined]
            "a step has a reward, and gives_rewards is False; leave it True"
        )

    def test_noise_is_answered_and_never_raises(self) -> None:
        for text in NOISE:
            for cut in (False, True):
                steps = run(_play(self.make(), self.task, [text], cut))[1:]
                assert steps, f"the episode ended before the action {text[:20]!r}"
                _check_step(steps[0])
                if not (steps[0].terminated or steps[0].truncated):
                    assert steps[0].observation.messages, f"the action {text[:20]!r} got no message in answer (LAW 8)"

    def test_the_same_seed_and_actions_give_the_same_episode(self) -> None:
        once, again = (run(_play(self.make(), self.task, self.actions)) for _ in range(2))
        assert _values(once) == _values(again), "two episodes with one seed differ; draw from services.rng (LAW 11)"

    def test_every_episode_of_a_task_begins_alike(self) -> None:
        begun = [run(_play(self.make(seed), self.task, ()))[0].messages for seed in range(3)]
        assert all(messages == begun[0] for messages in begun), (
            "episodes of one task begin differently, so their rewards cannot be compared; draw the start from "
            "task.seed and not from services.rng (LAW 7)"
        )

    def test_instances_share_nothing(self) -> None:
        alone = run(_play(self.make(), self.task, self.actions))
        first, second = self.make(), self.make()

        async def interleaved() -> list[Any]:
            observations = [await settle(env.reset(deepcopy(self.task))) for env in (first, second)]
            steps = []
            for text in self.actions:
                steps.append([await settle(env.step(Action(text))) for env in (first, second)])
                if steps[-1][0].terminated or steps[-1][0].truncated:
                    break
            for env in (first, second):
                await settle(env.close())
            return [observations[1], *(pair[1] for pair in steps)]

        assert _values(run(interleaved())) == _values(alone), "two episodes at once affect each other"

    def test_its_schemas_and_stop_strings_are_plain(self) -> None:
        env = self.make()
        json.dumps(env.tool_schemas())
        assert all(isinstance(stop, str) and stop for stop in env.stop_strings())


async def _call(tools: dict[str, Tool], call: ToolCall, context: ToolContext) -> ToolResult:
    try:
        tool = tools[call.name]
        answer = await settle(tool.run(tool.Arguments.model_validate(call.arguments), context))
    except Exception as error:
        return ToolResult(call.name, f"Error: {error}", error=True)
    return ToolResult(call.name, to_text(answer))


async def _play(env: ToolEnv, task: Task, actions: Sequence[str], cut: bool = False) -> list[Any]:
    """The first observation, then a step per action until the episode ends."""
    record: list[Any] = [await settle(env.reset(deepcopy(task)))]
    try:
        for text in actions:
            record.append(await settle(env.step(Action(text, cut=cut))))
            if record[-1].terminated or record[-1].truncated:
                break
    finally:
        await settle(env.close())
    return record


def _check_step(step: Any) -> None:
    try:
        step_of(step)
    except Unfit as unfit:
        raise AssertionError(f"step() {unfit}") from None
    _check_observation(step.observation)
    json.dumps(step.info)


def _check_observation(observation: Any) -> None:
    try:
        observation_of(observation)
    except Unfit as unfit:
        raise AssertionError(f"it {unfit}") from None


def _values(record: Sequence[Any]) -> list[Any]:
    """Observations and steps without their times."""
    first, *steps = record
    return [
        first,
        *((s.observation, s.reward, s.terminated, s.truncated, s.answer, s.success, s.errors) for s in steps),
    ]
