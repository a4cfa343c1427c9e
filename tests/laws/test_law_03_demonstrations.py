"""LAW 3: of a demonstration, or of an own success, its actions alone are learnt, all of them, each with the weight that
is stated; and of other episodes nothing."""

from __future__ import annotations

import copy

import pytest
import torch
from algorithms import make

from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.learning.selection import Selection
from agent_r1_core.testing import random_group, tiny_model
from agent_r1_core.testing.gradients import relative_difference, update_gradients
from agent_r1_core.trajectory import EndStatus, Group, Trajectory


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
    groups = demonstrations()
    algorithm = make({"name": "sft", "aggregation": aggregation})
    (found,) = update_gradients(tiny_model(), algorithm, copy.deepcopy(groups))
    imitated = [one for group in groups for one in group.trajectories]
    assert relative_difference(found, gradient(imitated, aggregation)) < 1e-5


def own_episodes() -> tuple[list[Group], list[Trajectory]]:
    """Three tasks, of which the last is never solved, and what is learnt, two successes of a task at most: not the
    failures, nor the duplicate, nor the third success, nor what broke, however much it was paid."""
    first, second, third = (random_group(seed, 5, turns=2, new_segment_at={1}, reward=0.0) for seed in range(3))
    for group, returns in ((first, (1.0, 0.4, 1.0, 1.2, 1.5)), (second, (-1.0, 9.0, 0.999, 1 - 1e-8, 1.3))):
        for one, total in zip(group.trajectories, returns, strict=True):
            one.reward = total - sum(turn.reward for turn in one.turns)
    again = first.trajectories[2]
    again.segments, again.turns = copy.deepcopy((first.trajectories[0].segments, first.trajectories[0].turns))
    again.reward = first.trajectories[0].reward
    second.trajectories[1].status = EndStatus.FAILED
    learnt = [*(first.trajectories[k] for k in (0, 3)), *(second.trajectories[k] for k in (3, 4))]
    return [first, second, third], learnt


@pytest.mark.parametrize("aggregation", ["token_mean", "sequence_mean"])
def test_the_gradient_of_rft_is_that_of_a_few_different_successes(aggregation: str) -> None:
    groups, learnt = own_episodes()
    algorithm = make({"name": "rft", "aggregation": aggregation, "per_task": 2})
    kept = Selection(algorithm, TrainingConfig()).filter(groups)
    (found,) = update_gradients(tiny_model(), algorithm, copy.deepcopy(kept))
    assert relative_difference(found, gradient(learnt, aggregation)) < 1e-5


def gradient(imitated: list[Trajectory], aggregation: str) -> torch.Tensor:
    """Of the mean over all action tokens, or over the means of the episodes, in float64."""
    model = tiny_model().double()
    each = [surprise(model, one) for one in imitated]
    loss = torch.cat(each).mean() if aggregation == "token_mean" else torch.stack([one.mean() for one in each]).mean()
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(model.parameters()))])
