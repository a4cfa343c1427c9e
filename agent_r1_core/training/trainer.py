"""Trainer: collect a rollout, learn from it, serve the new weights, evaluate, record, keep checkpoints; again.

One policy version at a time: every group of a step is sampled by the weights that the step before left (LAW 7).
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent_r1_core.contracts.tracker import RunInfo
from agent_r1_core.errors import EpisodeError
from agent_r1_core.metrics import declared as metric
from agent_r1_core.rollout import RolloutRequest
from agent_r1_core.training.checkpointing import save_checkpoint, save_policy
from agent_r1_core.training.evaluator import evaluate_splits
from agent_r1_core.training.health import HealthMonitor
from agent_r1_core.training.task_order import tasks_of_step
from agent_r1_core.training.trackers import Trackers

if TYPE_CHECKING:
    from agent_r1_core.evaluation.report import EvaluationResult
    from agent_r1_core.rollout import RolloutResult
    from agent_r1_core.runs.run import Run
    from agent_r1_core.training.assembly import Assembly
    from agent_r1_core.training.listener import Listener
    from agent_r1_core.trajectory import Trajectory

_SHOWN = 4
"""Trajectories of a step that trackers get to show."""


@dataclass
class Trainer:
    """Trains an assembled policy inside a run directory."""

    parts: Assembly
    run: Run
    listener: Listener
    done: int = 0
    """Steps that are complete and recorded."""
    resumed: bool = False
    """Whether an earlier attempt, of however many steps, goes on."""
    learnt: int | None = field(init=False)
    """The step whose update the policy holds; None amid an update."""
    trackers: Trackers = field(init=False)
    health: HealthMonitor = field(init=False)
    last: dict[str, float] = field(default_factory=dict)
    """Metrics of the last recorded step."""

    def __post_init__(self) -> None:
        self.learnt = self.done
        self.trackers = Trackers(self.parts.trackers, self.listener.note)
        self.health = HealthMonitor(self.parts.config.health.early_stop)
        recorded = self.run.metrics()
        self.health.replay(recorded)
        if recorded:
            self.last = recorded[-1]

    async def fit(self) -> None:
        """Train to the last step, then write the final policy.

        An interruption (a cancelled task) lets the step at hand come to its end and leaves a checkpoint behind, as does
        the error.

        Raises:
            EpisodeError: all episodes of the first step, or of two in a row, failed for good.
        """
        config = self.parts.config
        resumed_at = (self.done or -1) if self.resumed else None
        self.trackers.open(RunInfo(self.run.name, str(self.run.path), config.model_dump(mode="json"), resumed_at))
        try:
            await self.parts.start(version=self.done)
            if not self.resumed:
                self.listener.note(f"writing to {self.run.path}")
            if self.done == 0 and config.evaluation.at_start:
                await self._evaluate(0)
            await self._steps()
            self._checkpoint()
            self.run.write_model(lambda folder: save_policy(self.parts.learner, folder))
            if not config.deterministic:
                self.listener.note(
                    "another run with this seed will differ a little; deterministic=true repeats exactly"
                )
        except (asyncio.CancelledError, EpisodeError):
            self._checkpoint()
            raise
        finally:
            try:
                await self.parts.close()
            finally:
                self.trackers.close()

    async def _steps(self) -> None:
        while self.done < self.parts.config.training.steps:
            reason = await self._step(self.done + 1)
            if reason is not None:
                self.listener.note(f"stopped early after step {self.done}: {reason}")
                if self.parts.config.evaluation.at_end and not self._evaluation_due(self.done):
                    await self._evaluate(self.done)
                return

    async def _step(self, step: int) -> str | None:
        """One step; returns the reason to stop early, if there is one."""
        config, split = self.parts.config, self.parts.train
        training = config.training
        started = time.perf_counter()
        tasks = tasks_of_step(split.tasks, step, training.tasks_per_step, config.seed, training.shuffle)
        samples = training.samples_per_task
        rollout = await split.collector.collect(
            RolloutRequest(tasks, samples, step), self._counter(len(tasks) * samples, "rollout")
        )
        self._tell_failures(step, rollout)
        # From the update to its record the step is one piece: an interruption waits for its end.
        rest = asyncio.ensure_future(self._learn_and_record(step, rollout, started))
        try:
            return await asyncio.shield(rest)
        except asyncio.CancelledError:
            self.listener.note(f"finishing step {step} before stopping")
            await rest
            raise

    def _counter(self, total: int, of: str) -> Callable[[Trajectory], None]:
        """Tells the listener how many of `total` episodes have ended."""
        ended = itertools.count(1)
        return lambda _: self.listener.episodes(next(ended), total, of)

    def _tell_failures(self, step: int, rollout: RolloutResult) -> None:
        if not rollout.dropped:
            return
        failed, reason = len(rollout.dropped), rollout.dropped[0].reason
        if not rollout.groups and not self.last.get(metric.ROLLOUT_EPISODES):
            raise EpisodeError(f"step {step}: all {failed} episodes failed at every attempt; the first: {reason}")
        total = failed + sum(len(group.trajectories) for group in rollout.groups)
        self.listener.note(f"step {step}: {failed} of {total} episodes failed for good and are left out: {reason}")

    async def _learn_and_record(self, step: int, rollout: RolloutResult, started: float) -> str | None:
        parts, config = self.parts, self.parts.config
        collected = time.perf_counter()
        kept = parts.learner.filter(rollout.groups)
        self.learnt = None
        await parts.engine.sleep()
        update = parts.learner.update(kept, step)
        self.learnt = step
        learned = time.perf_counter()
        await parts.engine.load_weights(parts.learner.policy.weights(), step)
        trajectories = rollout.trajectories
        metrics = {
            **rollout.metrics,
            **update.metrics,
            metric.ROLLOUT_GROUPS_KEPT: len(kept) / max(1, len(rollout.groups)),
            metric.TIME_ROLLOUT: collected - started,
            metric.TIME_UPDATE: learned - collected,
            metric.TIME_WEIGHTS: time.perf_counter() - learned,
        }
        self.run.write_trajectories(step, trajectories, update.advantages)
        if self._evaluation_due(step):
            metrics |= (await self._evaluate(step)).to_metrics("eval/")
        metrics[metric.TIME_STEP] = time.perf_counter() - started
        warnings, reason = self.health.judge(metrics)
        self._record(step, metrics, trajectories[:_SHOWN])
        for warning in warnings:
            self.listener.note(f"step {step}: {warning}")
        if step % config.checkpoint.every == 0:
            self._checkpoint()
        return reason

    def _evaluation_due(self, step: int) -> bool:
        settings = self.parts.config.evaluation
        last = step == self.parts.config.training.steps
        return (last and settings.at_end) or bool(settings.every and step % settings.every == 0)

    def _record(self, step: int, metrics: Mapping[str, float], shown: list[Trajectory]) -> None:
        self.run.append_metrics(step, metrics)
        self.done, self.last = step, dict(metrics)
        self.trackers.log(step, metrics, shown)
        self.listener.step(step, metrics)

    async def _evaluate(self, step: int) -> EvaluationResult:
        found = await evaluate_splits(self.parts, self.listener)
        self.run.write_evaluation(f"step_{step:06d}", found.result.to_json(), step)
        if step == 0:
            self.trackers.log(0, found.result.to_metrics("eval/"), [])
        self.listener.evaluation(step, found.result)
        return found.result

    def _checkpoint(self) -> None:
        """Save the step that was recorded last, unless a second interruption came between its successor's update and
        record: the policy is no longer that step's then."""
        latest = self.run.checkpoints.latest()
        if self.done and self.learnt == self.done and (latest is None or latest.step < self.done):
            config = self.parts.config
            save_checkpoint(
                self.parts.learner,
                self.run.checkpoints,
                self.done,
                config.checkpoint.keep,
                config.best_metric,
                self.last,
            )
