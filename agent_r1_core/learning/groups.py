"""Group baselines. A group is the trajectories of one task under one policy version (LAW 7).

The advantages take `returns` [n], the trajectories' returns R, and `group` [n], the number of each one's group, and
give an advantage per trajectory [n]. A group of one, or one whose returns are all equal, tells nothing: advantage
exactly 0. Returns that differ by rounding alone are equal (`ROUNDING` of agent_r1_core/trajectory.py), as are those of
the same rewards in another order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from agent_r1_core.learning.masking import whiten
from agent_r1_core.learning.turns import turn_borders
from agent_r1_core.metrics.tally import earned_rewards
from agent_r1_core.trajectory import ROUNDING

if TYPE_CHECKING:
    from agent_r1_core.learning.batch import Batch


@dataclass(frozen=True)
class GroupStatistics:
    """Statistics of each trajectory's own group, [n]."""

    mean: Tensor
    std: Tensor
    """With n - 1; 0 for a group of one."""
    size: Tensor
    informative: Tensor
    """bool: the group has at least two returns that differ by more than rounding."""


def group_statistics(returns: Tensor, group: Tensor) -> GroupStatistics:
    """Mean, standard deviation and size of every trajectory's group, taken in float64."""
    values = returns.double()
    count = int(group.max()) + 1 if group.numel() else 0
    zeros = values.new_zeros(count)
    size = zeros.index_add(0, group, torch.ones_like(values))
    mean = zeros.index_add(0, group, values) / size.clamp(min=1)
    squares = zeros.index_add(0, group, (values - mean[group]) ** 2)
    std = torch.sqrt(squares / (size - 1).clamp(min=1))
    lowest = zeros.scatter_reduce(0, group, values, "amin", include_self=False)
    highest = zeros.scatter_reduce(0, group, values, "amax", include_self=False)
    rounding = ROUNDING * torch.maximum(lowest.abs(), highest.abs()).clamp(min=1)
    return GroupStatistics(mean[group], std[group], size[group], (highest - lowest > rounding)[group])


def group_mean_advantage(returns: Tensor, group: Tensor) -> Tensor:
    """R_i - mean_G (Dr. GRPO, arXiv 2503.20783)."""
    statistics = group_statistics(returns, group)
    return _where_informative(returns.double() - statistics.mean, statistics, returns)


def group_normalised_advantage(returns: Tensor, group: Tensor, eps: float) -> Tensor:
    """(R_i - mean_G) / (std_G + eps), std with n - 1 (GRPO, arXiv 2402.03300)."""
    statistics = group_statistics(returns, group)
    return _where_informative((returns.double() - statistics.mean) / (statistics.std + eps), statistics, returns)


def leave_one_out_advantage(returns: Tensor, group: Tensor) -> Tensor:
    """R_i minus the mean of the others = n / (n - 1) (R_i - mean_G) (RLOO, arXiv 2402.14740)."""
    statistics = group_statistics(returns, group)
    scale = statistics.size / (statistics.size - 1).clamp(min=1)
    return _where_informative(scale * (returns.double() - statistics.mean), statistics, returns)


def mean_scaled_advantage(returns: Tensor, group: Tensor) -> Tensor:
    """(R_i - mean_G) / mean_G |R|; where no return is negative, (R_i - mean_G) / mean_G (MaxRL, arXiv 2602.02710)."""
    statistics = group_statistics(returns, group)
    scale = group_statistics(returns.abs(), group).mean
    return _where_informative((returns.double() - statistics.mean) / scale, statistics, returns)


def decoupled_advantage(batch: Batch, advantage: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """sum_k w_k advantage(r_k), whitened over the batch's trajectories (GDPO, arXiv 2601.05242); [n].

    r_k is what a trajectory got by the reward k, outcome and turns together, unweighted, w_k the reward's weight. What
    is left of the returns, where no reward's name stands at it, is a reward of weight 1.

    Args:
        advantage: of returns and groups, as the functions above.
    """
    earned = [earned_rewards(one) for one in batch.trajectories]
    rest = torch.tensor([one.total_reward for one in batch.trajectories], dtype=torch.float64)
    total = torch.zeros_like(rest)
    for name in sorted({name for one in earned for name in one}):
        weight = batch.reward_weights.get(name, 1.0)
        scores = torch.tensor([one.get(name, 0.0) for one in earned], dtype=torch.float64)
        rest = rest - weight * scores
        total = total + weight * advantage(scores, batch.group)
    total = (total + advantage(rest, batch.group)).float()
    return torch.where(total.abs() > ROUNDING, whiten(total, torch.ones_like(total, dtype=torch.bool)), 0.0)


def _where_informative(advantage: Tensor, statistics: GroupStatistics, returns: Tensor) -> Tensor:
    return torch.where(statistics.informative, advantage, torch.zeros_like(advantage)).to(returns.dtype)


def tree_groups(batch: Batch) -> Tensor:
    """The number of each trajectory's tree, [n]: what begins at the start, and all of its group that branches off from
    it."""
    numbers: dict[tuple[int, int], int] = {}
    keys = zip(batch.group.tolist(), batch.trajectories, strict=True)
    roots = [(group, one.sample if one.branched_from is None else one.branched_from) for group, one in keys]
    return torch.tensor([numbers.setdefault(root, len(numbers)) for root in roots], dtype=torch.long)


def anchor_groups(batch: Batch) -> Tensor:
    """At the first action token of each turn with a `state_key`, the number of its anchor group, else -1; long [n, T].

    An anchor group is the turns of one group whose state has the same name, those of one trajectory that came back to
    it included (GiGPO, arXiv 2505.10978). Groups never share one: their tasks differ (LAW 7).
    """
    numbers: dict[tuple[int, str], int] = {}
    anchors = torch.full(batch.turn.shape, -1, dtype=torch.long)
    first, _ = turn_borders(batch.turn)
    for row, column in first.nonzero().tolist():
        key = _state_key(batch, row, int(batch.turn[row, column]))
        if key is not None:
            group = int(batch.group[row])
            anchors[row, column] = numbers.setdefault((group, key), len(numbers))
    return anchors


def _state_key(batch: Batch, row: int, index: int) -> str | None:
    return next(turn.state_key for turn in batch.trajectories[row].turns if turn.index == index)
