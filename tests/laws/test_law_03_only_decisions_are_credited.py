"""LAW 3: credit runs over action tokens alone; what stands at other tokens changes no gradient.

Of a demonstration, or of an own success, its actions alone are learnt, all of them, each with the weight that is
stated; and of other episodes nothing.
"""

from __future__ import annotations

import copy

import pytest
import torch
from agent_r1_ppo.ppo import PPO
from algorithms import MASKED, make
from batches import batch_of, some_critic, valued
from gradients import relative_difference, update_gradients

from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.learning.credit import gae, returns_to_go
from agent_r1_core.learning.packing import pack
from agent_r1_core.learning.selection import Selection
from agent_r1_core.testing import make_trajectory, random_group, tiny_batch, tiny_model
from agent_r1_core.trajectory import EndStatus, Group, Trajectory

every_algorithm = pytest.mark.parametrize("name", list(MASKED))


@every_algorithm
def test_numbers_outside_the_action_mask_change_no_advantage_and_no_target(name: str) -> None:
    algorithm, clean, spoilt = MASKED[name], tiny_batch(), tiny_batch()
    for field in ("rewards", "process_rewards", "values", "old_logprobs", "reference_logprobs", "sampler_logprobs"):
        getattr(spoilt, field)[~spoilt.action_mask] = 1e3
    one, other = algorithm.advantages(clean), algorithm.advantages(spoilt)
    assert torch.equal(one.advantages, other.advantages)
    if one.value_targets is not None:
        assert torch.equal(one.value_targets, other.value_targets)
    assert not one.advantages[~clean.action_mask].any()


@every_algorithm
def test_log_probs_recorded_outside_the_action_mask_change_no_gradient(name: str) -> None:
    groups = [random_group(1, 3), random_group(2, 3)]
    spoilt = copy.deepcopy(groups)
    for group in spoilt:
        for trajectory in group.trajectories:
            for segment in trajectory.segments:
                segment.logprobs = [p if m else -50.0 for p, m in zip(segment.logprobs, segment.mask, strict=True)]
    settings = {"epochs": 2, "importance_clip": 2.0}
    for one, other in zip(
        update_gradients(tiny_model(), MASKED[name], groups, **settings),
        update_gradients(tiny_model(), MASKED[name], spoilt, **settings),
        strict=True,
    ):
        assert torch.equal(one, other)


def test_environment_tokens_neither_earn_nor_discount() -> None:
    """The advantages of a trajectory are those of its action tokens written without a gap."""
    batch = tiny_batch()
    for row in range(batch.size):
        mask = batch.action_mask[row]
        tight = [part[row][mask][None] for part in (batch.rewards, batch.values, batch.action_mask)]
        whole = [part[row][None] for part in (batch.rewards, batch.values, batch.action_mask)]
        assert torch.equal(gae(*whole, 0.9, 0.8)[0][0][mask], gae(*tight, 0.9, 0.8)[0][0])
        assert torch.equal(returns_to_go(whole[0], whole[2], 0.9)[0][mask], returns_to_go(tight[0], tight[2], 0.9)[0])


def test_credit_runs_through_the_segments_of_a_trajectory() -> None:
    """A context that was rewritten between two turns does not stop the reward from flowing back."""
    turns = (((1, 2), (3,)), ((4, 5), (6,)))
    for boundary in ((), (1,)):
        batch = batch_of(make_trajectory(turns, reward=1.0, new_segment_at=boundary))
        returns = returns_to_go(batch.rewards, batch.action_mask, 0.5)
        assert returns[batch.action_mask].tolist() == [0.5, 1.0]


def test_the_value_of_a_turns_first_action_token_is_read_where_the_observation_ends() -> None:
    critic = some_critic()
    first = make_trajectory((((1, 2), (3, 4)), ((5, 6, 7), (8, 9))))
    other = make_trajectory((((1, 2), (3, 4)), ((5, 6, 7), (100, 9))))
    one, two = valued(critic, first), valued(critic, other)
    at_observation = critic.values(pack(one, [0]), torch.tensor([1, 6])).detach()
    torch.testing.assert_close(one.values[0, [2, 7]], at_observation)
    torch.testing.assert_close(one.values[0, :8], two.values[0, :8])
    assert float(one.values[0, 8]) != pytest.approx(float(two.values[0, 8]), abs=1e-6)


def test_a_bootstrap_is_one_value_after_the_last_id() -> None:
    critic = some_critic()
    cut = make_trajectory((((1, 2), (3, 4)),), closing=(5, 6), bootstrap=True)
    batch = valued(critic, cut)
    after = critic.values(pack(batch, [0]), torch.tensor([5])).detach()
    torch.testing.assert_close(batch.bootstrap, after)
    algorithm = PPO(PPO.Config(whiten=False, lam=0.0, gamma=0.5))
    advantages = algorithm.advantages(batch).advantages
    torch.testing.assert_close(advantages[0, 3], 0.5 * after[0] - batch.values[0, 3])


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


every_mean = pytest.mark.parametrize("aggregation", ["token_mean", "sequence_mean"])


@every_mean
def test_the_gradient_of_sft_is_that_of_the_mean_over_action_tokens(aggregation: str) -> None:
    groups = demonstrations()
    (found,) = update_gradients(tiny_model(), make({"name": "sft", "aggregation": aggregation}), copy.deepcopy(groups))
    imitated = [one for group in groups for one in group.trajectories]
    assert relative_difference(found, gradient(imitated, aggregation)) < 1e-5


@every_mean
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
