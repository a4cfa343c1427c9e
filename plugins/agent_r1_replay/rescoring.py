"""Scores recorded episodes by other rewards.

What environments and tools gave stays as it was recorded, and tools' rewards as they were capped. A process reward
sees the turns up to its own, with the messages that the next turn or the end of the episode shows as the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agent_r1_core.assembly.components import make_rewards, make_tool_rewards
from agent_r1_core.errors import EpisodeError
from agent_r1_core.rollout import RolloutResult, ToolReward
from agent_r1_core.rollout.scoring import GroupScorer, Scorer
from agent_r1_core.tools.threads import ThreadPool
from agent_r1_core.trajectory import EndStatus, Trajectory
from agent_r1_replay.recorded import groups_of

if TYPE_CHECKING:
    from agent_r1_core.config import ResolvedConfig
    from agent_r1_core.contracts.reward import SamplingPolicy

_AT_ONCE = 64
_ENV = "env"


async def rescored(
    trajectories: Sequence[Trajectory], resolved: ResolvedConfig, old_rewards: Sequence[str], policy: SamplingPolicy
) -> list[Trajectory]:
    """Copies of the trajectories with the rewards of a configuration, in their order.

    Args:
        old_rewards: the names of the rewards that they were recorded with.
        policy: the one that sampled them.

    Raises:
        EpisodeError: a reward is broken.
    """
    named = {name for one in trajectories for turn in one.turns for name in turn.rewards}
    own = make_tool_rewards(resolved)
    tools = {name: own.get(name, ToolReward()) for name in named - {_ENV, *old_rewards}}
    rewards, threads = make_rewards(resolved), ThreadPool(_AT_ONCE)
    scorer, groups = Scorer(rewards, threads, tools), GroupScorer(rewards, policy)
    try:
        scored = [await _rescored(one, scorer, {_ENV, *tools}) for one in trajectories]
        await groups.score(RolloutResult(groups_of(scored)))
        failed = next((one for one in scored if one.status is EndStatus.FAILED), None)
        if failed is not None:
            raise EpisodeError(failed.reason)
        return scored
    finally:
        threads.close()
        groups.close()


async def _rescored(trajectory: Trajectory, scorer: Scorer, kept: set[str]) -> Trajectory:
    """A copy whose turns and end are scored anew; `kept` are the rewards that no reward function gave."""
    turns = [
        replace(
            turn,
            reward=turn.rewards.get(_ENV, 0.0),
            rewards={name: value for name, value in turn.rewards.items() if name in kept},
            notes={},
        )
        for turn in trajectory.turns
    ]
    answers = [turn.observation for turn in turns[1:]] + [trajectory.closing]
    for number, turn in enumerate(turns):
        if turn.purpose == "action":
            last = number + 1 == len(turns)
            so_far = replace(
                trajectory,
                turns=turns[: number + 1],
                closing=answers[number],
                answer=trajectory.answer if last else None,
            )
            await scorer.score_turn(turn, so_far)
    whole = replace(trajectory, turns=turns, reward=0.0, rewards={})
    await scorer.score_episode(whole)
    return whole
