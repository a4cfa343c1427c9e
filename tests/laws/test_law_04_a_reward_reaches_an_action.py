"""LAW 4: every reward lands on an action token, whatever the episode ended on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from algorithms import ALGORITHMS, REWARDED, make
from batches import batch_of
from contexts import every_context, noise
from gradients import update_gradients
from stage import Right, Stage, questions
from test_law_09_values_become_plain import SEEN, World

from agent_r1_core import EnvConfig, Step
from agent_r1_core.learning.batch import Batch
from agent_r1_core.testing import ScriptedPolicy, make_task, make_trajectory, random_group, tiny_model
from agent_r1_core.trajectory import EndStatus, Group

TWO_TURNS = (((1, 2, 3), (4, 5)), ((6, 7), (8, 9, 10)))


@pytest.mark.parametrize(
    ("episode", "expected"),
    [
        ({"turn_rewards": (0.25, 0.5)}, [0, 0, 0, 0, 0.25, 0, 0, 0, 0, 2.5]),
        ({"closing": (11, 12, 13)}, [0] * 9 + [2.0] + [0] * 3),
        ({"turn_rewards": (0.25, 0.0), "new_segment_at": (1,)}, [0, 0, 0, 0, 0.25, 0, 0, 0, 0, 2.0]),
        ({"status": EndStatus.TRUNCATED}, [0] * 9 + [2.0]),
    ],
    ids=["process_rewards", "a_tools_answer_ends_it", "the_last_segment", "truncated"],
)
def test_an_outcome_sits_on_the_last_action_token_and_a_process_reward_on_the_last_of_its_turn(
    episode: dict[str, Any], expected: list[float]
) -> None:
    assert batch_of(make_trajectory(TWO_TURNS, reward=2.0, **episode)).rewards.tolist() == [expected]


def test_a_turn_without_reward_is_still_a_turn_and_an_all_zero_trajectory_an_ordinary_one() -> None:
    batch = batch_of(make_trajectory(TWO_TURNS), make_trajectory(TWO_TURNS, turn_rewards=(0.0, 1.0)))
    assert batch.turn[0].tolist() == batch.turn[1].tolist() == [-1, -1, -1, 0, 0, -1, -1, 1, 1, 1]
    assert batch.returns.tolist() == [0.0, 1.0]
    assert not batch.rewards[0].any()


def test_credit_per_turn_counts_the_turns_that_earned_nothing_too() -> None:
    """Turns are the trajectory's own. By hand, with gamma_turn = 0.5: A = 0.25 - 1, 0.5 - 2 and 1 - 3 at the turns'
    first tokens, and the same targets at their other ones."""
    algorithm = make({"name": "turn_gae", "gamma_turn": 0.5, "whiten": False})
    batch = batch_of(make_trajectory((*TWO_TURNS, ((11,), (12, 13))), reward=1.0))
    batch.values = torch.tensor([[9, 9, 9, 1, 0.5, 9, 9, 2, 1.5, 1, 9, 3, 0]])
    advantages = algorithm.advantages(batch).advantages
    expected = [[0, 0, 0, -0.75, -0.25, 0, 0, -1.5, -1.0, -0.5, 0, -2.0, 1.0]]
    torch.testing.assert_close(advantages, torch.tensor(expected))


@every_context
def test_rewards_stand_on_the_steps_of_a_rewritten_context_and_on_no_summary(folder: Path, context: str) -> None:
    result, _ = noise(context, folder / "model")
    batch = Batch.from_groups(result.groups)
    for row, one in enumerate(batch.trajectories):
        assert one.reward > 0 or not any(turn.reward for turn in one.turns)
        actions = batch.action_mask[row].nonzero().flatten().tolist()
        expected = dict.fromkeys(actions, 0.0)
        for turn in one.turns:
            last = [place for place in actions if batch.turn[row, place] == turn.index][-1]
            assert turn.purpose == "action" or turn.rewards == {}
            expected[last] += turn.rewards.get("vowels", 0.0)
        expected[actions[-1]] += one.rewards["spoken"]
        torch.testing.assert_close(batch.rewards[row, actions], torch.tensor(list(expected.values())))
        assert not batch.rewards[row][~batch.action_mask[row]].any()


def test_no_reward_is_lost_and_none_stands_outside_the_action_mask() -> None:
    for seed in range(20):
        group = random_group(seed, 4, closing=(1, 2) if seed % 2 else ())
        batch = Batch.from_groups([group])
        torch.testing.assert_close(batch.rewards.sum(1), torch.tensor(group.returns))
        assert not batch.rewards[~batch.action_mask].any()


@pytest.mark.parametrize(
    ("budget", "said", "expected"),
    [({"max_turns": 2}, "yes", 1.0), ({"max_turns": 1}, "yes", 0.0), ({"max_tokens": 70}, "yes " * 99, 0.0)],
)
def test_who_runs_out_of_budget_is_scored_as_one_who_gave_no_answer(budget, said, expected):
    """The world answers the first action, and is content with the second."""
    paid, config = Step(SEEN, reward=0.25), EnvConfig(**budget)
    env = {"make_env": lambda services: World(config, services, lambda: paid)}
    groups = Stage(ScriptedPolicy([said]), rewards=[Right()], **env).play(questions(1)).groups
    (one,) = groups[0].trajectories
    assert (one.reward, one.rewards) == (expected, {"right": expected})
    batch = Batch.from_groups(groups)
    last = int(batch.action_mask[0].nonzero().max())
    assert batch.rewards[0, last] == expected + one.turns[-1].reward
    assert batch.rewards.sum() == expected + 0.25


@pytest.mark.parametrize("name", REWARDED)
def test_the_outcome_moves_the_gradient_though_a_tool_had_the_last_word(name: str) -> None:
    def groups(rewards: tuple[float, float]) -> list[Group]:
        each = [{"sample": sample, "closing": (7, 8), "reward": reward} for sample, reward in enumerate(rewards)]
        made = [make_trajectory((((1, 2), (5 + one["sample"],)),), **one) for one in each]
        return [Group(make_task(), made, baseline=make_trajectory(reward=0.5, baseline=True))]

    better, worse = (update_gradients(tiny_model(), ALGORITHMS[name], groups(r))[0] for r in ((1.0, 0.0), (0.0, 1.0)))
    assert better.norm() > 1e-6
    assert (better - worse).norm() > 0.1 * better.norm()
