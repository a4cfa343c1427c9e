"""Supply: the episodes of each step, in the order of the tasks, played as far ahead as training.max_staleness allows.

The tasks of a step are fixed before it begins; the weights that play them are not. With max_staleness k, episodes of
step s may start once the weights of version s - 1 - k are served (each step makes one version), so that when step s
learns, on version s - 1, no token is older than k versions (LAW 7). Episodes in flight go on through an update. Steps
take all their episodes, slow ones too: nothing is thrown away, and short episodes are not preferred.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_r1_core.assembly.curriculum import Curriculum
from agent_r1_core.assembly.task_sets import TRAIN
from agent_r1_core.contracts.reward import SamplingPolicy
from agent_r1_core.errors import EngineError
from agent_r1_core.evaluation.listener import Listener, episode_counter
from agent_r1_core.metrics import declared as metric
from agent_r1_core.rollout import RolloutRequest
from agent_r1_core.rollout.scoring import GroupScorer

if TYPE_CHECKING:
    from agent_r1_core.assembly.assembly import Assembly
    from agent_r1_core.assembly.task_order import Order
    from agent_r1_core.learning.forward import Family
    from agent_r1_core.learning.selection import Selection
    from agent_r1_core.rollout import RolloutResult
    from agent_r1_core.rollout.settings import WeightedReward
    from agent_r1_core.trajectory import Group, Trajectory


@dataclass(frozen=True)
class Collected:
    """What a step learns from."""

    rollout: RolloutResult
    groups: list[Group]
    """Those to learn from."""
    order: Order
    """The place in the order of tasks behind the step."""
    metrics: dict[str, float]
    """How stale its tokens are, if any were sampled; what the curriculum did, and what the algorithm logs of its
    choice."""


class _Shown:
    """Shows the episodes of a step as they end, and those that end ahead of their step when it comes."""

    def __init__(self, show: Callable[[Trajectory], None]) -> None:
        self._show = show
        self._ended: list[Trajectory] = []
        self._ahead = True

    def __call__(self, trajectory: Trajectory) -> None:
        if self._ahead:
            self._ended.append(trajectory)
        else:
            self._show(trajectory)

    def come(self) -> None:
        """The step has come."""
        self._ahead = False
        for trajectory in self._ended:
            self._show(trajectory)
        self._ended.clear()


@dataclass
class _Begun:
    """A step whose episodes are being played."""

    step: int
    tasks: list[int]
    order: Order
    shown: _Shown
    rollout: asyncio.Task[RolloutResult]


class Supply:
    """Plays ahead of the learner, and never further than it may.

    Args:
        order: the place in the order of tasks behind the `done` steps.
        rewards: those of the run; here it is that groups are scored.
    """

    def __init__(
        self,
        assembly: Assembly,
        selection: Selection,
        listener: Listener,
        order: Order,
        done: int,
        rewards: Sequence[WeightedReward] = (),
    ) -> None:
        self._assembly = assembly
        self._selection = selection
        self._settings = assembly.config.training
        self._demonstrations = selection.algorithm.demonstrations()
        self._greedy = selection.algorithm.needs_greedy_baseline()
        """Whether each task is also played greedily, for the baseline of its group."""
        self._trees = selection.algorithm.trees()
        self._hint = selection.algorithm.hint()
        self._listener = listener
        self._order = order
        self._last = done
        """The last step that was begun."""
        self._groups = GroupScorer(rewards, SamplingPolicy(self._score, assembly.tokenizer.decode))
        self._begun: deque[_Begun] = deque()
        self._playing = 0
        self._idle_since = time.perf_counter()
        self._idle = 0.0

    async def take(self, step: int) -> Collected:
        """The episodes of a step, with the extra rollouts that the algorithm asks for and training.extra_rollouts
        allows. Every step before has been taken, learnt from, and its weights are served.

        Raises:
            EngineError: tokens are older than they may be.
        """
        self.idle_seconds()  # those before the step are not the step's
        self._begin(step + self._settings.max_staleness)
        begun = self._begun.popleft()
        begun.shown.come()
        rollout = await begun.rollout
        played, order, selection = begun.tasks, begun.order, self._selection
        groups = selection.filter(rollout.groups)
        # Steps ahead have drawn their tasks already, so there are extra rollouts only where there are none ahead.
        extras = self._settings.extra_rollouts if not self._settings.max_staleness else 0
        for extra in range(1, extras + 1):
            more, order = order.draw(selection.more_tasks(groups, len(played)), played)
            if not more:
                break
            self._order = order
            played = played + more
            shown = self._shown(more)
            shown.come()
            rollout = rollout + await self._play(step, more, f"{step}/{extra}", shown)
            groups = selection.filter(rollout.groups)
        learnt: dict[str, float] = {}
        if isinstance(order, Curriculum):
            numbers = {self._assembly.train.tasks[k].id: k for k in played}
            learnt = curriculum_metrics(order)
            several = [group for group in rollout.groups if len(group.returns) > 1]
            order = self._order = order.learn({numbers[group.task.id]: group.varies for group in several})
        stale = {} if self._demonstrations else self._staleness(step, rollout.trajectories)
        metrics = stale | learnt | selection.filter_metrics(rollout.groups, groups)
        return Collected(rollout, groups, order, metrics)

    def idle_seconds(self) -> float:
        """Time of this step without any episode in flight, since the last call."""
        now = time.perf_counter()
        idle = self._idle + (0.0 if self._playing else now - self._idle_since)
        self._idle, self._idle_since = 0.0, now
        return idle

    async def close(self) -> None:
        """Stop what is ahead; its tasks count as not drawn."""
        begun, self._begun = [one.rollout for one in self._begun], deque()
        for rollout in begun:
            rollout.cancel()
        await asyncio.gather(*begun, return_exceptions=True)
        self._groups.close()

    def _begin(self, last: int) -> None:
        """Begin all steps up to `last`."""
        while self._last < min(last, self._settings.steps):
            self._last += 1
            tasks, self._order = self._order.draw(self._settings.tasks_per_step)
            shown = self._shown(tasks)
            rollout = asyncio.create_task(self._play(self._last, tasks, self._last, shown))
            self._begun.append(_Begun(self._last, tasks, self._order, shown, rollout))

    async def _play(self, step: int, chosen: Sequence[int], round: int | str, shown: _Shown) -> RolloutResult:
        """Play tasks with the weights that the step before produced or, ahead of it, with those that are served."""
        samples, tasks = self._settings.samples_per_task, self._assembly.train.tasks
        version = None if self._settings.max_staleness else step - 1
        request = RolloutRequest(
            [tasks[k] for k in chosen],
            samples,
            round,
            greedy_baseline=self._greedy,
            split=TRAIN,
            version=version,
            demonstrations=self._demonstrations,
            trees=self._trees,
            hint=self._hint,
        )
        self._count(1)
        try:
            rollout = await self._assembly.rollouts.collect(request, shown)
            if self._groups.asks_policy:
                await self._assembly.rollouts.rest()
            return await self._groups.score(rollout)
        finally:
            self._count(-1)

    async def _score(self, families: Sequence[Family]) -> list[list[list[float]]]:
        """What the learner says; it says so to the end before it learns, also where the reward is out of time."""
        return await asyncio.shield(asyncio.ensure_future(self._assembly.learner.score(families)))

    def _shown(self, chosen: Sequence[int]) -> _Shown:
        """Counts the episodes of these tasks."""
        each = self._settings.samples_per_task + self._greedy
        return _Shown(episode_counter(self._listener, len(chosen) * each, "rollout"))

    def _count(self, change: int) -> None:
        now = time.perf_counter()
        if not self._playing:
            self._idle += now - self._idle_since
        self._playing += change
        self._idle_since = now

    def _staleness(self, step: int, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        """How many versions the sampled tokens are older than the weights that learn from them.

        Raises:
            EngineError: more than training.max_staleness.
        """
        ages = [
            (step - 1 - version, tokens)
            for trajectory in trajectories
            for version, tokens in trajectory.tokens_by_version.items()
        ]
        oldest, tokens = max((age for age, _ in ages), default=0), sum(tokens for _, tokens in ages)
        if oldest > self._settings.max_staleness:
            raise EngineError(
                f"step {step} got tokens that are {oldest} versions old, and training.max_staleness is "
                f"{self._settings.max_staleness}; the engine serves other weights than it was given"
            )
        mean = sum(age * tokens for age, tokens in ages) / max(tokens, 1)
        return {metric.ROLLOUT_STALENESS: mean, metric.ROLLOUT_STALENESS_MAX: float(oldest)}


def curriculum_metrics(order: Curriculum) -> dict[str, float]:
    """What a curriculum does, as of the tasks that the step has drawn."""
    metrics: dict[str, float] = {
        metric.CURRICULUM_PASSED: float(order.passed),
        metric.CURRICULUM_RESTING: order.resting_share(),
    }
    if len(order.parts) > 1:
        metrics |= {metric.CURRICULUM_SHARE.of(name): share for name, share in order.shares().items()}
        metrics |= {metric.CURRICULUM_SPREAD.of(name): part.spread for name, part in order.parts.items()}
    return metrics
