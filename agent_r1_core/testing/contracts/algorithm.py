"""Contract tests of an Algorithm, on random rollouts; whether it learns is for a training run to show."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from agent_r1_core.learning.batch import Advantages, Batch
from agent_r1_core.learning.checks import CheckedAlgorithm
from agent_r1_core.testing.batch import loss_tokens, tiny_batch
from agent_r1_core.testing.contracts.base import ComponentContract
from agent_r1_core.testing.trajectories import random_group


class AlgorithmContract(ComponentContract):
    """Set `component` and, where it needs them, options in `config`."""

    kind = "algorithm"
    masked: ClassVar[bool] = True
    """False for options that switch a mask off, for ablation: environment tokens are credited then."""

    def test_advantages_are_finite_constants_and_stand_on_credited_tokens(self) -> None:
        algorithm, batch = self.make(), tiny_batch()
        credited = batch.action_mask if self.masked else batch.response_mask
        advantages = CheckedAlgorithm(algorithm).advantages(batch, credited).advantages
        assert not advantages[~credited].any(), "tokens that the policy did not choose are credited (LAW 3)"

    def test_what_stands_outside_the_action_mask_changes_nothing(self) -> None:
        if not self.masked:
            return
        batch, other = tiny_batch(), tiny_batch()
        for tensor in (other.sampler_logprobs, other.old_logprobs, other.reference_logprobs, other.values):
            assert tensor is not None
            tensor[~other.action_mask] += 3.0
        same = torch.equal(self.make().advantages(batch).advantages, self.make().advantages(other).advantages)
        assert same, "a number at an environment token changed an advantage (LAW 3)"

    def test_padding_changes_nothing(self) -> None:
        batch = tiny_batch()
        length = batch.ids.shape[1]
        wide = self.make().advantages(_padded(batch, 5)).advantages
        assert torch.allclose(wide[:, :length], self.make().advantages(batch).advantages, atol=1e-6)
        assert not wide[:, length:].any()

    def test_a_rollout_without_rewards_stays_finite(self) -> None:
        groups = [random_group(seed, 3, turns=2, turn_rewards=[0.0, 0.0], reward=0.0) for seed in range(2)]
        batch = tiny_batch()
        blank = Batch.from_groups(groups)
        for name in ("old_logprobs", "reference_logprobs", "values"):
            assert getattr(batch, name) is not None
            setattr(blank, name, torch.zeros(blank.ids.shape))
        assert torch.isfinite(self.make().advantages(blank).advantages).all()

    def test_the_filter_keeps_whole_groups(self) -> None:
        CheckedAlgorithm(self.make()).filter([random_group(seed) for seed in range(3)])

    def test_the_loss_has_a_gradient_where_it_has_a_weight(self) -> None:
        algorithm, batch = self.make(), tiny_batch()
        tokens = loss_tokens(batch, algorithm.advantages(batch), algorithm, moved=0.05)
        _backward(algorithm, tokens)
        gradient = tokens.logprobs.grad
        assert gradient is not None, "the loss does not depend on the log-probs"
        assert torch.isfinite(gradient).all()
        assert gradient.any(), "the loss has no gradient anywhere"
        assert not gradient[tokens.weights == 0].any(), "tokens without weight have a gradient"

    def test_what_has_a_gradient_without_an_advantage_is_not_skipped(self) -> None:
        algorithm, batch = self.make(), tiny_batch()
        advantages = algorithm.advantages(batch)
        advantages.advantages = torch.zeros_like(advantages.advantages)
        tokens = loss_tokens(batch, advantages, algorithm, moved=0.05)
        terms = algorithm.loss(tokens)
        loss = terms.loss if terms.value_loss is None else terms.loss + terms.value_loss
        leaves = [leaf for leaf in (tokens.logprobs, tokens.values, tokens.entropy) if leaf is not None]
        leaves = [leaf for leaf in leaves if leaf.requires_grad]
        gradients = torch.autograd.grad(loss, leaves, allow_unused=True) if loss.requires_grad else ()
        pulls = any(bool(gradient.any()) for gradient in gradients if gradient is not None)
        assert algorithm.needs_every_trajectory() or not pulls, (
            "the loss has a gradient where there is no advantage, and such trajectories are skipped; "
            "return True from needs_every_trajectory (LAW 6)"
        )

    def test_a_good_action_becomes_likelier(self) -> None:
        algorithm, batch = self.make(), tiny_batch()
        batch.reference_logprobs = batch.old_logprobs
        for sign in (1.0, -1.0):
            advantages = algorithm.advantages(batch)
            advantages.advantages = sign * batch.action_mask.float()
            tokens = loss_tokens(batch, advantages, algorithm)
            _backward(algorithm, tokens)
            assert tokens.logprobs.grad is not None
            pulls = tokens.logprobs.grad[(tokens.weights > 0) & (tokens.advantages != 0)]
            assert (pulls * sign < 0).all(), f"advantage {sign:+} pushes the action the wrong way"

    def test_micro_batches_add_up(self) -> None:
        algorithm, batch = self.make(), tiny_batch()
        advantages = algorithm.advantages(batch)
        whole = _gradients(algorithm, batch, advantages, [list(range(batch.size))])
        cut = _gradients(algorithm, batch, advantages, [[row] for row in range(batch.size)])
        gap = (whole - cut).norm() / whole.norm()
        assert gap < 1e-5, f"the gradient depends on the micro-batches: relative difference {gap:.2g} (LAW 6)"

    def test_losses_are_sums_over_weighted_tokens_and_metrics_sums_with_their_counts(self) -> None:
        algorithm, batch = self.make(), tiny_batch()
        tokens = loss_tokens(batch, algorithm.advantages(batch), algorithm, moved=0.05)
        CheckedAlgorithm(algorithm).loss(tokens)


def _backward(algorithm: Any, tokens: Any) -> None:
    terms = algorithm.loss(tokens)
    (terms.loss if terms.value_loss is None else terms.loss + terms.value_loss).backward()


def _gradients(algorithm: Any, batch: Batch, advantages: Advantages, cuts: list[list[int]]) -> torch.Tensor:
    """The gradient to log-probs and values, micro-batch by micro-batch, in the order of the trajectories."""
    gradients = []
    for rows in cuts:
        tokens = loss_tokens(batch, advantages, algorithm, rows, moved=0.05)
        _backward(algorithm, tokens)
        leaves = [tokens.logprobs] + ([] if tokens.values is None else [tokens.values])
        gradients.append(torch.stack([torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves]))
    return torch.cat(gradients, dim=1)


def _padded(batch: Batch, columns: int) -> Batch:
    """The batch with some columns of padding more."""
    blank = {"valid": False, "action_mask": False, "response_mask": False, "turn": -1}
    values = dict(vars(batch))
    for name, value in values.items():
        if isinstance(value, torch.Tensor) and value.ndim == 2:
            more = torch.full((value.shape[0], columns), blank.get(name, 0), dtype=value.dtype)
            values[name] = torch.cat([value, more], dim=1)
    return Batch(**values)
