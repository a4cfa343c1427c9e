"""Batch: one rollout as padded tensors [trajectories, tokens], and Advantages, what an algorithm makes of it.

A row is a trajectory with all its segments in the order in which they were generated. Everything is on the CPU and as
long as the longest trajectory; the learner packs rows without padding before a model sees them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from agent_r1_core.attribute_texts import show_attributes
from agent_r1_core.contracts.token_numbers import TokenNumbers
from agent_r1_core.trajectory import EndStatus, Group, Trajectory


@show_attributes
@dataclass
class Advantages:
    """What an algorithm computed from a batch."""

    advantages: Tensor
    """[n, T], 0 outside the credited tokens."""
    value_targets: Tensor | None = None
    """[n, T], what the critic learns; None without a critic."""
    value_mask: Tensor | None = None
    """bool [n, T], where it learns; the action tokens where None."""
    metrics: dict[str, float] = field(default_factory=dict)
    """What to log of the step, by the names that the algorithm declares."""
    warnings: tuple[str, ...] = ()
    """Sentences that the user should read; a run tells each of them once."""


@show_attributes
@dataclass
class Batch:
    """One rollout. [n, T] tensors are 0, false or -1 where a row has ended.

    It is read-only for an algorithm, and so are its trajectories: a run refuses one that changes a tensor, or the
    rewards, ids, masks or log-probs of a trajectory.
    """

    trajectories: list[Trajectory]
    """[n]: those that did not fail, group by group."""
    ids: Tensor
    """long [n, T]."""
    valid: Tensor
    """bool [n, T]: not padding."""
    action_mask: Tensor
    """bool [n, T]: ids that the policy sampled."""
    response_mask: Tensor
    """bool [n, T]: ids from a segment's first action on, the environment's too (for ablations alone)."""
    turn: Tensor
    """long [n, T]: index of the turn at its action tokens, else -1."""
    rewards: Tensor
    """float [n, T]: process rewards at the last action token of their turn, the outcome reward at the trajectory's last
    action token (LAW 4)."""
    process_rewards: Tensor
    """float [n, T]: the part of `rewards` that is process rewards."""
    sampler_logprobs: Tensor
    """float [n, T]: the engine's log-probs of sampled ids, nats; NaN at the actions of demonstrations."""
    versions: Tensor
    """long [n, T]: of the weights that sampled the id; -1 where that is not known, and at ids that nobody sampled."""
    group: Tensor
    """long [n]: number of the trajectory's group."""
    demonstrated: Tensor
    """bool [n]: nobody sampled its actions, which are a demonstration's."""
    returns: Tensor
    """float [n]: outcome plus process rewards, undiscounted."""
    baseline: Tensor
    """float [n]: the return of the group's greedy baseline, nan where it has none."""
    bootstrapped: Tensor
    """bool [n]: a limit outside the MDP cut it, so that `bootstrap` continues it (LAW 5)."""
    bootstrap: Tensor
    """float [n]: V of the state after the last id where `bootstrapped`, else 0; filled by the critic."""
    reward_weights: Mapping[str, float] = field(default_factory=dict)
    """What the recipe multiplies each reward with, by its name; 1 where it does not say."""
    old_logprobs: Tensor | None = None
    """float [n, T] before the update, where several passes or the algorithm need them."""
    reference_logprobs: Tensor | None = None
    """float [n, T], with the reference role, or of whoever reads the algorithm's hint."""
    values: Tensor | None = None
    """float [n, T], with the critic role: V of the state before the token (LAW 3)."""

    @classmethod
    def from_groups(cls, groups: Sequence[Group], reward_weights: Mapping[str, float] | None = None) -> Batch:
        """Lay out all trajectories that did not fail; a failed one never trains (LAW 5).

        Raises:
            ValueError: a segment begins with an action, or a turn's span is not an action of its segment.
        """
        rows = [(number, t) for number, g in enumerate(groups) for t in g.trajectories if t.status != EndStatus.FAILED]
        trajectories = [trajectory for _, trajectory in rows]
        shape = (len(rows), max((trajectory.tokens for trajectory in trajectories), default=0))
        batch = cls(
            trajectories=trajectories,
            ids=torch.zeros(shape, dtype=torch.long),
            valid=torch.zeros(shape, dtype=torch.bool),
            action_mask=torch.zeros(shape, dtype=torch.bool),
            response_mask=torch.zeros(shape, dtype=torch.bool),
            turn=torch.full(shape, -1, dtype=torch.long),
            rewards=torch.zeros(shape),
            process_rewards=torch.zeros(shape),
            sampler_logprobs=torch.zeros(shape),
            versions=torch.full(shape, -1, dtype=torch.long),
            group=torch.tensor([number for number, _ in rows], dtype=torch.long),
            demonstrated=torch.tensor([one.demonstrated is not None for one in trajectories], dtype=torch.bool),
            returns=torch.tensor([trajectory.total_reward for trajectory in trajectories], dtype=torch.float32),
            baseline=torch.tensor([_baseline(groups[number]) for number, _ in rows], dtype=torch.float32),
            bootstrapped=torch.tensor([trajectory.bootstrap for trajectory in trajectories], dtype=torch.bool),
            bootstrap=torch.zeros(len(rows)),
            reward_weights=dict(reward_weights or {}),
        )
        for row, trajectory in enumerate(trajectories):
            _fill_tokens(batch, row, trajectory)
            _fill_rewards(batch, row, trajectory)
        return batch

    @property
    def size(self) -> int:
        """Number of trajectories."""
        return len(self.trajectories)

    @property
    def sampled(self) -> Tensor:
        """bool [n, T]: action tokens that an engine sampled, so that it has said how likely they were."""
        return self.action_mask & ~self.demonstrated[:, None]

    def fresh(self, version: int) -> Tensor:
        """bool [n, T]: action tokens that these weights sampled, as far as it is known."""
        return self.sampled & ((self.versions == version) | (self.versions < 0))

    def numbers(
        self, advantages: Tensor, learner_logprobs: Tensor | None = None, values: Tensor | None = None
    ) -> TokenNumbers:
        """Numbers [n, T] without padding, for files and reports."""
        ends = self.valid.sum(1).cumsum(0).tolist()
        spans = {one.id: (start, stop) for one, start, stop in zip(self.trajectories, [0, *ends], ends, strict=False)}
        own, scored = (None if one is None else self._flat(one) for one in (learner_logprobs, values))
        return TokenNumbers(spans, self._flat(advantages), own, scored)

    def _flat(self, numbers: Tensor) -> Any:
        return numbers[self.valid].float().numpy()


