"""How much actions depend on thoughts: which turns are measured, where they are cut, and what a real model says."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch
from agent_r1_grpo.grpo import GRPO

from agent_r1_core.assembly.model_source import BUNDLED
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.health.thoughts import Thoughts, thought_effect
from agent_r1_core.learning.learner import Learner
from agent_r1_core.learning.policy import Policy
from agent_r1_core.models import load_model
from agent_r1_core.testing import make_task, make_trajectory
from agent_r1_core.trajectory import Group


def decode(ids: Sequence[int]) -> str:
    """Tags in several tokens; 9 ends one tag and begins the next word, as some tokenizers have it."""
    return "".join({1: "<th", 2: "ink>", 3: "</thi", 4: "nk>", 9: "nk>x"}.get(one, f"w{one} ") for one in ids)


def group(name: str, *actions: Sequence[int], context: Sequence[int] = (50, 51)) -> Group:
    task = make_task(name)
    return Group(task, [make_trajectory([(context, one)], task=task, sample=n) for n, one in enumerate(actions)])


def measured(*groups: Group) -> list[tuple[list[list[int]], list[int]]]:
    found = Thoughts.of(groups, decode)
    return [] if found is None else found.turns


def test_a_turn_is_cut_where_the_tokens_of_its_tags_are() -> None:
    first, second = measured(group("a", [1, 2, 20, 21, 3, 4, 30]), group("b", [20, 22, 3, 9, 31, 1, 2, 5]))
    assert first == ([[50, 51, 1, 2, *thought, 3, 4] for thought in ([20, 21], [], [20, 22])], [30])
    assert second == ([[50, 51, *thought, 3, 9] for thought in ([20, 22], [], [20, 21])], [31, 1, 2, 5])


def test_other_thoughts_are_of_other_tasks_where_they_can_be() -> None:
    nothing = ([20, 30], [1, 2, 20], [1, 2, 3, 4, 30], [1, 2, 20, 3, 4])
    assert not measured(group("a", [1, 2, 20, 3, 4, 30], *nothing)), "there is but one thought"
    alike = group("a", *[[1, 2, word, 3, 4, 30] for word in (20, 20, 21)])
    swapped = [prompts[2][4] for prompts, _ in measured(alike)]
    assert swapped == [21, 21, 20]
    turns = measured(alike, *(group(str(number), *[[1, 2, 60 + number, 3, 4, 30]] * 9) for number in range(9)))
    assert [prompts[0][4] for prompts, _ in turns] == [
        20,
        20,
        21,
        *(60 + number for number in range(7) for _ in "1234"),
    ]
    assert [prompts[2][4] for prompts, _ in turns[:4]] == [60, 60, 60, 61]


def test_the_effect_is_the_least_of_both_per_token() -> None:
    thoughts = Thoughts([([[1], [2], [3]], [4, 5]), ([[1], [2], [3]], [6])])
    assert thought_effect([[-2.0, -8.0, -4.0], [-3.0, -2.0, -9.0]], thoughts) == pytest.approx((1.0 - 1.0) / 2)


def effect(model: Any, tokenizer: ChatTokenizer, actions: Sequence[str]) -> float:
    """The effect in these turns, each of another task, as the learner scores them."""
    prompts = [f"<|im_start|>user\nWho directed {film}?<|im_end|>\n<|im_start|>assistant\n" for film in FILMS]
    encode = partial(tokenizer.raw.encode, add_special_tokens=False)
    pairs = zip(prompts, actions, strict=True)
    groups = [group(prompt, encode(action + "<|im_end|>"), context=encode(prompt)) for prompt, action in pairs]
    thoughts = Thoughts.of(groups, tokenizer.decode)
    scores = Learner(Policy(model), GRPO(), TrainingConfig()).score([(three, [one]) for three, one in thoughts.turns])
    return thought_effect([row for family in scores for row in family.tolist()], thoughts)


FILMS, NAMES = ("Mira", "Doran", "Velo"), ("Tavelo", "Brinor", "Kasmet")
COPYING = [f"<think>The director is {name}</think><answer>{name}</answer>" for name in NAMES]


@pytest.mark.slow
def test_an_action_that_copies_its_thought_scores_high_and_one_that_cannot_see_it_zero() -> None:
    """The bundled model, and the same without attention, which knows of a token nothing but the one before it."""
    model, tokenizer = load_model(BUNDLED / "tiny", torch.float32), ChatTokenizer.from_folder(BUNDLED / "tiny")
    other = [action.replace(f"<answer>{name}", "<answer>unknown") for action, name in zip(COPYING, NAMES, strict=True)]
    assert effect(model, tokenizer, COPYING) > 2.0
    assert effect(model, tokenizer, other) < 0.0, "an action against its thought is likelier without it"
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if "o_proj" in name:
                weights.zero_()
    assert effect(model, tokenizer, COPYING) == pytest.approx(0.0, abs=1e-4)
