"""What an algorithm's loss gets and gives: flat tokens of one micro-batch, and sums; and the correction of the tokens.

Correction: the sampler differs from the learner by rounding, or by versions of the weights where rollouts run ahead.
Either way a token's advantage is weighed by min(pi_old / pi_sampler, bound); where the algorithm has one ratio for a
trajectory or a turn, the weight is that one's, too; one that compares with pi_sampler itself (DPPO) gets no weights.
Before that, mismatch.py may leave actions out. `decoupled` (arXiv 2505.24298): pi_old is the policy before the update,
against which the loss clips. `truncated`: pi_old is the policy of each pass, so nothing clips.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from agent_r1_core.attribute_texts import show_attributes
from agent_r1_core.contracts.training import ImportanceLevel, TrainingConfig
from agent_r1_core.learning.kl import LossKlEstimator, kl_estimate, kl_loss
from agent_r1_core.learning.meter import Sum
from agent_r1_core.learning.mismatch import mismatched
from agent_r1_core.learning.surrogate import Surrogate, log_ratio, mean_log_ratio, truncated_importance
from agent_r1_core.metrics import declared as metric

_BOUND = 2.0
"""Of the weights where rollouts run ahead and the recipe gives none."""


@show_attributes
@dataclass(frozen=True)
class LossTokens:
    """The loss tokens of a micro-batch, [tokens] each, in the order of their trajectories.

    A micro-batch holds whole trajectories, so a sequence-level ratio can be taken inside it.
    """

    logprobs: Tensor
    """log pi of the sampled ids, with gradient."""
    old_logprobs: Tensor
    """Before this update; equal to `logprobs` in the first pass."""
    sampler_logprobs: Tensor
    """The engine's; 0 at the environment's tokens, NaN at the actions of demonstrations, which nobody sampled."""
    advantages: Tensor
    """As the algorithm's `advantages` gave them, times importance weights where there are some."""
    weights: Tensor
    """Of the policy's loss: the update's normaliser (LAW 6); 0 at tokens that are in other losses alone."""
    sequence: Tensor
    """long: the number of the token's trajectory within the micro-batch."""
    turn: Tensor
    """long: index of the turn that the token is an action of, -1 for the environment's tokens."""
    entropy: Tensor
    """Of the policy's distribution over the token, nats; with gradient where `needs_entropy()` asks for it."""
    reference_logprobs: Tensor | None = None
    """The reference's, with that role."""
    values: Tensor | None = None
    """V of the state before the token, with gradient."""
    old_values: Tensor | None = None
    """The same before the update, without gradient."""
    value_targets: Tensor | None = None
    """What the critic learns."""
    value_weights: Tensor | None = None
    """Of the value loss: a token mean over the update's value tokens."""
    importance: Tensor | None = None
    """min(pi_old / pi_sampler, bound) at actions, else 1: times pi / pi_old it makes up for the policy that sampled, in
    a term of the loss that has no advantage. None: there are no such weights."""
    segment: Tensor | None = None
    """long: the number of the token's segment within the micro-batch, with a `training.mismatch_mask`."""
    observation_weights: Tensor | None = None
    """Of the cross-entropy that `observation_coef` adds: a token mean over the update's observations. None: it adds
    none, and the tokens hold no observations."""

    @property
    def in_loss(self) -> Tensor:
        """bool: the tokens of the policy's loss."""
        return self.weights > 0

    def log_ratio_per(self, level: ImportanceLevel, token_log_ratio: Tensor, counted: Tensor | None = None) -> Tensor:
        """Log-ratios [tokens] of the tokens, or the means of their trajectories or turns over `counted` tokens, which
        are those of the loss by default; with `turn` the environment's tokens, which are in none, keep their own."""
        if level == "token":
            return token_log_ratio
        counted = self.in_loss if counted is None else counted
        if level == "sequence":
            return mean_log_ratio(token_log_ratio, self.sequence, counted)
        action = self.turn >= 0
        unit = torch.where(action, self.sequence * (self.turn.max() + 1) + self.turn, 0)
        return torch.where(action, mean_log_ratio(token_log_ratio, unit, counted & action), token_log_ratio)

    def sum_of(self, values: Tensor) -> Sum:
        """A metric over the tokens of the policy's loss."""
        chosen = self.in_loss
        return (values.detach().float() * chosen).sum(), chosen.sum()


@show_attributes
@dataclass(frozen=True)
class LossTerms:
    """The losses of a micro-batch: sums of weight times token loss, so that micro-batches add up to the update."""

    loss: Tensor
    """Scalar with gradient to the policy."""
    value_loss: Tensor | None = None
    """Scalar with gradient to the critic."""
    metrics: dict[str, Sum] = field(default_factory=dict)
    """What to log: by name a sum and what it is divided by, once all micro-batches are added up."""


