"""LAW 3: of a demonstration its actions alone are learnt, all of them, each with the weight that is stated."""

from __future__ import annotations

import copy

import pytest
import torch
from algorithms import make

from agent_r1_core.testing import random_group, tiny_model
from agent_r1_core.testing.gradients import relative_difference, update_gradients
from agent_r1_core.trajectory import Group, Trajectory


def demonstrations() -> list[Group]:
    """Three tasks with a demonstration each, one of which has two segments; nobody knows log-probs of their actions."""
    groups = [random_group(seed, 1, turns=seed + 1, new_segment_at={2}) for seed in range(3)]
    for one in (one for group in groups for one in group.trajectories):
        one.demonstrated = "tools"
        for segment in one.segments:
            segment.logprobs = [float("nan") if bit else 0.0 for bit in segment.mask]
    return groups


def surprise(model: torch.nn.Module, one: Trajectory) -> torch.Tensor:
    """-log p of every action id of a trajectory, in the order in which they stand."""
    found = []
    for segment in one.segments:
        logprobs = torch.log_softmax(model(torch.tensor([segment.ids])).logits[0], -1)
        for place, (token, bit) in enumerate(zip(segment.ids, segment.mask, strict=True)):
            if bit:
                found.append(-logprobs[place - 1, token])
    return torch.stack(found)


@pytest.mark.parametrize("aggregation", ["token_mean", "sequence_mean"])
def test_the_gradient_of_sft_is_that_of_the_mean_over_action_tokens(aggregation: str) -> None:
    groups, model = demonstrations(), tiny_model().double()
    each = [surprise(model, one) for group in groups for one in group.trajectories]
    loss = torch.cat(each).mean() if aggregation == "token_mean" else torch.stack([one.mean() for one in each]).mean()
    expected = torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(model.parameters()))])
    algorithm = make({"name": "sft", "aggregation": aggregation})
    (found,) = update_gradients(tiny_model(), algorithm, copy.deepcopy(groups))
    assert relative_difference(found, expected) < 1e-5
