"""How much actions depend on thoughts: which turns are measured, where they are cut, and what a real model says."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from agent_r1_grpo.grpo import GRPO

from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.health.thoughts import Thoughts, thought_effect
from agent_r1_core.learning.learner import Learner
from agent_r1_core.learning.policy import Policy
from agent_r1_core.models import load_policy_model
from agent_r1_core.testing import make_task, make_trajectory
from agent_r1_core.trajectory import Group


def decode(ids: Sequence[int]) -> str:
    """Tags in several tokens; 9 is the end of one tag and the beginning of the next word, as some tokenizers have it."""
    return "".join({1: "<th", 2: "ink>", 3: "</thi", 4: "nk>", 9: "nk>x"}.get(one, f"w{one} ") for one in ids)


def group(name: str, *actions: Sequence[int], context: Sequence[int] = (50, 51)) -> Group:
    task = make_task(name)
    return Group(task, [make_trajectory([(context, one)], task=task, sample=n) for n, one in enumerate(actions)])


def test_a_turn_is_cut_where_the_tokens_of_its_tags_are() -> None:
    (first, second) = Thoughts.of([group("a", [1, 2, 20, 21, 3, 4, 30]), group("b", [20, 22, 3, 9, 31, 1, 2, 5])], decode).turns
    assert first == ([[50, 51, 1, 2, *thought, 3, 4] for thought in ([20, 21], [], [20, 22])], [30])
    assert second == ([[50, 51, *thought, 3, 9] for thought in ([20, 22], [], [20, 21])], [31, 1, 2, 5])


def test_other_thoughts_are_of_other_tasks_where_they_can_be() -> None:
    nothing = ([20, 30], [1, 2, 20], [1, 2, 3, 4, 30], [1, 2, 20, 3, 4])
    assert Thoughts.of([group("a", [1, 2, 20, 3, 4, 30], *nothing)], decode) is None, "there is but one thought"
    alike = group("a", *[[1, 2, word, 3, 4, 30] for word in (20, 20, 21)])
    swapped = [prompts[2][4] for prompts, _ in Thoughts.of([alike], decode).turns]
    assert swapped == [21, 21, 20]
    groups = [alike, *(group(str(number), *[[1, 2, 60 + number, 3, 4, 30]] * 9) for number in range(9))]
    turns = Thoughts.of(groups, decode).turns
    assert [prompts[0][4] for prompts, _ in turns] == [20, 20, 21, *(60 + number for number in range(7) for _ in "1234")]
    assert [prompts[2][4] for prompts, _ in turns[:4]] == [60, 60, 60, 61]


def test_the_effect_is_the_least_of_both_per_token() -> None:
    thoughts = Thoughts([([[1], [2], [3]], [4, 5]), ([[1], [2], [3]], [6])])
    assert thought_effect([[-2.0, -8.0, -4.0], [-3.0, -2.0, -9.0]], thoughts) == pytest.approx((1.0 - 1.0) / 2)


@pytest.fixture(scope="module")
def learner() -> Learner:
    return Learner(Policy(load_policy_model(FOLDER, "float32")), GRPO(), TrainingConfig())
