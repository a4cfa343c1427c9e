"""Contract tests of an Algorithm, on random rollouts; whether it learns is for a training run to show."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from agent_r1_core.learning.batch import Advantages, Batch
from agent_r1_core.testing.batch import loss_tokens, tiny_batch
from agent_r1_core.testing.contracts.base import ComponentContract
from agent_r1_core.testing.trajectories import random_group


class AlgorithmContract(ComponentContract):
    """Set `component` and, where it needs them, options in `config`."""

    kind = "algorithm"
    masked: ClassVar[bool] = True
    """False for options that switch a mask off, for ablation: environment tokens are credited then."""

    def test_advantages_are_finite_and_stand_on_action_tokens(self) -> None:
        batch = tiny_batch()
        made = self.make().advantages(batch)
        assert isinstance(made, Advantages), f"advantages returned {type(made).__name__}, not Advantages"
        assert made.advantages.shape == batch.ids.shape, f"advantages have the shape {tuple(made.advantages.shape)}"
        assert torch.isfinite(made.advantages).all()
        assert not made.advantages.requires_grad, "advantages carry a gradient; they are constants of the loss"
        credited = batch.action_mask if self.masked else batch.response_mask
        assert not made.advantages[~credited].any(), "tokens that the policy did not choose are credited (LAW 3)"

    def test_what_stands_at_masked_tokens_changes_nothing(self) -> None:
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
        groups = [random_group(seed) for seed in range(3)]
        kept = self.make().filter(groups)
        assert all(any(group is one for one in groups) for group in kept), "filter made groups up"

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
        made = algorithm.advantages(batch)
        made.advantages = torch.zeros_like(made.advantages)
        tokens = loss_tokens(batch, made, algorithm, moved=0.05)
        terms = algorithm.loss(tokens)
        loss = terms.loss if terms.value_loss is None else terms.loss + terms.value_loss
        leaves = [leaf for leaf in (tokens.logprobs, tokens.values) if leaf is not None]
        grown = torch.autograd.grad(loss, leaves, allow_unused=True) if loss.requires_grad else ()
        pulls = any(bool(gradient.any()) for gradient in grown if gradient is not None)
        assert algorithm.needs_every_trajectory() or not pulls, (
            "the loss has a gradient where there is no advantage, and such trajectories are skipped; "
            "return True from needs_every_trajectory (LAW 6)"
        )

    def test_a_good_action_becomes_likelier(self) -> None:
        algorithm, batch = self.make(), tiny_batch()
        batch.reference_logprobs = batch.old_logprobs
        for sign in (1.0, -1.0):
            made = algorithm.advantages(batch)
            made.advantages = sign * batch.action_mask.float()
            tokens = loss_tokens(batch, made, algorithm)
            _backward(algorithm, tokens)
            assert tokens.logprobs.grad is not None
            pulls = tokens.logprobs.grad[(tokens.weights > 0) & (tokens.advantages != 0)]
            assert (pulls * sign < 0).all(), f"advantage {sign:+} pushes the action the wrong way"

    def test_micro_batches_add_up(self) -> None:
        algorithm, batch = self.make(), tiny_batch()
        made = algorithm.advantages(batch)
        whole = _gradients(algorithm, batch, made, [list(range(batch.size))])
        parts = _gradients(algorithm, batch, made, [[row] for row in range(batch.size)])
        gap = (whole - parts).norm() / whole.norm()
        assert gap < 1e-5, f"the gradient depends on the micro-batches: relative difference {gap:.2g} (LAW 6)"

    def test_metrics_are_sums_with_their_counts(self) -> None:
        algorithm, batch = self.make(), tiny_batch()
        terms = algorithm.loss(loss_tokens(batch, algorithm.advantages(batch), algorithm))
        for name, (total, count) in terms.metrics.items():
            assert torch.as_tensor(total).ndim == torch.as_tensor(count).ndim == 0, f"metric {name!r} is no scalar"
            assert not torch.as_tensor(total).requires_grad, f"metric {name!r} carries a gradient; detach it"


def _backward(algorithm: Any, tokens: Any) -> None:
    terms = algorithm.loss(tokens)
    assert terms.loss.ndim == 0, f"the loss has the shape {tuple(terms.loss.shape)}; return a sum"
    (terms.loss if terms.value_loss is None else terms.loss + terms.value_loss).backward()


def _gradients(algorithm: Any, batch: Batch, made: Advantages, parts: list[list[int]]) -> torch.Tensor:
    """The gradient to log-probs and values, micro-batch by micro-batch, in the order of the trajectories."""
    grown = []
    for rows in parts:
        tokens = loss_tokens(batch, made, algorithm, rows, moved=0.05)
        _backward(algorithm, tokens)
        leaves = [tokens.logprobs] + ([] if tokens.values is None else [tokens.values])
        grown.append(torch.stack([torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves]))
    return torch.cat(grown, dim=1)


def _padded(batch: Batch, columns: int) -> Batch:
    """The batch with some columns of padding more."""
    blank = {"valid": False, "action_mask": False, "response_mask": False, "turn": -1}
    values = dict(vars(batch))
    for name, value in values.items():
        if isinstance(value, torch.Tensor) and value.ndim == 2:
            more = torch.full((value.shape[0], columns), blank.get(name, 0), dtype=value.dtype)
            values[name] = torch.cat([value, more], dim=1)
    return Batch(**values)