def _baseline(group: Group) -> float:
    """A failed episode is no baseline, above all none of zero (LAW 5)."""
    greedy = group.baseline
    return greedy.total_reward if greedy is not None and greedy.status is not EndStatus.FAILED else math.nan


def _fill_tokens(batch: Batch, row: int, trajectory: Trajectory) -> None:
    offset = 0
    for number, segment in enumerate(trajectory.segments):
        stop = offset + len(segment.ids)
        mask = torch.tensor(segment.mask, dtype=torch.bool)
        if segment.mask and segment.mask[0]:
            raise ValueError(
                f"segment {number} of trajectory {trajectory.id} begins with an action, whose first id has no context "
                "and so no log-prob; give the policy a prompt"
            )
        batch.ids[row, offset:stop] = torch.tensor(segment.ids, dtype=torch.long)
        batch.valid[row, offset:stop] = True
        batch.action_mask[row, offset:stop] = mask
        batch.response_mask[row, offset:stop] = mask.long().cumsum(0) > 0
        batch.sampler_logprobs[row, offset:stop] = torch.tensor(segment.logprobs)
        offset = stop


def _fill_rewards(batch: Batch, row: int, trajectory: Trajectory) -> None:
    """Rewards reach actions (LAW 4); a turn whose action is empty hands its own to the nearest earlier action token,
    or, where there is none, to the first later one."""
    actions = batch.action_mask[row].nonzero().flatten()
    starts = trajectory.starts
    for turn in trajectory.turns:
        start, stop = starts[turn.segment] + turn.start, starts[turn.segment] + turn.stop
        if not bool(batch.action_mask[row, start:stop].all()):
            raise ValueError(
                f"turn {turn.index} of trajectory {trajectory.id} names ids {turn.start} to {turn.stop} of segment "
                f"{turn.segment} as its action, but some of them have action mask 0; record actions with append_action"
            )
        batch.turn[row, start:stop] = turn.index
        sampled = start
        for version, tokens in turn.versions:
            batch.versions[row, sampled : sampled + tokens] = version
            sampled += tokens
        if len(actions):
            position = _reward_position(start, stop, actions)
            batch.rewards[row, position] += turn.reward
            batch.process_rewards[row, position] += turn.reward
    if len(actions):
        batch.rewards[row, actions[-1]] += trajectory.reward


def _reward_position(start: int, stop: int, actions: Tensor) -> int:
    if stop > start:
        return stop - 1
    earlier = int((actions < start).sum())
    return int(actions[max(earlier - 1, 0)])
