"""Scores actions after prompts that they did not follow: swap the prompt's ids, keep the action's (LAW 1)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.forward import forward
from agent_r1_core.learning.policy import Policy
from agent_r1_core.learning.ranks import ONE_RANK, Ranks
from agent_r1_core.trajectory import Group, Segment, Task, Trajectory


def score_actions(
    policy: Policy,
    prompts: Sequence[Sequence[int]],
    actions: Sequence[Sequence[int]],
    *,
    temperature: float = 1.0,
    max_tokens: int = 4096,
    share: bool = True,
    ranks: Ranks = ONE_RANK,
) -> Tensor:
    """log p(action | prompt), summed over the action's tokens: float64 [actions, prompts], nats, without gradient.

    Args:
        prompts: ids, none empty.
        max_tokens: of a micro-batch.
        share: whether the actions after a prompt share the pass over it.
    """
    groups = [_after(prompt, actions, f"{number}") for number, prompt in enumerate(prompts)]
    batch = Batch.from_groups(groups)
    outputs = forward(
        batch,
        batch.action_mask,
        policy,
        None,
        None,
        old="learner",
        temperature=temperature,
        max_tokens=max_tokens,
        share=share,
        ranks=ranks,
    )
    assert outputs.old_logprobs is not None
    return outputs.old_logprobs.double().sum(1).reshape(len(prompts), len(actions)).T


def _after(prompt: Sequence[int], actions: Sequence[Sequence[int]], name: str) -> Group:
    """Every action after one prompt."""
    task = Task(name, "")
    group = Group(task)
    for sample, action in enumerate(actions):
        segment = Segment()
        segment.append_context(prompt)
        segment.append_action(action, [0.0] * len(action))
        group.trajectories.append(Trajectory(task, sample, [segment]))
    return group
