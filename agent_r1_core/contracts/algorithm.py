"""Algorithm: how rewards become advantages, and advantages become a loss at action tokens.

An algorithm is a short file that composes the pure functions of `agent_r1_core.learning`. It sees one rollout as a
`Batch` of padded tensors [trajectories, tokens] for the advantages, and flat tensors [loss tokens] for the loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from agent_r1_core.contracts.component import Component, ComponentConfig

if TYPE_CHECKING:
    from agent_r1_core.contracts.training import ImportanceLevel
    from agent_r1_core.learning.batch import Advantages, Batch
    from agent_r1_core.learning.loss import LossTerms, LossTokens
    from agent_r1_core.trajectory import Group, ObservationSource

Role = Literal["policy", "critic", "reference"]
Aggregation = Literal["token_mean", "sequence_mean", "sequence_sum", "constant"]
GroupFilter = Literal["none", "zero_spread", "resample", "top_share", "top_p"]


class AlgorithmConfig(ComponentConfig):
    """Options that every algorithm has."""

    loss_mask: bool = True
    """Loss at action tokens only. Off, it also covers the environment's tokens: for ablations."""
    aggregation: Aggregation = "token_mean"
    """How token losses become one number: `token_mean` over all loss tokens of the mini-batch, `sequence_mean` the mean
    over trajectories of their token means, `sequence_sum` the mean over trajectories of token sums, `constant` the
    token sum over trajectories x `horizon`."""
    horizon: int = Field(1024, ge=1)
    """Horizon of `aggregation: constant`, in tokens; no effect with the others."""
    entropy_coef: float = Field(0.0, ge=0)
    """Weight of an entropy bonus: each token's loss is reduced by this times the policy's entropy there (nats), before
    aggregation. 0: no bonus. With `entropy_target` it is the first weight."""
    entropy_target: float | None = Field(None, gt=0)
    """Entropy, in nats, towards which the bonus is moved (Skywork-OR1, arXiv 2505.22312): after each update its weight
    rises by `entropy_step` if `update/entropy` was at most this, else it falls, within 0 and 1; after an update above
    it there is no bonus. A checkpoint keeps it. null: the weight stays `entropy_coef`."""
    entropy_step: float = Field(0.005, gt=0)
    """How far the bonus's weight moves after an update; no effect without `entropy_target`."""
    observation_coef: float = Field(0.0, ge=0)
    """Weight of a cross-entropy on observations, -log pi at the environment's tokens after a segment's first action,
    mean over those of the mini-batch (ECHO, arXiv 2605.24517, with .1). It is no credit: those tokens have no advantage
    (LAW 3). 0: none."""
    filter: GroupFilter = "none"
    """Which groups an update learns from; the others are out of it and of its normaliser. `zero_spread` drops those
    whose returns are equal; `resample` too, and plays further tasks in their place until `training.tasks_per_step`
    groups are kept or `training.extra_rollouts` are played (DAPO, arXiv 2503.14476); `top_share` keeps those with the
    largest std of their returns (StarPO-S, 2504.20073), `top_p` the fewest that have `filter_p` of the sum of all stds
    (RAGEN-2, 2604.06268). All but `none` drop groups of one."""
    filter_share: float = Field(0.25, gt=0, le=1)
    """Share of the rollout's groups that `filter: top_share` keeps, rounded up; no effect with the others."""
    filter_p: float = Field(0.9, gt=0, le=1)
    """Share of the sum of stds that `filter: top_p` keeps; no effect with the others."""


class DenseConfig(AlgorithmConfig):
    """Options of algorithms that credit a turn's process reward to the actions up to that turn.

    `agent_r1_core.learning.process` has the formulas.
    """

    gamma: float = Field(1.0, ge=0, le=1)
    """Discount per action token."""
    gamma_turn: float = Field(1.0, ge=0, le=1)
    """Discount per turn: what follows a turn counts this much less to its actions, however many tokens they have."""
    process_scale: float | None = Field(None, gt=0)
    """Root mean square, over the batch's turns, to which process rewards p are scaled: p becomes process_scale x p /
    sqrt(mean p^2), and their weights count only relative to one another, and rewards that few turns get grow. null:
    they stay as they are."""


