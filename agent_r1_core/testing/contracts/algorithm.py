"""Contract tests of an Algorithm, on random rollouts; only a training run shows whether it learns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from agent_r1_core.contracts.algorithm import Algorithm
from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.learning.batch import Advantages, Batch
from agent_r1_core.learning.checks import CheckedAlgorithm
from agent_r1_core.learning.loss import LossTokens
from agent_r1_core.learning.selection import Selection
from agent_r1_core.metrics.catalogue import Catalogue
from agent_r1_core.testing.batch import loss_tokens, tiny_batch
from agent_r1_core.testing.contracts.base import ComponentContract
from agent_r1_core.testing.trajectories import make_task, random_group, random_trajectory
from agent_r1_core.trajectory import Group


class AlgorithmContract(ComponentContract):
    """Set `component` and, if needed, options in `config`."""

    kind = "algorithm"
    masked: ClassVar[bool] = True
    """False for options that switch the action mask off, for ablations; environment tokens are then credited too."""

    def test_advantages_are_finite_constants_and_stand_on_credited_tokens(self) -> None:
        batch, same = tiny_batch(), tiny_batch()
        self._advantages(batch)
        assert batch.trajectories == same.trajectories, "advantages changed batch.trajectories, which are recorded"

    def test_values_outside_the_action_mask_change_nothing(self) -> None:
        if not self.masked:
            return
        batch, other = tiny_batch(), tiny_batch()
        for tensor in (other.sampler_logprobs, other.old_logprobs, other.reference_logprobs, other.values):
            assert tensor is not None
            tensor[~other.action_mask] += 3.0
        same = torch.equal(self._advantages(batch).advantages, self._advantages(other).advantages)
        assert same, "a number at an environment token changed an advantage (LAW 3)"

    def test_padding_changes_nothing(self) -> None:
        batch = tiny_batch()
        length = batch.ids.shape[1]
        wide = self._advantages(_padded(batch, 5)).advantages
        assert torch.allclose(wide[:, :length], self._advantages(batch).advantages, atol=1e-6)
        assert not wide[:, length:].any()

    def test_a_rollout_without_rewards_stays_finite(self) -> None:
        groups = [random_group(seed, 3, turns=2, turn_rewards=[0.0, 0.0], reward=0.0) for seed in range(2)]
        batch = tiny_batch()
        unrewarded = Batch.from_groups(groups)
        for name in ("old_logprobs", "reference_logprobs", "values"):
            assert getattr(batch, name) is not None
            setattr(unrewarded, name, torch.zeros(unrewarded.ids.shape))
        assert torch.isfinite(self._advantages(unrewarded).advantages).all()

    def test_rewards_change_nothing_where_there_is_no_comparison_if_groups_are_compared(self) -> None:
        algorithm = self.make()
        if not algorithm.compares_samples():
            return
        given = []
        for reward in (0.0, 1.0):
            flat: dict[str, Any] = {"turns": 2, "reward": reward, "turn_rewards": [reward, 0.0]}
            alike = [random_trajectory(7, task=make_task("alike"), sample=index, **flat) for index in range(3)]
            groups = [random_group(1, 1, state_keys=["start", "end"], **flat), Group(alike[0].task, alike)]
            batch = _as_sampled([*groups, random_group(3, 3)])
            given.append(self._advantages(batch, algorithm).advantages[batch.group < 2])
        assert torch.allclose(given[0], given[1], atol=1e-6), (
            "the reward of a group of one episode, or of one of equal rewards, is credited, and compares_samples() "
            "says that episodes of a group are compared; return False there (LAW 7)"
        )

    def test_the_better_episode_is_credited_with_more_if_groups_are_compared(self) -> None:
        algorithm, task = self.make(), make_task("better")
        if not algorithm.compares_samples():
            return
        paid: dict[str, Any] = {"turns": 2, "turn_rewards": [0.0, 0.0]}
        episodes = [random_trajectory(7, task=task, sample=index, reward=1.0 - index, **paid) for index in range(2)]
        batch = _as_sampled([Group(task, episodes)])
        better, worse = (self._advantages(batch, algorithm).advantages * batch.action_mask).sum(1).tolist()
        assert better > worse, "of two episodes that act alike, the one with the lower return is credited with more"

    def test_it_says_whether_it_credits_turns(self) -> None:
        algorithm = self.make()
        turns: dict[str, Any] = {"turns": 2, "reward": 0.0, "state_keys": ["start", "end"]}
        early, late = (
            [random_trajectory(seed, sample=seed, turn_rewards=paid, **turns) for seed, paid in paying]
            for paying in (((0, [1.0, 0.0]), (1, [0.0, 0.0])), ((0, [0.0, 1.0]), (1, [0.0, 0.0])))
        )
        given = [
            self._advantages(_as_sampled([Group(one[0].task, one, baseline=one[1])])).advantages
            for one in (early, late)
        ]
        alike, told = torch.allclose(given[0], given[1], atol=1e-6), algorithm.credits_turns()
        assert alike or told, (
            "it matters which turn a process reward was given for, and credits_turns() says that only their sum "
            "counts; return True there"
        )
        assert told != alike, (
            "it does not matter which turn a process reward was given for, and credits_turns() says that it does; "
            "return False there"
        )

    def test_its_metrics_are_declared(self) -> None:
        algorithm, batch = self.make(), tiny_batch()
        advantages = self._advantages(batch, algorithm)
        terms = CheckedAlgorithm(algorithm).loss(loss_tokens(batch, advantages, algorithm, moved=0.05))
        catalogue = Catalogue.with_components([("algorithm", self.name, type(algorithm))])
        unknown = catalogue.undeclared(f"update/{name}" for name in {**advantages.metrics, **terms.metrics})
        assert not unknown, f"{', '.join(unknown)}: declare them in `metrics`, or runs call them unknown"

    def test_the_filter_keeps_whole_groups(self) -> None:
        Selection(self.make(), TrainingConfig()).filter([random_group(seed) for seed in range(3)])

    def test_the_loss_has_a_gradient_where_it_has_a_weight(self) -> None:
        algorithm, batch = self.make(), tiny_batch()
        tokens = loss_tokens(batch, self._advantages(batch, algorithm), algorithm, moved=0.05)
        _backward(algorithm, tokens)
        gradient = tokens.logprobs.grad
        assert gradient is not None, "the loss does not depend on the log-probs"
        assert torch.isfinite(gradient).all()
        assert gradient.any(), "the loss has no gradient anywhere"
        assert not gradient[tokens.weights == 0].any(), "tokens without weight have a gradient"

    def test_no_trajectory_with_a_gradient_is_skipped(self) -> None:
        algorithm, batch = self.make(), tiny_batch()
        advantages = self._advantages(batch, algorithm)
        advantages.advantages = torch.zeros_like(advantages.advantages)
        tokens = loss_tokens(batch, advantages, algorithm, moved=0.05)
        terms = CheckedAlgorithm(algorithm).loss(tokens)
        loss = terms.loss if terms.value_loss is None else terms.loss + terms.value_loss
        leaves = [leaf for leaf in (tokens.logprobs, tokens.values, tokens.entropy) if leaf is not None]
        leaves = [leaf for leaf in leaves if leaf.requires_grad]
        gradients = torch.autograd.grad(loss, leaves, allow_unused=True) if loss.requires_grad else ()
        has_gradient = any(bool(gradient.any()) for gradient in gradients if gradient is not None)
        assert algorithm.needs_every_trajectory() or not has_gradient, (
            "the loss has a gradient where there is no advantage, and such trajectories are skipped; "
            "return True from needs_every_trajectory (LAW 6)"
        )

    def test_a_good_action_becomes_likelier(self) -> None:
        algorithm, batch = self.make(), tiny_batch()
        batch.reference_logprobs = batch.old_logprobs
        for sign in (1.0, -1.0):
            advantages = self._advantages(batch, algorithm)
            advantages.advantages = sign * batch.action_mask.float()
            tokens = loss_tokens(batch, advantages, algorithm)
            _backward(algorithm, tokens)
            assert tokens.logprobs.grad is not None
            gradient = tokens.logprobs.grad[(tokens.weights > 0) & (tokens.advantages != 0)]
            assert (gradient * sign < 0).all(), f"advantage {sign:+} pushes the action the wrong way"

    def test_micro_batches_add_up(self) -> None:
        algorithm, batch = self.make(), tiny_batch()
        advantages = self._advantages(batch, algorithm)
        whole = _gradients(algorithm, batch, advantages, [list(range(batch.size))])
        summed = _gradients(algorithm, batch, advantages, [[row] for row in range(batch.size)])
        gap = (whole - summed).norm() / whole.norm()
        assert gap < 1e-5, f"the gradient depends on the micro-batches: relative difference {gap:.2g} (LAW 6)"

    def test_losses_are_sums_over_weighted_tokens_and_metrics_sums_with_their_counts(self) -> None:
        algorithm, batch = self.make(), tiny_batch()
        tokens = loss_tokens(batch, self._advantages(batch, algorithm), algorithm, moved=0.05)
        CheckedAlgorithm(algorithm).loss(tokens)

    def _advantages(self, batch: Batch, algorithm: Algorithm | None = None) -> Advantages:
        """Those of the algorithm, else of a new one, after a run's own checks."""
        credited = batch.action_mask if self.masked else batch.response_mask
        return CheckedAlgorithm(algorithm or self.make()).advantages(batch, credited)


