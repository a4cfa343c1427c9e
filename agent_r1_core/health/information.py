"""Does what the policy says first depend on what it was asked? Mutual information and retrieval (RAGEN-2, 2604.06268).

Template collapse is invisible to entropy: the text stays diverse and no longer depends on the task. With the first
action z_i of an episode (all its tokens), its prompt x_i, and m prompts,

    I(X;Z) = mean_i [ log p(z_i | x_i) - log (1/m sum_j p(z_i | x_j)) ],  from 0 (or a little below) to log m nats,

and retrieval is the share of the z_i that are likelier after their own prompt than after any other; by chance 1/m. p is
the probability of the whole action, not normalised by its length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from agent_r1_core.trajectory import Group

PROMPTS = 8
"""Prompts of a measurement, all different."""
SAMPLES = 8
"""Episodes of each."""


@dataclass(frozen=True)
class FirstActions:
    """What a measurement scores: every action after every prompt."""

    prompts: list[list[int]]
    """Ids before the first action, [m]."""
    actions: list[list[int]]
    """Ids of the first actions, [n]."""
    own: list[int]
    """Each action's prompt, [n]."""

    @classmethod
    def of(cls, groups: Sequence[Group]) -> FirstActions | None:
        """Those of the first groups with different prompts; None if there are not two."""
        chosen = cls([], [], [])
        for group in groups:
            if len(chosen.prompts) < PROMPTS:
                chosen._take(group)
        return chosen if len(chosen.prompts) > 1 else None

    def _take(self, group: Group) -> None:
        """Add a group, if its prompt is new; an episode that began with another prompt stays out."""
        pairs = []
        for trajectory in group.trajectories:
            for turn in trajectory.turns[:1]:
                ids = trajectory.segments[turn.segment].ids
                pairs.append((ids[: turn.start], ids[turn.start : turn.stop]))
        pairs = [(prompt, action) for prompt, action in pairs if action and prompt == pairs[0][0]][:SAMPLES]
        if pairs and pairs[0][0] not in self.prompts:
            self.own.extend([len(self.prompts)] * len(pairs))
            self.prompts.append(pairs[0][0])
            self.actions.extend(action for _, action in pairs)


def mutual_information(logprobs: Sequence[list[float]], own: Sequence[int]) -> float:
    """I(X;Z) in nats.

    Args:
        logprobs: log p(z_i | x_j), [n, m], nats.
        own: the prompt of each action, [n].
    """
    return fmean(row[column] - _log_mean(row) for row, column in zip(logprobs, own, strict=True))


def retrieval_accuracy(logprobs: Sequence[list[float]], own: Sequence[int]) -> float:
    """The share of actions that are likeliest after their own prompt; a tie of k prompts counts 1/k.

    Args:
        logprobs: log p(z_i | x_j), [n, m], nats.
        own: the prompt of each action, [n].
    """
    rows = zip(logprobs, own, strict=True)
    return fmean((row[column] == max(row)) / row.count(max(row)) for row, column in rows)


def _log_mean(row: Sequence[float]) -> float:
    highest = max(row)
    return highest + math.log(fmean(math.exp(value - highest) for value in row))
