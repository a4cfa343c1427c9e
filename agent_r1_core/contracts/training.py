"""The sections of a run configuration that the learner reads: how the policy is trained, and with which adapters."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from agent_r1_core.contracts.component import Section

Beta = Annotated[float, Field(ge=0, lt=1)]
Schedule = Literal["constant", "linear", "cosine"]
OldLogprobs = Literal["auto", "engine", "learner"]
Recomputation = Literal["none", "selective", "full"]
StalenessCorrection = Literal["decoupled", "truncated"]
ImportanceLevel = Literal["token", "turn", "sequence"]
MismatchMask = Literal["icepop", "sequence", "geometric", "off_policy"]
MISMATCH_BOUNDS: dict[MismatchMask, tuple[float, float]] = {
    "icepop": (0.5, 5.0),
    "sequence": (0.0, 3.0),
    "geometric": (0.99, 1.01),
    "off_policy": (math.exp(-0.5), math.inf),
}
"""Between which a mask keeps what it looks at, where the recipe says nothing."""


class LoraSettings(Section):
    """Train low-rank adapters in place of the whole model (needs the package `peft`)."""

    rank: int = Field(default=16, ge=1)
    alpha: float = Field(default=32.0, gt=0)
    """The adapters' output is scaled by alpha / rank."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    target_modules: tuple[str, ...] = ()
    """Names of the layers that get adapters; empty: every linear layer but the head."""

    def targets_of(self, module: str) -> list[str]:
        """Those of `target_modules` that this module of a model is: its whole name, or the end of it."""
        return [target for target in self.target_modules if f".{module}".endswith(f".{target}")]


class CurriculumConfig(Section):
    """Draw less of what teaches nothing: groups whose returns are all equal, of tasks that the policy always or never
    solves."""

    by: str | None = None
    """A key of the tasks' metadata. Tasks with one value are a part; the more often the groups of a part had a spread
    lately, the more is drawn from it. null: the training sets are the parts."""
    least: float = Field(default=0.1, gt=0, le=1)
    """What a part without any spread is drawn, relative to one where every group has one."""
    rate: float = Field(default=0.1, gt=0, le=1)
    """How much the newest group counts in the mean spread of its part."""
    rest: int = Field(default=8, ge=0)
    """After a group without spread its task is passed over once, after the next such group twice, then four times and
    so on, at most this often; 0: never."""


class TrainingConfig(Section):
    """How the policy is trained."""

    steps: int = Field(default=30, ge=1)
    """Rollout and update pairs."""
    tasks_per_step: int = Field(default=16, ge=1)
    """Different tasks in a step; every task comes once before any comes again. If there are fewer, a step has all."""
    samples_per_task: int = Field(default=8, ge=1)
    """Episodes of each task: the size of a group."""
    epochs: int = Field(default=1, ge=1)
    """Passes over each rollout."""
    minibatches: int = Field(default=1, ge=1)
    """Optimiser steps of one pass."""
    lr: float = Field(default=2e-4, gt=0)
    critic_lr: float | None = Field(default=None, gt=0)
    """None: the policy's."""
    critic_warmup: int = Field(default=0, ge=0)
    """Number of first steps in which only the critic learns; the policy's schedule begins after them."""
    weight_decay: float = Field(default=0.0, ge=0)
    betas: tuple[Beta, Beta] = (0.9, 0.95)
    """Of AdamW."""
    adam_eps: float = Field(default=1e-8, gt=0)
    """Of AdamW: added to the root of the second moment."""
    max_grad_norm: float = Field(default=1.0, ge=0)
    """Gradients are scaled down to this norm; 0: never."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps over which the learning rate rises from zero; the policy's begin after `critic_warmup`."""
    schedule: Schedule = "constant"
    """Of the learning rate after the warm-up. `linear` and `cosine` fall towards zero and would reach it one step after
    the last."""
    max_tokens_per_microbatch: int = Field(default=4096, ge=1)
    """Bounds memory; the gradient does not depend on it."""
    old_logprobs: OldLogprobs = "auto"
    """Log-probs before the update, where several passes or mini-batches need them: the engine's, or a pass of the
    learner's own; `auto`: the engine's where a sample of the rollout agrees to 1e-4 nats, as in float32."""
    share_prefixes: bool = True
    """Compute the prefix that episodes of a task share only once; the gradient is the same."""
    skip_without_gradient: bool = True
    """Leave out episodes on which every loss term has zero gradient; the gradient is the same."""
    cpu_offload: bool = False
    """Keep weights, gradients and moments in main memory and step there; a GPU holds what it computes with. Needs
    learner workers with GPUs; one is enough."""
    extra_rollouts: int = Field(default=4, ge=0)
    """How many further rollouts an algorithm may ask for within a step, where it asks for any."""
    max_retries: int = Field(default=2, ge=0)
    """How often a failed episode is started again before it is dropped."""
    shuffle: bool = True
    """Draw the tasks in a random order, given by the seed."""
    curriculum: CurriculumConfig | None = None
    """null: every task is drawn as often as any other."""
    importance_clip: float | None = Field(default=None, gt=0)
    """Upper bound of importance weights against a mismatch of sampler and learner; null: no such weights, or 2 where
    `max_staleness` is above 0."""
    mismatch_mask: MismatchMask | None = None
    """What learns nothing because sampler and learner disagree about it. `icepop`: a token whose ratio, learner /
    sampler, is outside the bounds; `sequence`: a segment whose product of ratios is; `geometric`: one whose geometric
    mean is; `off_policy`: the negative advantages of one whose geometric mean is below the lower bound. null: nothing
    is left out. Weights (`importance_clip`) may stand beside it."""
    mismatch_low: float | None = Field(default=None, gt=0)
    """null: .5 for `icepop`, none for `sequence`, .99 for `geometric`, e^-.5 for `off_policy`."""
    mismatch_high: float | None = Field(default=None, gt=0)
    """null: 5 for `icepop`, 3 for `sequence`, 1.01 for `geometric`; no effect with `off_policy`."""
    max_staleness: int = Field(default=0, ge=0)
    """By how many versions of the weights (each step makes one) a sampled token may be older than those that learn from
    it. 0: on policy, rollouts and updates take turns; above, they overlap, and importance weights correct the loss."""
    staleness_correction: StalenessCorrection = "decoupled"
    """`decoupled`: clip against the policy before the update, and weigh by how much more likely it makes a token than
    the policy that sampled it (arXiv 2505.24298); `truncated`: no clipping, the weight compares with the policy of each
    pass, which saves a pass. No effect if a rollout is learnt from in a single step."""

    @property
    def mismatch_bounds(self) -> tuple[float, float]:
        """Between which `mismatch_mask`, which is not null, keeps a ratio."""
        assert self.mismatch_mask is not None
        low, high = MISMATCH_BOUNDS[self.mismatch_mask]
        return self.mismatch_low or low, self.mismatch_high or high