def _as_sampled(groups: Sequence[Group]) -> Batch:
    """A rollout whose networks agree, so that advantages come from rewards alone."""
    batch = Batch.from_groups(groups)
    batch.old_logprobs = batch.reference_logprobs = batch.sampler_logprobs.clone()
    batch.values = torch.zeros(batch.ids.shape)
    return batch


def _backward(algorithm: Algorithm, tokens: LossTokens) -> None:
    terms = CheckedAlgorithm(algorithm).loss(tokens)
    (terms.loss if terms.value_loss is None else terms.loss + terms.value_loss).backward()


def _gradients(
    algorithm: Algorithm, batch: Batch, advantages: Advantages, microbatches: list[list[int]]
) -> torch.Tensor:
    """The gradient with respect to log-probs and values, micro-batch by micro-batch, in the order of trajectories."""
    gradients = []
    for rows in microbatches:
        tokens = loss_tokens(batch, advantages, algorithm, rows, moved=0.05)
        _backward(algorithm, tokens)
        leaves = [tokens.logprobs] + ([] if tokens.values is None else [tokens.values])
        gradients.append(torch.stack([torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves]))
    return torch.cat(gradients, dim=1)


def _padded(batch: Batch, columns: int) -> Batch:
    """The batch with some more columns of padding."""
    fills = {"valid": False, "action_mask": False, "response_mask": False, "turn": -1, "versions": -1}
    values = dict(vars(batch))
    for name, value in values.items():
        if isinstance(value, torch.Tensor) and value.ndim == 2:
            padding = torch.full((value.shape[0], columns), fills.get(name, 0), dtype=value.dtype)
            values[name] = torch.cat([value, padding], dim=1)
    return Batch(**values)
