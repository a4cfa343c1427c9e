"""Rewards that tools give their calls: from threads and processes into the turn, within range and cap."""

from __future__ import annotations

import asyncio
import logging
import math
from dataclasses import replace
from typing import Any

import misbehaving_tools
import pytest
from bad_tools import RELEASE
from tool_calls import run

from agent_r1_core import RewardFn, Task, ToolCall, ToolEnv, ToolResources, tool
from agent_r1_core.contracts.reward import in_range
from agent_r1_core.errors import ConfigError, EpisodeError
from agent_r1_core.rollout import RolloutSettings, ToolReward, WeightedReward
from agent_r1_core.rollout.scoring import Scorer
from agent_r1_core.rollout.world import EpisodeTools
from agent_r1_core.testing import make_trajectory
from agent_r1_core.tools.threads import ThreadPool
from agent_r1_core.tools.tool_runner import ToolRunner


def played(calls: list[tuple[str, dict[str, Any]]], isolation: str, timeout: float = 60.0) -> list[Any]:
    """The calls' results."""
    instances = {name: getattr(misbehaving_tools, name)() for name, _ in calls}
    return run(ToolRunner(instances, dict.fromkeys(instances, timeout), dict.fromkeys(instances, isolation)), *calls)


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_a_call_earns_what_its_tool_gave_it_unless_it_broke(isolation):
    given = [{"value": 0.25}, {"value": 0.25, "times": 3}, {"value": -1.0, "end": "refuse"}]
    given += [{"value": 1.0, "end": "break"}]
    calls = [*(("paid", one) for one in given), ("paid_later", {"value": True}), ("paid", {"value": "much"})]
    results = played(calls, isolation)
    assert [result.reward for result in results] == [0.25, 0.75, -1.0, 0.0, 1.0, 0.0]
    assert [result.error for result in results] == [False, False, True, True, False, True]


def test_a_call_that_was_given_up_earns_nothing():
    RELEASE.clear()
    (result,) = played([("paid", {"value": 1.0, "end": "hang"})], "thread", 0.05)
    RELEASE.set()
    assert (result.error, result.reward) == (True, 0.0)


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_a_reward_that_may_not_be_given_fails_its_call_and_is_told_once(isolation, caplog):
    caplog.set_level(logging.WARNING)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("paid", {"value": 0.75, "times": 2}),
        ("paid", {"value": -3}),
        ("paid_later", {"value": float("nan")}),
        ("paid_later", {"value": "a lot"}),
        ("undeclared", {}),
    ]
    results = played(calls, isolation)
    assert [result.reward for result in results] == [0.0] * 5
    outside = "{} failed with ValueError: it gave a reward of {}, outside its reward_range {} to 1; fix one of them."
    assert [result.text for result in results] == [
        "Error: " + outside.format("paid", 1.5, -1),
        "Error: " + outside.format("paid", -3, -1),
        "Error: " + outside.format("paid_later", "nan", 0),
        "Error: paid_later failed with TypeError: context.reward() got 'a lot', which is not a number.",
        "Error: undeclared failed with ValueError: it gave a reward of 0.5 but declares no reward_range; declare one.",
    ]
    told = [record.message for record in caplog.records if "such calls fail and earn nothing" in record.message]
    assert sorted(sentence.partition(" gave ")[0] for sentence in told) == [
        "tool paid",
        "tool paid_later",
        "tool undeclared",
    ]


async def test_a_turn_gets_the_rewards_of_its_own_calls():
    """Those of an earlier turn that end too late are lost, and so are those before the first action."""
    runner = ToolRunner({"paid": misbehaving_tools.paid()}, {"paid": 60.0})
    turns = make_trajectory([((1,), (2,))] * 3).turns

    await runner.start(ToolResources(""))
    episode = EpisodeTools(runner, "e", Task("t", "?"), 1)
    try:
        await episode([ToolCall("paid", {"value": 1.0})])
        for turn in turns:
            episode.begin_turn(turn)
            await episode([ToolCall("paid", {"value": 0.25}), ToolCall("paid", {"value": 0.5})])
            late = asyncio.create_task(episode([ToolCall("paid", {"value": 1.0})]))
            await asyncio.sleep(0)
            episode.end_turn()
            await late
    finally:
        await runner.close()
    assert [turn.rewards for turn in turns] == [{"paid": 0.75}] * 3


class Polite(RewardFn):
    """Scores that the test sets."""

    name = "polite"
    scope = "turn"
    range = (-2.0, 2.0)
    scores: tuple[float, ...] = ()

    def score_turn(self, turn: Any, trajectory: Any) -> float:
        return self.scores[turn.index]


