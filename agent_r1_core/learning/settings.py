"""What the learner may be told; plain data, so that learning knows no configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Schedule = Literal["constant", "linear", "cosine"]
OldLogprobs = Literal["auto", "engine", "learner"]


@dataclass(frozen=True)
class LearnerSettings:
    """How one rollout becomes optimiser steps."""

    steps: int = 30
    """Training steps in all, for the schedule."""
    epochs: int = 1
    """Passes over a rollout."""
    minibatches: int = 1
    """Optimiser steps per pass."""
    lr: float = 2e-4
    critic_lr: float | None = None
    """The policy's where None."""
    critic_warmup: int = 0
    """First steps, in which the critic alone learns."""
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.95)
    max_grad_norm: float = 1.0
    """Gradients are scaled down to this norm; 0: never."""
    warmup_steps: int = 0
    """First steps, over which the learning rates rise linearly."""
    schedule: Schedule = "constant"
    """After the warm-up: constant, or down towards 0 at the last step."""
    max_tokens_per_microbatch: int = 4096
    importance_clip: float | None = None
    """Bound of truncated importance weights that correct for an engine that disagrees with the learner; None: off."""
    old_logprobs: OldLogprobs = "auto"
    """Where the log-probs before the update come from, if a loss needs them: what the engine sampled with, or a pass of
    the learner's own; `auto`: the engine's where a sample of the rollout agrees to 1e-4 nats (LAW 2)."""
    share_prefixes: bool = True
    """Compute tokens that the trajectories of a group share from their first id on once; the gradient is the same
    (LAW 6)."""
    skip_without_gradient: bool = True
    """Leave out trajectories on which every loss term has zero gradient; the gradient is the same (LAW 6)."""


@dataclass(frozen=True)
class LoraOptions:
    """Low-rank adapters instead of full weights (arXiv 2106.09685)."""

    rank: int = 16
    alpha: float = 32.0
    dropout: float = 0.0
    """Above 0 the learner's log-probs are noisy and LAW 2 holds in evaluation mode only."""
    target_modules: tuple[str, ...] = ()
    """Names of layers; every linear layer but the head where empty."""
