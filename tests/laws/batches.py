"""Batches of written trajectories, with or without a critic's values."""

from __future__ import annotations

from dataclasses import replace

import torch

from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.critic import Critic
from agent_r1_core.learning.forward import forward
from agent_r1_core.learning.policy import Policy
from agent_r1_core.testing import make_task, tiny_model
from agent_r1_core.trajectory import Group, Trajectory


def batch_of(*trajectories: Trajectory) -> Batch:
    """Of one group."""
    return Batch.from_groups([Group(make_task(), list(trajectories))])


def some_critic() -> Critic:
    """One whose values are not zero."""
    critic = Critic(Policy(tiny_model()))
    torch.nn.init.constant_(critic.head.weight, 0.1)
    return critic


def valued(critic: Critic, *trajectories: Trajectory) -> Batch:
    """A batch with the critic's values, computed in small pieces."""
    batch = batch_of(*trajectories)
    outputs = forward(batch, batch.action_mask, Policy(tiny_model()), None, critic, old=None, max_tokens=12)
    return replace(batch, values=outputs.values, bootstrap=outputs.bootstrap)
