"""Correction: what the loss does about tokens that another policy sampled than the one that learns from them.

The sampler differs from the learner by rounding, or by versions of the weights where rollouts run ahead. Either way a
token's advantage is weighed by min(pi_old / pi_sampler, bound); where the algorithm has one ratio for a trajectory, the
weight is the trajectory's, too. `decoupled` (arXiv 2505.24298): pi_old is the policy before the update, against which
the loss clips. `truncated`: pi_old is the policy of each pass, so nothing clips.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.loss import LossTokens
from agent_r1_core.learning.meter import Sum

_BOUND = 2.0
"""Of the weights where rollouts run ahead and the recipe gives none."""


class Correction:
    """The correction that the settings ask for.

    Args:
        of_sequences: whether advantages are weighed by trajectory, as `Algorithm.has_sequence_ratio` says.
    """

    def __init__(self, settings: TrainingConfig, of_sequences: bool = False) -> None:
        self._of_sequences = of_sequences
        self.ahead = settings.max_staleness > 0
        """Whether rollouts run ahead: the policy that sampled is then not the one before the update."""
        self.truncates = self.ahead and settings.staleness_correction == "truncated"
        """Whether no log-probs from before the update are needed."""
        self._bound = _BOUND if self.ahead and settings.importance_clip is None else settings.importance_clip

    def fresh(self, batch: Batch, step: int) -> Tensor:
        """bool [n, T], action tokens whose log-probs must be the learner's own before its update (LAW 2)."""
        return batch.fresh(step - 1) if self.ahead else batch.sampled

    def old(self, tokens: LossTokens) -> LossTokens:
        """The tokens with the log-probs against which the loss clips."""
        return replace(tokens, old_logprobs=tokens.logprobs.detach()) if self.truncates else tokens

    def measured(self, tokens: LossTokens) -> LossTokens:
        """The tokens with the log-probs from which the policy has moved: under `truncated` the sampler's."""
        if not self.truncates:
            return tokens
        before = torch.where(tokens.turn >= 0, tokens.sampler_logprobs, tokens.old_logprobs)
        return replace(tokens, old_logprobs=before, importance=None)

    def weighed(self, tokens: LossTokens) -> tuple[LossTokens, dict[str, Sum]]:
        """The tokens with weighed advantages, and what to log of the weights."""
        return (tokens, {}) if self._bound is None else tokens.corrected(self._bound, self._of_sequences)
