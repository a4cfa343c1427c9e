"""Group baselines of groups that tell nothing; anchor groups, turns whose state has one name."""

from __future__ import annotations

import pytest
import torch

from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.groups import (
    anchor_groups,
    group_mean_advantage,
    group_normalised_advantage,
    leave_one_out_advantage,
)
from agent_r1_core.testing import make_task, make_trajectory
from agent_r1_core.trajectory import Group

RETURNS = [1.0, 0.0, 0.5, 0.25, 1.0, 0.7, 0.7, 3.0]
GROUP = [0, 0, 1, 0, 1, 2, 2, 3]


def tensors() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor(RETURNS), torch.tensor(GROUP)


@pytest.mark.parametrize("advantage", [group_mean_advantage, leave_one_out_advantage])
def test_a_group_without_spread_and_a_group_of_one_have_no_advantage(advantage) -> None:
    found = advantage(*tensors())
    assert found[5:].tolist() == [0.0, 0.0, 0.0]
    assert found[:5].abs().min() > 0


@pytest.mark.parametrize("value", [0.1, -0.1])
def test_equal_returns_give_exactly_zero_even_with_eps_zero(value: float) -> None:
    returns, group = torch.tensor([value] * 3), torch.zeros(3, dtype=torch.long)
    assert group_normalised_advantage(returns, group, eps=0.0).tolist() == [0.0] * 3


def test_no_trajectories_no_advantages_and_no_anchors() -> None:
    assert anchor_groups(Batch.from_groups([])).shape == (0, 0)
    assert group_mean_advantage(torch.zeros(0), torch.zeros(0, dtype=torch.long)).shape == (0,)


TURNS = (((1, 2), (3, 4)), ((5,), (6,)), ((7, 8), (9, 10)))


def group(task: str, *states: tuple[str | None, ...], new_segment_at: tuple[int, ...] = ()) -> Group:
    return Group(
        make_task(task),
        [
            make_trajectory(TURNS[: len(keys)], sample=sample, state_keys=keys, new_segment_at=new_segment_at)
            for sample, keys in enumerate(states)
        ],
    )


def test_turns_of_a_group_that_began_in_one_state_have_one_number_whenever_they_came_to_it() -> None:
    anchors = anchor_groups(Batch.from_groups([group("a", ("start", "x", "y"), ("start", "y", "start"))]))
    start, x, y = anchors[0, [2, 5, 8]].tolist()
    assert len({start, x, y}) == 3
    assert anchors[1, [2, 5, 8]].tolist() == [start, y, start]


def test_groups_share_no_anchor_and_states_without_a_name_have_none() -> None:
    batch = Batch.from_groups([group("a", ("start", None)), group("b", ("start", "x"), (None,))])
    anchors = anchor_groups(batch)
    assert anchors[0, 2] != anchors[1, 2]
    assert anchors[0, 5] == anchors[2, 2] == -1


def test_numbers_stand_at_the_first_action_token_of_their_turn_in_every_segment() -> None:
    batch = Batch.from_groups([group("a", ("s", "s", "s"), new_segment_at=(1, 2))])
    assert (anchor_groups(batch)[0] >= 0).nonzero().flatten().tolist() == [2, 5, 8]


def test_a_turn_without_action_tokens_has_no_anchor() -> None:
    empty = make_trajectory((((1,), ()), ((2,), (3,))), state_keys=("s", "t"))
    assert anchor_groups(Batch.from_groups([Group(make_task(), [empty])])).tolist() == [[-1, -1, 0]]
