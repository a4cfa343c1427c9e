"""LAW 4: process rewards of tools, environments and reward functions reach the loss, and repeating a rewarded call does
not beat solving the task."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from agent_r1_rewards.reasoning import Grounded, NewQuery, SupportedAnswer
from algorithms import ALGORITHMS, NAMES, REWARDED
from bad_tools import PaidLookup
from stage import Right, Stage, call, questions

from agent_r1_core import RewardFn, Trajectory, Turn
from agent_r1_core.contracts.algorithm import Algorithm
from agent_r1_core.learning.batch import Batch
from agent_r1_core.rollout import ToolReward, WeightedReward
from agent_r1_core.testing import ScriptedPolicy, make_trajectory
from agent_r1_core.testing.scripted import Cue
from agent_r1_core.trajectory import Group

TURNS = 5


class Found(RewardFn):
    """1 when what followed the action names the town."""

    name = "found"
    scope = "turn"

    def score_turn(self, turn: Turn, trajectory: Trajectory) -> float:
        return float(any("Tavelo" in message["content"] for message in trajectory.closing))


CALL = call("lookup", name="Name0")
UNPAID = ToolReward(0.0)


def last_tokens(batch: Batch, row: int) -> list[int]:
    """Where the last action token of each turn stands."""
    turns = batch.turn[row]
    return [int((turns == turn).nonzero().max()) for turn in range(int(turns.max()) + 1)]


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_a_tools_reward_stands_on_the_last_action_token_of_its_turn(isolation: str) -> None:
    options: dict[str, Any] = {"isolation": {"lookup": isolation}, "tool_rewards": {"lookup": ToolReward(0.25)}}
    policy = ScriptedPolicy([CALL + CALL, "hm", CALL])
    stage = Stage(policy, [PaidLookup()], env={"max_turns": 3}, **options)
    groups = stage.play(questions(1)).groups
    (one,) = groups[0].trajectories
    assert [turn.rewards for turn in one.turns] == [{"env": 0.0, "lookup": paid} for paid in (2.0, 0.0, 1.0)]
    assert one.closing, "the episode ends on the tool's answer"
    batch = Batch.from_groups(groups)
    ends = last_tokens(batch, 0)
    assert batch.rewards[0, ends].tolist() == batch.process_rewards[0, ends].tolist() == [0.5, 0.0, 0.25]
    assert float(batch.rewards.sum()) == 0.75


def test_a_process_reward_sees_what_followed_the_action_also_in_the_last_turn() -> None:
    stage = Stage(ScriptedPolicy([CALL, "hm", CALL]), [PaidLookup()], env={"max_turns": 3}, rewards=[Found()])
    (one,) = stage.play(questions(1)).groups[0].trajectories
    assert [turn.rewards["found"] for turn in one.turns] == [1.0, 0.0, 1.0]
    assert sum("Tavelo" in message["content"] for message in one.messages()) == 2, "it stands once, in the next turn"


def farming(actions: list[str]) -> ScriptedPolicy:
    """Every other sample does this until its turns run out; the others call once and answer."""

    def act(cue: Cue) -> str:
        sample = int(cue.request.episode.split("/")[-2])
        return actions[cue.turn] if sample % 2 else (CALL if cue.turn == 0 else "<answer>Tavelo</answer>")

    return ScriptedPolicy(act)


def played(policy: ScriptedPolicy, *rewards: WeightedReward, tool: ToolReward = UNPAID) -> list[Group]:
    """Two groups of farmers and solvers, with these rewards beside that of the right answer."""
    given: list[Any] = [Right(), *rewards]
    env, paid = {"max_turns": TURNS}, {"lookup": tool}
    stage = Stage(policy, [PaidLookup()], env=env, rewards=given, tool_rewards=paid)
    groups = stage.play(questions(2), samples=4).groups
    for group in groups:
        group.baseline = make_trajectory(reward=0.5, baseline=True)
    return groups


def first_advantages(algorithm: Algorithm, groups: list[Group], **weights: float) -> torch.Tensor:
    """What each trajectory's first action token is credited with, under a critic that knows nothing; [n]."""
    batch = Batch.from_groups(algorithm.filter(groups), weights)
    zeros = torch.zeros(batch.ids.shape)
    batch.values = batch.old_logprobs = batch.reference_logprobs = zeros
    advantages = algorithm.advantages(batch).advantages
    return advantages.gather(1, batch.action_mask.int().argmax(1, keepdim=True))[:, 0]


@pytest.mark.parametrize("name", [*(name for name in NAMES if name in REWARDED), "ppo_turns", "reinforce_pp_turns"])
@pytest.mark.parametrize("source", ["tool", "reward"])
def test_repeating_a_rewarded_call_does_not_beat_solving_the_task(name: str, source: str) -> None:
    """With a cap of one call, solving is worth more. Without it farming would be: the play is one that can tell. GDPO
    gives a reward no more than its weight, however much it pays."""
    for cap, solving_wins in ((1.0, True), (None, name == "gdpo")):
        if source == "tool":
            groups = played(farming([CALL] * TURNS), tool=ToolReward(0.5, cap))
        else:
            groups = played(farming([CALL] * TURNS), WeightedReward(Found(), 0.5, cap=cap))
        earned = [sum(turn.reward for turn in one.turns) for one in groups[0].trajectories]
        assert earned == ([0.5] * 4 if cap else [0.5, 0.5 * TURNS] * 2)
        assert [one.reward for one in groups[0].trajectories] == [1.0, 0.0] * 2
        credit = first_advantages(ALGORITHMS[name], groups, found=0.5, lookup=0.5 * (source == "tool"))
        solved, farmed = credit[::2], credit[1::2]
        assert len(solved) >= 2
        assert (solved > farmed).all() if solving_wins else (solved < farmed).all()


FARMS: dict[str, tuple[type[RewardFn], list[str], float, float]] = {
    "ever new calls": (NewQuery, [call("lookup", name=f"Other{turn}") for turn in range(TURNS)], 1.0, 0.25),
    "a word of the prompt": (SupportedAnswer, ["<answer>born</answer>"], 1.0, 1.0),
    "an echo": (SupportedAnswer, [call("lookup", name="Zorblax"), "<answer>Zorblax</answer>"], 0.0, 1.0),
    "silence": (Grounded, ["hm"] * TURNS, 0.0, 0.0),
    "an invented name": (Grounded, ["<think>Zorblax</think>" + call("lookup", name="Zorblax")] * TURNS, -1.0, 0.0),
}
"""A reward of reasoning, the actions that farm it, and what it gives them and those that solve the task."""


@pytest.mark.parametrize("farm", FARMS)
def test_farming_a_reward_of_reasoning_does_not_beat_solving_the_task(farm: str) -> None:
    """`process_scale` makes small rewards as large as it says, so that four new calls are worth more than the cap."""
    cls, actions, farmed_score, solved_score = FARMS[farm]
    reward = cls()
    reward.name = "reasoning"
    groups = played(farming(actions), WeightedReward(reward, 0.5))
    earned = [sum(turn.rewards["reasoning"] for turn in one.turns) for one in groups[0].trajectories]
    assert earned == [solved_score, farmed_score] * 2
    scaled = [] if farm == "ever new calls" else ["ppo_turns", "reinforce_pp_turns"]
    for name in (*(name for name in NAMES if name in REWARDED), *scaled):
        credit = first_advantages(ALGORITHMS[name], groups, reasoning=0.5)
        assert (credit[::2] > credit[1::2]).all(), name
