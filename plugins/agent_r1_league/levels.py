"""Credit per token, per turn and per episode, and how far it is from the truth at each.

The credit of a turn or an episode is the mean over its tokens, its truth the sum of their exact advantages: what the
agent's decisions there were worth, luck left out. With x the credit, y the truth, u what was decided (a token at its
place, a word in its state; for episodes one of up to ten bins of y) and s where (the place, the state, anywhere):

    m(u) = E[x | u] - E[x | s],   t(u) = E[y | u] - E[y | s],   c = <m, t> / <m, m>,
    bias^2 = <c m - t, c m - t> / <t, t>,   variance = E[(c x - y)^2] / E[y^2] - bias^2

<,> weighs by how often u is decided. So neither scale nor a baseline that depends on s alone is a bias, and a baseline
other than the state's value is variance. Both are shares of the truth's mean square; an estimator that says nothing has
bias^2 1 and variance 0. Products of means are taken between two halves of the updates, whose noise is independent; each
of them is summed over policies before it divides, since a single one may be all noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from agent_r1_core.learning.batch import Batch
from agent_r1_league.estimator import Played
from agent_r1_league.truth import Places, Truth

LEVELS = ("token", "turn", "episode")
_BINS = 10


@dataclass(frozen=True)
class Credited:
    """Credits of some updates at one level, [n] each."""

    credit: Tensor
    truth: Tensor
    decided: Tensor
    """long: the number of what was decided."""
    where: Tensor
    """long: the number of where it was decided."""
    half: Tensor
    """long: 0 or 1."""


def spread(advantages: Tensor, batch: Batch, level: str) -> Tensor:
    """The advantages [n, T], each replaced by the mean over its turn or its episode."""
    if level == "token":
        return advantages
    units = _units(batch, level)
    sums = torch.zeros(int(units.max()) + 1).index_add(0, units, advantages[batch.action_mask])
    even = torch.zeros_like(advantages)
    even[batch.action_mask] = (sums / torch.bincount(units))[units]
    return even


def credited(level: str, advantages: Tensor, played: Played, truth: Truth, places: Places, half: int) -> Credited:
    """The advantages [n, T] of one update as credits; of tokens, those of them where the policy had a choice."""
    batch = played.batch
    here, ids = played.places[batch.action_mask], batch.ids[batch.action_mask]
    credit, own = advantages[batch.action_mask].double(), truth.of(here, ids)
    decided, where = here * len(places.tokens) + ids, here
    if level != "token":
        units = _units(batch, level)
        count, numbers = int(units.max()) + 1, torch.arange(len(units))
        zeros = own.new_zeros(count)
        credit = zeros.index_add(0, units, credit) / torch.bincount(units)
        own = zeros.index_add(0, units, own)
        last = units.new_zeros(count).scatter_reduce(0, units, numbers, "amax")
        first = units.new_full((count,), len(units)).scatter_reduce(0, units, numbers, "amin")
        decided, where = decided[last], where[first]
        if level == "episode":
            decided = where = torch.zeros_like(last)
    else:
        choice = places.allowed.sum(1)[here] > 1
        credit, own, decided, where = credit[choice], own[choice], decided[choice], where[choice]
    return Credited(credit, own, decided, where, torch.full_like(decided, half))


def moments(level: str, updates: list[Credited]) -> list[float]:
    """<m, t>, <m, m>, <t, t>, E[x y], E[x^2] and E[y^2] of the credits of one policy's updates."""
    x, y, decided, where, half = (
        torch.cat([getattr(update, name) for update in updates]) for name in Credited.__dataclass_fields__
    )
    if level == "episode":
        _, value, counts = y.round(decimals=9).unique(return_inverse=True, return_counts=True)
        decided = ((counts.cumsum(0) - counts) * _BINS // len(y))[value]  # equal truths are one decision
    _, decided = decided.unique(return_inverse=True)
    halves = [half == number for number in (0, 1)]
    first, second = (_centred(x, decided, where, own) for own in halves)
    one, other = (_centred(y, decided, where, own) for own in halves)
    both = torch.stack([torch.bincount(decided[own], minlength=len(first)) for own in halves]).all(0)
    weight = torch.bincount(decided) * both / len(decided)
    products = ((first * other + second * one) / 2, first * second, one * other)
    return [
        *(float((weight * product).sum()) for product in products),
        *map(float, ((x * y).mean(), (x * x).mean(), (y * y).mean())),
    ]


def errors(sums: Sequence[Any]) -> tuple[Any, Any]:
    """The squared bias and the variance, from moments or from arrays of them."""
    mt, mm, tt, xy, xx, yy = map(np.asarray, sums)
    c = np.maximum(0.0, np.divide(mt, mm, out=np.zeros_like(mt), where=mm > 0))
    bias = (c**2 * mm - 2 * c * mt + tt) / tt
    return bias, (c**2 * xx - 2 * c * xy + yy) / yy - bias


def _centred(values: Tensor, decided: Tensor, where: Tensor, chosen: Tensor) -> Tensor:
    """E[values | what was decided] - E[values | where], over the chosen ones."""
    return _means(values, decided, chosen) - _means(_means(values, where, chosen)[where], decided, chosen)


def _units(batch: Batch, level: str) -> Tensor:
    """The number of the turn or the episode of each action token, [action tokens]."""
    rows = torch.arange(batch.size)[:, None].expand_as(batch.turn)
    keys = rows * (int(batch.turn.max()) + 1) + batch.turn if level == "turn" else rows
    units: Tensor = keys[batch.action_mask].unique(return_inverse=True)[1]
    return units


def _means(values: Tensor, unit: Tensor, chosen: Tensor) -> Tensor:
    """The mean of the chosen values of each unit, 0 where it has none."""
    counts = torch.bincount(unit[chosen], minlength=int(unit.max()) + 1)
    sums = values.new_zeros(len(counts)).index_add(0, unit[chosen], values[chosen])
    return sums / counts.clamp(min=1)
