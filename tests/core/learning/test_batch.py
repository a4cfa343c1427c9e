"""How trajectories are laid out and packed, cut into micro-batches and dealt to ranks, and where rewards land."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import torch
from batches import batch_of

from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.critic import Critic
from agent_r1_core.learning.packing import PrefixForest, deal, idle, micro_batches, pack, passes
from agent_r1_core.learning.policy import Policy
from agent_r1_core.learning.ranks import ONE_RANK
from agent_r1_core.testing import make_task, make_trajectory, random_group, tiny_model
from agent_r1_core.trajectory import Group

TWO_TURNS = (((1, 2, 3), (4, 5)), ((6, 7), (8, 9, 10)))


def test_segments_follow_one_another_in_a_row_and_numbers_go_back_without_padding() -> None:
    trajectory = make_trajectory(TWO_TURNS, new_segment_at=(1,), closing=(11,), turn_rewards=(0.5, 0.0), reward=2.0)
    batch = batch_of(trajectory)
    assert batch.ids.tolist() == [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]]
    assert batch.action_mask.int().tolist() == [[0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0]]
    assert batch.response_mask.int().tolist() == [[0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 1]]
    assert batch.turn.tolist() == [[-1, -1, -1, 0, 0, -1, -1, 1, 1, 1, -1]]
    assert batch.rewards.tolist() == [[0, 0, 0, 0, 0.5, 0, 0, 0, 0, 2.0, 0]]
    assert batch.returns.tolist() == [2.5]
    trajectory = make_trajectory(TWO_TURNS, new_segment_at=(1,), sample=3)
    batch = batch_of(trajectory, make_trajectory(sample=4))
    numbers = batch.numbers(batch.ids.float(), values=batch.ids * 0.5)
    told = numbers.of("task/3")
    assert told["advantages"].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    assert told["learner_logprobs"] is None
    assert told["values"].tolist() == [0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5]
    assert numbers.of("task/4")["advantages"].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert set(numbers.of("task/5").values()) == {None}


def test_the_reward_of_an_empty_action_goes_to_the_action_before_it_or_else_after_it() -> None:
    middle = make_trajectory((((1,), (2, 3)), ((4,), ()), ((5,), (6,))), turn_rewards=(0.5, 7.0, 0.0))
    first = make_trajectory((((1,), ()), ((5,), (6, 7))), turn_rewards=(7.0, 0.0))
    touching = make_trajectory((((1,), (2, 3)), ((4,), ()), ((), (6,))), turn_rewards=(0.5, 7.0, 0.0))
    assert batch_of(middle).rewards.tolist() == [[0, 0, 7.5, 0, 0, 0]]
    assert batch_of(touching).rewards.tolist() == [[0, 0, 7.5, 0, 0]]
    assert batch_of(first).rewards.tolist() == [[0, 0, 7.0, 0]]
    silent = batch_of(make_trajectory((((1, 2), ()),), reward=-1.0))
    assert silent.returns.tolist() == [-1.0], "without any action there is a return, and no reward to place"
    assert not silent.rewards.any()


def test_a_trajectory_that_contradicts_itself_is_refused() -> None:
    wrong = make_trajectory(TWO_TURNS)
    wrong.turns[1].start -= 1  # a token of the environment
    for one, said in ((wrong, "turn 1"), (make_trajectory((((), (1, 2)),)), "begins with an action")):
        with pytest.raises(ValueError, match=said):
            batch_of(one)


def test_micro_batches_keep_the_budget_cut_no_trajectory_and_keep_the_rows_of_a_group_together() -> None:
    def cut(batch: Batch, rows: Sequence[int], max_tokens: int, share: bool) -> list[list[int]]:
        return [packed.rows.tolist() for packed in micro_batches(batch, rows, max_tokens, share)]

    alike = batch_of(*(make_trajectory(TWO_TURNS) for _ in range(5)))
    assert cut(alike, range(5), 25, False) == [[0, 1], [2, 3], [4]]
    assert cut(alike, [4, 0], 3, False) == [[4], [0]]
    assert cut(alike, [], 3, False) == []
    assert cut(alike, range(5), 10, True) == [[0, 1, 2, 3, 4]]
    played = [[make_trajectory((((n, 50, 60, 70), (80 + i,)),), sample=i) for i in range(3)] for n in (1, 2)]
    groups = Batch.from_groups([Group(make_task(str(number)), made) for number, made in enumerate(played)])
    assert [sorted(part) for part in cut(groups, [5, 0, 3, 2, 4, 1], 7, True)] == [[0, 1, 2], [3, 4, 5]]
    assert [one.rows.tolist() for one in passes(groups, [5, 0, 1], 10_000, True, ONE_RANK)] == [[0, 1, 5]]


@pytest.mark.parametrize("seed", range(5))
def test_the_cost_of_a_sequence_is_what_it_adds(seed: int) -> None:
    """Of random sequences over two ids, so that many begin alike."""
    forest, rng = PrefixForest(), random.Random(seed)
    for _ in range(20):
        key, ids = rng.randrange(2), [rng.randrange(2) for _ in range(rng.randint(1, 9))]
        cost, before = forest.cost([ids], key), forest.tokens
        forest.add(ids, key)
        assert forest.tokens - before == cost


@pytest.fixture(scope="module")
def batch() -> Batch:
    return Batch.from_groups([random_group(seed, 2 + seed % 4, longest=4 + 5 * seed) for seed in range(9)])


@pytest.mark.parametrize("share", [True, False])
def test_groups_stay_whole_and_ranks_end_together(batch: Batch, share: bool) -> None:
    def computed(rows: list[int]) -> int:
        return len(pack(batch, rows, share).tree.ids)

    largest = max(computed(hand) for hand in deal(batch, range(batch.size), share, 9))
    for size in (2, 3, 4):
        hands = deal(batch, range(batch.size), share, size)
        assert sorted(row for hand in hands for row in hand) == list(range(batch.size))
        assert sum(len({int(batch.group[row]) for row in hand}) for hand in hands) == 9
        loads = [computed(hand) for hand in hands]
        assert max(loads) - min(loads) < largest
        assert max(loads) < 1.2 * sum(loads) / size
    equal = Batch.from_groups([random_group(0, 2), random_group(0, 2)])
    assert deal(equal, [3, 1, 2, 0], True, 4) == [[1, 0], [3, 2], [], []], "rows in any order, the first ranks first"


@pytest.mark.parametrize("share", [True, False])
def test_what_begins_alike_is_computed_once_unless_nothing_is_shared(share: bool) -> None:
    batch = batch_of(*(make_trajectory((((1, 2, 3), (sample,)),), sample=sample) for sample in (7, 8, 9)))
    packed = pack(batch, range(3), share)
    assert packed.ids.tolist() == [1, 2, 3, 7, 1, 2, 3, 8, 1, 2, 3, 9]
    assert packed.tree.ids[packed.place].tolist() == packed.ids.tolist()
    assert len(packed.tree.ids) == (6 if share else 12)


def test_a_rank_that_waits_for_others_computes_a_token_and_adds_nothing_to_a_gradient(batch: Batch) -> None:
    packed, policy = idle(batch), Policy(tiny_model())
    nothing = torch.zeros(0, dtype=torch.long)
    assert len(packed.tree.ids) == 1
    assert packed.rows.tolist() == []
    outputs = policy.logprobs(packed, nothing).logprobs, Critic(policy).values(packed, nothing)
    torch.cat(outputs).sum().backward()
    assert not any(parameter.grad.any() for parameter in policy.parameters())