def scored(scorer: Scorer, turns: int, calls: Any = None) -> Any:
    trajectory = make_trajectory([((1,), (2,)) for _ in range(turns)])
    played, trajectory.turns = trajectory.turns, []
    for turn in played:
        trajectory.turns.append(turn)
        turn.rewards.update({} if calls is None else calls[turn.index])
        asyncio.run(scorer.score_turn(turn, trajectory))
    return trajectory


@pytest.mark.parametrize(
    ("scores", "paid"),
    [
        ((0.75, 0.75, 0.75), [0.75, 0.25, 0.0]),
        ((-2.0, 0.5, 2.0), [-1.0, 0.5, 1.5]),
        ((-0.75, -0.75, 0.25), [-0.75, -0.25, 0.25]),
        ((0.25, 0.25, 0.25), [0.25, 0.25, 0.25]),
    ],
)
def test_a_cap_bounds_what_a_reward_adds_up_to(scores, paid):
    reward = Polite()
    reward.scores, reward.cap = scores, 1.25  # type: ignore[misc]
    trajectory = scored(Scorer([WeightedReward(reward, 0.5, cap=1.0)], ThreadPool(1)), 3)
    assert [turn.rewards["polite"] for turn in trajectory.turns] == paid
    assert [turn.reward for turn in trajectory.turns] == [0.5 * value for value in paid]


def test_only_tools_that_declare_a_range_give_rewards_and_a_function_needs_a_context_for_it():
    tools = {"paid": misbehaving_tools.paid(), "lookup": misbehaving_tools.lookup()}
    settings = RolloutSettings(lambda services: ToolEnv(None, services), ToolRunner(tools))
    assert settings.rewarding_tools() == {"paid": ToolReward()}
    assert replace(settings, tool_rewards={"paid": ToolReward(2.0)}).rewarding_tools() == {"paid": ToolReward(2.0)}
    assert RolloutSettings(settings.make_env).rewarding_tools() == {}

    with pytest.raises(TypeError, match="tool silent has a reward_range; add a parameter `context`"):

        @tool(reward_range=(0.0, 1.0))
        def silent() -> str:
            """Say nothing."""
            return ""


def test_what_several_sources_give_a_turn_adds_up_and_a_score_outside_its_range_fails_the_episode_before_any_cap():
    """Of the cap that a reward declares and that of the recipe the lower one holds."""
    first, second = Polite(), Polite()
    second.name = "kind"
    first.scores, second.scores = (0.25, 0.25), (1.0, 1.0)
    second.cap = 1.5  # type: ignore[misc]
    rewards = [WeightedReward(first), WeightedReward(second, 2.0, cap=2.0)]
    scorer = Scorer(rewards, ThreadPool(1), {"lookup": ToolReward(0.5)})
    trajectory = scored(scorer, 2, [{"lookup": 1.0}, {"lookup": -1.0}])
    assert [turn.reward for turn in trajectory.turns] == [0.5 + 0.25 + 2.0, -0.5 + 0.25 + 1.0]
    assert [turn.rewards["kind"] for turn in trajectory.turns] == [1.0, 0.5]

    reward = Polite()
    reward.scores = (3.0,)
    with pytest.raises(EpisodeError, match="is 3, outside its declared range -2 to 2"):
        scored(Scorer([WeightedReward(reward, cap=1.0)], ThreadPool(1)), 1)


@pytest.mark.parametrize(
    ("rewards", "tools", "sentence"),
    [
        (["polite", "polite"], [], "reward 'polite' is listed twice"),
        (["polite"], ["polite"], "a reward and a tool that gives rewards are both named 'polite'"),
        (["mean"], [], "a reward is named 'mean'.*rename it"),
        ([], ["env"], "a reward is named 'env'.*rename it"),
    ],
)
def test_names_that_would_be_mixed_up_are_refused(rewards, tools, sentence):
    made = [Polite() for _ in rewards]
    for reward, name in zip(made, rewards, strict=True):
        reward.name = name
    with pytest.raises(ConfigError, match=sentence):
        Scorer([WeightedReward(reward) for reward in made], ThreadPool(1), {name: ToolReward() for name in tools})


@pytest.mark.parametrize(
    ("reward", "inside"),
    [(-1.0, True), (2.0, True), (2 + 5e-7, True), (-1 - 5e-7, True), (2.00001, False), (-1.00001, False)],
)
def test_a_range_holds_but_for_rounding_and_never_what_is_not_finite(reward, inside):
    assert in_range(reward, (-1.0, 2.0)) is inside
    assert not any(in_range(odd, (-math.inf, math.inf)) for odd in (math.inf, -math.inf, math.nan))