class Algorithm(Component):
    """Turns one rollout into a loss.

    `filter` and `more_tasks` are asked of another instance than the learner's, which may be in another process: what
    they keep in `self`, `advantages` does not see.
    """

    Config = AlgorithmConfig

    @classmethod
    def idle_options(cls, config: Any) -> dict[str, str]:
        """Options without effect; an algorithm with options of its own adds to these."""
        idle = {}
        if config.aggregation != "constant":
            idle["horizon"] = f"only `aggregation: constant` divides by it, and it is {config.aggregation}"
        if config.entropy_target is None:
            idle["entropy_step"] = "there is no entropy_target"
        for option, filter in (("filter_share", "top_share"), ("filter_p", "top_p")):
            if config.filter != filter:
                idle[option] = f"only `filter: {filter}` reads it, and it is {config.filter}"
        return idle

    def roles(self) -> frozenset[Role]:
        """The networks that this configuration needs; always the policy."""
        return frozenset({"policy"})

    def reference_model(self) -> str | None:
        """The model that the role `reference` has, as `model.name` names one; it must have the policy's tokenizer.
        None: the run's first model."""
        return None

    def filter(self, groups: Sequence[Group]) -> list[Group]:
        """The groups to train on, of those that the option `filter` keeps; all of them by default.

        A group may also come back as one with some of its trajectories alone, as
        `dataclasses.replace(group, trajectories=[...])` makes it; the others are then in no statistic and in no
        normaliser. A group that is left without any is to be left out.
        """
        return list(groups)

    def filter_metrics(self, groups: Sequence[Group], kept: Sequence[Group]) -> dict[str, float]:
        """What to log of a step's choice, by names that the algorithm declares; asked for once a step, also where
        nothing is kept and no update is made.

        Args:
            groups: all that were played.
            kept: those that the option `filter` and `filter` leave.
        """
        return {}

    def more_tasks(self, groups: Sequence[Group], tasks: int) -> int:
        """How many more tasks to play before the update, beside those of `filter: resample`; 0: none.

        The learner asks again after each further rollout, at most `training.extra_rollouts` times a step.

        Args:
            groups: those that were kept so far in this step.
            tasks: how many tasks were played for them.
        """
        return 0

    @classmethod
    def asks_for_more(cls) -> bool:
        """Whether the algorithm ever asks for more tasks; otherwise `training.extra_rollouts` has no effect (LAW 8)."""
        return cls.more_tasks is not Algorithm.more_tasks

    def needs_greedy_baseline(self) -> bool:
        """True when `advantages` reads `batch.baseline`: each task of a step is then played once more, greedily, with
        the same weights and tools. A group whose greedy episode failed has none; drop it in `filter`."""
        return False

    def trees(self) -> int:
        """How many episodes of each task begin at its start; the others of the group branch off from these, behind a
        turn whose actions, and all before, they repeat. 0: all begin at the start."""
        return 0

    def hint(self) -> str | None:
        """What a teacher reads at the end of each task's first observation, and the policy does not: `{answers}` in it
        stands for the task's answers, and `{key}` for an entry of its metadata. `batch.reference_logprobs` are then
        those of actions behind a prompt that holds it: the reference's, or, without that role, the policy's own before
        the update. A task that lacks what the hint names is read without. None: all read the same."""
        return None

    def demonstrations(self) -> ObservationSource | None:
        """Where the observations of demonstrations come from, `tools` or `file`, for an algorithm that learns from the
        tasks' demonstrations: each is then played in the policy's place. None: the policy plays."""
        return None

    def compares_samples(self) -> bool:
        """Whether advantages compare the episodes of a group, so that rewards give a group of one, or one without
        spread, none (LAW 7). True unless an algorithm says otherwise."""
        return True

    def needs_spread(self) -> bool:
        """Whether the algorithm learns only where returns differ. If not, no monitor judges their spread."""
        return True

    def advantages(self, batch: Batch) -> Advantages:
        """Advantages [trajectories, tokens], zero outside the credited tokens (LAW 3)."""
        raise TypeError(f"algorithm {type(self).__name__} defines no advantages(batch); add one")

    def loss(self, tokens: LossTokens) -> LossTerms:
        """The loss of a micro-batch: a sum over tokens of `weights` times each token's loss (LAW 6)."""
        raise TypeError(f"algorithm {type(self).__name__} defines no loss(tokens); add one")

    def credits_turns(self) -> bool:
        """Whether a turn's process reward is credited to the actions up to that turn; if not, only its sum over the
        trajectory counts. `--dry-run` says which."""
        return isinstance(self.config, DenseConfig)

    def trusts_critic(self) -> bool:
        """Whether the critic's values stand in for rewards to come, and are more than a baseline, so that one that has
        learnt too little misleads the policy."""
        return False

    def needs_entropy(self) -> bool:
        """True when the loss has a gradient through `tokens.entropy`: from the bonus of `entropy_coef`, which the
        learner itself subtracts, or from a term of the algorithm's own. If False, the learner computes entropies
        without a gradient, which saves time and memory."""
        return bool(self.config.entropy_coef > 0 or self.config.entropy_target is not None)

    def needs_every_trajectory(self) -> bool:
        """True when a trajectory without advantage still has a gradient (KL, entropy, value, observations): none is
        skipped."""
        return bool(self.roles() - {"policy"} or self.needs_entropy() or self.config.observation_coef > 0)

    def needs_old_logprobs(self) -> bool:
        """True when `advantages` reads `batch.old_logprobs` (a KL term in the reward): the learner then computes them
        in a pass of their own before it asks for advantages."""
        return False

    def importance_level(self) -> ImportanceLevel | None:
        """Of what the loss has one importance ratio: a token, or a turn or a whole trajectory, with the geometric mean
        of its tokens'. Weights against a stale or disagreeing sampler are then taken in the same way. None: the loss
        compares with the policy that sampled, which stands in `old_logprobs`, and gets no weights."""
        return "token"

    def uses_old_logprobs(self, epochs: int, minibatches: int) -> bool:
        """Whether the learner needs log-probs from before the update: there are several optimiser steps per rollout, or
        `advantages` reads them. A single step gets them from its own forward pass."""
        return epochs * minibatches > 1 or self.needs_old_logprobs()