class Correction:
    """The correction that the settings ask for.

    Args:
        level: of what advantages are weighed, as `Algorithm.importance_level` says.
    """

    def __init__(self, settings: TrainingConfig, level: ImportanceLevel | None = "token") -> None:
        self._settings = settings
        self._level = level
        self.ahead = settings.max_staleness > 0
        """Whether rollouts run ahead: the policy that sampled is then not the one before the update."""
        self.truncates = level is None or (self.ahead and settings.staleness_correction == "truncated")
        """Whether no log-probs from before the update are needed."""
        self._bound = _BOUND if self.ahead and settings.importance_clip is None else settings.importance_clip

    def corrected(self, tokens: LossTokens) -> tuple[LossTokens, dict[str, Sum]]:
        """The tokens with the log-probs against which the loss clips, without what a mask leaves out and, where there
        is a bound, with truncated importance weights and with advantages of actions weighed; what to log of it.

        Where a trajectory or a turn has one ratio, an advantage gets the weight of that one, in which the geometric
        mean over its actions stands for pi_old / pi_sampler.
        """
        if self.truncates:
            tokens = replace(tokens, old_logprobs=tokens.logprobs.detach())
        tokens, sums = self._masked(tokens)
        if self._level is None:
            return self.measured(tokens), sums
        if self._bound is None:
            return tokens, sums
        action = tokens.turn >= 0
        apart = torch.where(action, log_ratio(tokens.old_logprobs, tokens.sampler_logprobs), 0.0)
        importance = truncated_importance(apart, self._bound)
        weights = truncated_importance(tokens.log_ratio_per(self._level, apart, action), self._bound)
        advantages = torch.where(action, tokens.advantages * weights, tokens.advantages)
        sums |= {
            metric.UPDATE_IMPORTANCE_WEIGHT: (weights[action].sum(), action.sum()),
            metric.UPDATE_IMPORTANCE_CLIPPED: ((weights[action] >= self._bound).sum(), action.sum()),
        }
        return replace(tokens, advantages=advantages, importance=torch.where(action, importance, 1.0)), sums

    def _masked(self, tokens: LossTokens) -> tuple[LossTokens, dict[str, Sum]]:
        """The tokens with advantage 0 at the actions that `training.mismatch_mask` leaves out."""
        kind = self._settings.mismatch_mask
        if kind is None:
            return tokens, {}
        learner = tokens.logprobs.detach() if kind == "off_policy" else tokens.old_logprobs
        segment, action = tokens.sequence if tokens.segment is None else tokens.segment, tokens.turn >= 0
        apart = torch.where(action, log_ratio(learner, tokens.sampler_logprobs), 0.0)
        left_out, sums = mismatched(self._settings, apart, segment, action, tokens.advantages)
        return replace(tokens, advantages=torch.where(left_out, 0.0, tokens.advantages)), sums

    def measured(self, tokens: LossTokens) -> LossTokens:
        """The tokens with the log-probs from which the policy has moved: the sampler's under `truncated`, and where the
        loss compares with it."""
        if not self.truncates:
            return tokens
        before = torch.where(tokens.turn >= 0, tokens.sampler_logprobs, tokens.old_logprobs)
        return replace(tokens, old_logprobs=before, importance=None)


def update_sums(terms: LossTerms, tokens: LossTokens) -> dict[str, Sum]:
    """The metrics of a micro-batch's losses. The losses themselves are sums, which mini-batches count."""
    nothing = torch.zeros(())
    moved = kl_estimate(tokens.old_logprobs, tokens.logprobs.detach(), "k3")
    if tokens.importance is not None:  # another policy sampled than the old one
        moved = moved * tokens.importance
    sums = {metric.UPDATE_KL_STEP: tokens.sum_of(moved), metric.UPDATE_LOSS: (terms.loss, nothing)}
    if terms.value_loss is not None:
        sums[metric.VALUE_LOSS] = terms.value_loss, nothing
    return sums | {f"update/{name}": total for name, total in terms.metrics.items()}


def policy_terms(tokens: LossTokens, surrogate: Surrogate) -> LossTerms:
    """The weighted sum of a surrogate, with the metrics that every clipped loss has."""
    metrics = {
        "clip_fraction": tokens.sum_of(surrogate.clipped),
        "ratio": tokens.sum_of(surrogate.ratio),
    }
    return LossTerms((surrogate.loss * tokens.weights).sum(), metrics=metrics)


def add_kl(
    terms: LossTerms, tokens: LossTokens, coefficient: float, estimator: LossKlEstimator, correction: bool = False
) -> LossTerms:
    """Add `coefficient` times the KL to the reference policy; nothing at 0. What its gradient is, and what
    `correction` makes of it, kl.py says.

    Raises:
        ValueError: estimator k1, or tokens without the reference's log-probs.
    """
    if coefficient == 0:
        return terms
    if tokens.reference_logprobs is None:
        raise ValueError("a KL loss needs the reference's log-probs; name `reference` in the algorithm's roles")
    ratio = torch.exp(log_ratio(tokens.logprobs, tokens.old_logprobs)) if correction else None
    if ratio is not None and tokens.importance is not None:
        ratio = ratio * tokens.importance
    penalty = kl_loss(tokens.logprobs, tokens.reference_logprobs, estimator, ratio)
    loss = terms.loss + coefficient * (penalty * tokens.weights).sum()
    return replace(terms, loss=loss, metrics=terms.metrics | {"kl_reference": tokens.sum_of(penalty)})


def observation_loss(logprobs: Tensor, weights: Tensor) -> tuple[Tensor, dict[str, Sum]]:
    """The cross-entropy on a micro-batch's observations (ECHO, arXiv 2605.24517), and its metric.

    Args:
        weights: `LossTokens.observation_weights`; 0 at all other tokens.
    """
    observed = weights > 0
    surprisal = -torch.where(observed, logprobs, 0.0)
    return (surprisal * weights).sum(), {metric.UPDATE_OBSERVATION_LOSS: (surprisal.detach().sum(), observed.sum())}
