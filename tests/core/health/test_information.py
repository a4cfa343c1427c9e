"""What is measured of a rollout by the learner's scores: information in observations, and effects of thoughts."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch
from agent_r1_grpo.grpo import GRPO

from agent_r1_core.assembly.model_source import BUNDLED
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.health.information import FirstActions, mutual_information, retrieval_accuracy
from agent_r1_core.health.thoughts import compared_turns, thought_effect
from agent_r1_core.learning.learner import Learner
from agent_r1_core.learning.policy import Policy
from agent_r1_core.models import load_model
from agent_r1_core.testing import make_task, make_trajectory
from agent_r1_core.trajectory import Group


def by_hand(probabilities: list[list[float]], own: list[int]) -> float:
    shares = [row[mine] / (sum(row) / len(row)) for row, mine in zip(probabilities, own, strict=True)]
    return sum(math.log(share) for share in shares) / len(shares)


def test_information_is_that_of_plain_sums_and_within_the_bounds_of_its_definition_as_is_retrieval() -> None:
    rng = random.Random(0)
    for prompts in (2, 3, 8):
        own = [number % prompts for number in range(8 * prompts)]
        probabilities = [[rng.uniform(1e-6, 1.0) for _ in range(prompts)] for _ in own]
        logprobs = [[math.log(value) for value in row] for row in probabilities]
        assert mutual_information(logprobs, own) == pytest.approx(by_hand(probabilities, own), abs=1e-12)
    own = [0, 0, 1, 1, 2, 2]
    template = [[-40.0 - number] * 3 for number in range(6)]
    assert mutual_information(template, own) == pytest.approx(0.0)
    assert retrieval_accuracy(template, own) == pytest.approx(1 / 3)
    apart = [[-50.0 if column == prompt else -5000.0 for column in range(3)] for prompt in own]
    assert mutual_information(apart, own) == pytest.approx(math.log(3)), "far below what a float can hold"
    assert retrieval_accuracy(apart, own) == 1.0
    mixed = [[-1.0, -2.0, -3.0]] * 6
    assert retrieval_accuracy(mixed, own) == pytest.approx(2 / 6)
    assert retrieval_accuracy([[-1.0, -1.0, -3.0]], [1]) == 0.5
    for measure in (mutual_information, retrieval_accuracy):
        with pytest.raises(ValueError, match="zip"):
            measure(mixed, own[:-1])


def group(name: str, *episodes: tuple[list[int], list[int]]) -> Group:
    """Episodes with these prompts and first actions, and a second turn that nobody scores."""
    task = make_task(name)
    turns = [[pair, ([70, 71], [72])] for pair in episodes]
    return Group(task, [make_trajectory(pairs, task=task, sample=sample) for sample, pairs in enumerate(turns)])


def test_a_measurement_takes_first_actions_of_tasks_whose_prompts_differ() -> None:
    """At most eight prompts, and eight samples of each."""
    groups = [
        group("a", ([1, 2], [3]), ([1, 2], [4, 5])),
        group("same", ([1, 2], [6])),
        group("drawn", ([7], [8]), ([9], [8]), ([7], [10])),
    ]
    assert FirstActions.of(groups) == FirstActions([[1, 2], [7]], [[3], [4, 5], [8], [10]], [0, 0, 1, 1])
    assert FirstActions.of(groups[:2]) is FirstActions.of([]) is None
    anew = make_trajectory([([5], [6]), ([5], [7])], new_segment_at={1})
    chosen = FirstActions.of([groups[0], Group(anew.task, [anew])])
    first = FirstActions([[1, 2], [5]], [[3], [4, 5], [6]], [0, 0, 1])
    assert chosen == first, "a second turn is none, whatever it sees"
    many = [group(str(n), *[([n + 1], [sample + 20]) for sample in range(9)]) for n in range(9)]
    chosen = FirstActions.of(many)
    assert chosen.prompts == [[number + 1] for number in range(8)]
    assert chosen.actions == [[sample + 20] for _ in range(8) for sample in range(8)]
    assert chosen.own == [number // 8 for number in range(64)]


def decode(ids: Sequence[int]) -> str:
    """Tags in several tokens; 9 ends one tag and begins the next word, as some tokenizers have it."""
    return "".join({1: "<th", 2: "ink>", 3: "</thi", 4: "nk>", 9: "nk>x"}.get(one, f"w{one} ") for one in ids)


def acted(name: str, *actions: Sequence[int], context: Sequence[int] = (50, 51)) -> Group:
    task = make_task(name)
    return Group(task, [make_trajectory([(context, one)], task=task, sample=n) for n, one in enumerate(actions)])


def measured(*groups: Group) -> list[tuple[list[list[int]], list[int]]]:
    return compared_turns(groups, decode)


def test_a_turn_is_cut_at_its_tags_and_other_thoughts_are_of_other_tasks_where_they_can_be() -> None:
    first, second = measured(acted("a", [1, 2, 20, 21, 3, 4, 30]), acted("b", [20, 22, 3, 9, 31, 1, 2, 5]))
    assert first == ([[50, 51, 1, 2, *thought, 3, 4] for thought in ([20, 21], [], [20, 22])], [30])
    assert second == ([[50, 51, *thought, 3, 9] for thought in ([20, 22], [], [20, 21])], [31, 1, 2, 5])
    nothing = ([20, 30], [1, 2, 20], [1, 2, 3, 4, 30], [1, 2, 20, 3, 4])
    assert not measured(acted("a", [1, 2, 20, 3, 4, 30], *nothing)), "there is but one thought"
    alike = acted("a", *[[1, 2, word, 3, 4, 30] for word in (20, 20, 21)])
    swapped = [prompts[2][4] for prompts, _ in measured(alike)]
    assert swapped == [21, 21, 20]
    turns = measured(alike, *(acted(str(number), *[[1, 2, 60 + number, 3, 4, 30]] * 9) for number in range(9)))
    four_of_each = [60 + number for number in range(7) for _ in range(4)]
    assert [prompts[0][4] for prompts, _ in turns] == [20, 20, 21, *four_of_each]
    assert [prompts[2][4] for prompts, _ in turns[:4]] == [60, 60, 60, 61]


def test_the_effect_is_the_least_of_both_per_token() -> None:
    turns = [([[1], [2], [3]], [4, 5]), ([[1], [2], [3]], [6])]
    assert thought_effect([[-2.0, -8.0, -4.0], [-3.0, -2.0, -9.0]], turns) == pytest.approx((1.0 - 1.0) / 2)


def effect(model: Any, tokenizer: ChatTokenizer, actions: Sequence[str]) -> float:
    """The effect in these turns, each of another task, as the learner scores them."""
    prompts = [f"<|im_start|>user\nWho directed {film}?<|im_end|>\n<|im_start|>assistant\n" for film in FILMS]
    encode = partial(tokenizer.raw.encode, add_special_tokens=False)
    pairs = zip(prompts, actions, strict=True)
    groups = [acted(prompt, encode(action + "<|im_end|>"), context=encode(prompt)) for prompt, action in pairs]
    turns = compared_turns(groups, tokenizer.decode)
    scores = Learner(Policy(model), GRPO(), TrainingConfig()).score([(three, [one]) for three, one in turns])
    return thought_effect([row for family in scores for row in family.tolist()], turns)


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
