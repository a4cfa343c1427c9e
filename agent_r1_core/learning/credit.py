"""Credit along a trajectory: masked GAE and returns to go, over the credited tokens alone (LAW 3).

Rows are trajectories with all their segments in order. A token outside the mask is as if it were not there: nothing
stored at it is read, and it costs no discount. Values stand at the token that they score: `values[t]` is V of the
state before token t.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from agent_r1_core.learning.kl import KlEstimator, kl_estimate
from agent_r1_core.learning.masking import compact, masked_mean

if TYPE_CHECKING:
    from agent_r1_core.learning.batch import Batch


def gae(
    rewards: Tensor,
    values: Tensor,
    mask: Tensor,
    gamma: float | Tensor,
    lam: float | Tensor,
    bootstrap: Tensor | None = None,
    ends: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimation (Schulman et al., arXiv 1506.02438) over a row's credited tokens i_1..i_K:

    delta_k = r_k + gamma V_{k+1} - V_k,  A_k = delta_k + gamma lam A_{k+1},  with V_{k+1} the value at the next
    credited token, after the last one the bootstrap.

    Args:
        rewards, values: [n, T].
        mask: bool [n, T], the credited tokens.
        gamma: one discount, or one for each token, [n, T]: what follows token t is multiplied by gamma[t].
        lam: one lambda, or one for each row, [n].
        bootstrap: [n] value after the last id where a limit outside the MDP cut the trajectory, else 0 (LAW 5).
        ends: bool [n, T], credited tokens that nothing follows: neither value nor advantage of later ones reaches them.

    Returns:
        advantages [n, T] and value targets A + V [n, T], both 0 outside the mask.
    """
    index, present = compact(mask)
    reward, value = _take(rewards, index, present), _take(values, index, present)
    discount = _discounts(gamma, rewards, index, present)
    ended = torch.zeros_like(present) if ends is None else ends.gather(1, index) & present
    advantage = values.new_zeros(values.shape[0])
    next_value = advantage if bootstrap is None else bootstrap
    columns = torch.zeros_like(value)
    for k in range(value.shape[1] - 1, -1, -1):
        here = present[:, k]
        advantage, next_value = (torch.where(ended[:, k], 0.0, one) for one in (advantage, next_value))
        delta = reward[:, k] + discount[:, k] * next_value - value[:, k]
        advantage = torch.where(here, delta + discount[:, k] * lam * advantage, advantage)
        next_value = torch.where(here, value[:, k], next_value)
        columns[:, k] = advantage
    return _put(columns, index, present, mask), _put(columns + value, index, present, mask)


def returns_to_go(rewards: Tensor, mask: Tensor, gamma: float | Tensor) -> Tensor:
    """G_k = r_k + gamma G_{k+1} over a row's credited tokens; [n, T], 0 outside the mask. `gamma` as in `gae`."""
    index, present = compact(mask)
    reward = _take(rewards, index, present)
    discount = _discounts(gamma, rewards, index, present)
    columns = torch.zeros_like(reward)
    running = rewards.new_zeros(rewards.shape[0])
    for k in range(reward.shape[1] - 1, -1, -1):
        running = torch.where(present[:, k], reward[:, k] + discount[:, k] * running, running)
        columns[:, k] = running
    return _put(columns, index, present, mask)


def lam_of_length(mask: Tensor, alpha: float) -> Tensor:
    """lam = 1 - 1 / (alpha l) for each row, [n], with l its credited tokens (VAPO, arXiv 2504.05118): the weights
    1, lam, lam^2, ... then sum to about alpha l. At least 0, where alpha l is below 1."""
    return (1 - 1 / (alpha * mask.sum(1).clamp(min=1))).clamp(min=0)


def spread_over(per_row: Tensor, mask: Tensor) -> Tensor:
    """Give each of a row's credited tokens the row's number: [n] to [n, T], 0 outside the mask."""
    return torch.where(mask, per_row[:, None], per_row.new_zeros(()))


def _take(values: Tensor, index: Tensor, present: Tensor) -> Tensor:
    return torch.where(present, values.gather(1, index), values.new_zeros(()))


def _discounts(gamma: float | Tensor, like: Tensor, index: Tensor, present: Tensor) -> Tensor:
    return _take(gamma if isinstance(gamma, Tensor) else torch.full_like(like, gamma), index, present)


def _put(columns: Tensor, index: Tensor, present: Tensor, mask: Tensor) -> Tensor:
    counted = torch.where(present, columns, columns.new_zeros(()))
    return columns.new_zeros(mask.shape).scatter(1, index, counted)


def kl_in_reward(
    batch: Batch, coefficient: float, rewards: Tensor | None = None, estimator: KlEstimator = "k1"
) -> Tensor:
    """The batch's rewards [n, T], less `coefficient` times the estimated KL of the policy before the update to the
    reference at every action token; at 0 as they are.

    Args:
        rewards: [n, T], in place of the batch's own.
        estimator: k1, log pi_old - log pi_ref, or another of kl.py.

    Raises:
        ValueError: the batch lacks the old or the reference log-probs.
    """
    rewards = batch.rewards if rewards is None else rewards
    if coefficient == 0:
        return rewards
    if batch.old_logprobs is None or batch.reference_logprobs is None:
        raise ValueError(
            "a KL in the reward needs old and reference log-probs; name `reference` in the algorithm's roles and "
            "return True from needs_old_logprobs"
        )
    penalty = kl_estimate(batch.old_logprobs, batch.reference_logprobs, estimator)
    return rewards - coefficient * torch.where(batch.action_mask, penalty, penalty.new_zeros(()))


def reference_kl(batch: Batch, estimator: KlEstimator = "k1") -> dict[str, float]:
    """The metric `kl_reference` of a KL in the reward: the mean estimate over action tokens; nothing without one."""
    if batch.old_logprobs is None or batch.reference_logprobs is None:
        return {}
    estimate = kl_estimate(batch.old_logprobs, batch.reference_logprobs, estimator)
    return {"kl_reference": float(masked_mean(estimate, batch.action_mask))}
