"""The reward `thought_effect`: whether actions depend on the thoughts before them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from pydantic import Field

from agent_r1_core import ComponentConfig, Metric, NotedScore, RewardFn, Trajectory
from agent_r1_core.chat.thinking import ThoughtfulTurn
from agent_r1_core.contracts.reward import SamplingPolicy


class ThoughtEffect(RewardFn):
    """How much less likely the actions of an episode are after no thought, and after another one.

    Of each turn with a thought it takes what `health/thought_effect` takes of some, with the thought of another episode
    of the same task in its place: the score is the mean over these turns, between 0 and `most`, divided by `most`. It
    is 0 without a thought. Only a thought that differs from the turn's own counts as another one.

    It says nothing about truth, and a thought that spells out its action gets all of it: give it a small weight, beside
    `grounded`. Groups are scored in training alone.
    """

    scope = "group"
    asks_policy = True
    metrics = (Metric("nats", "how much likelier a thought makes the action after it, per token", unit="nats"),)

    class Config(ComponentConfig):
        most: float = Field(1.0, gt=0)
        """Nats per token of an action that get the whole reward."""

    def connect_policy(self, policy: SamplingPolicy) -> None:
        self._policy = policy

    async def score_group(self, trajectories: Sequence[Trajectory]) -> list[float]:
        """Between 0 and 1, for each; the note has the effect itself."""
        thinking = [self._turns(number, one) for number, one in enumerate(trajectories)]
        every = [turn for turns in thinking for turn in turns]
        families = [([one.after(thought) for thought in _thoughts(one, every)], [one.action]) for one in every]
        scores = await self._policy.score(families) if families else []
        effects: list[list[float]] = [[] for _ in trajectories]
        for turn, ((own, *others),) in zip(every, scores, strict=True):
            effects[turn.number].append((own - max(others)) / len(turn.action))
        return [self._score(fmean(found)) if found else 0.0 for found in effects]

    def _turns(self, number: int, trajectory: Trajectory) -> list[ThoughtfulTurn]:
        segments, decode = trajectory.segments, self._policy.decode
        cut = (ThoughtfulTurn.of(number, one, segments[one.segment].ids, decode) for one in trajectory.steps)
        return [one for one in cut if one is not None]

    def _score(self, nats: float) -> float:
        return NotedScore(min(max(nats / self.config.most, 0.0), 1.0), nats=nats)


def _thoughts(turn: ThoughtfulTurn, every: Sequence[ThoughtfulTurn]) -> list[list[int]]:
    """Its own, an empty one, and that of the next episode that thinks otherwise, if there is one."""
    others = sorted((one for one in every if one.number != turn.number), key=lambda one: one.number < turn.number)
    return [turn.thought, [], *[one.thought for one in others if one.thought != turn.thought][:1]]
