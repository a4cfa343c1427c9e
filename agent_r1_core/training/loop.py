"""The training loop: collect a rollout, learn from it, serve the new weights, evaluate, record, keep checkpoints.

One policy version at a time: every group of a step is sampled by the weights of the step before it (LAW 7).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent_r1_core.evaluation.evaluate import evaluate
from agent_r1_core.runs.checkpoints import Checkpoints
from agent_r1_core.training.checkpointing import restore, save_checkpoint, save_final
from agent_r1_core.training.health import HealthMonitor, group_metrics
from agent_r1_core.training.rollout_metrics import rollout_metrics
from agent_r1_core.training.task_order import tasks_of_step
from agent_r1_core.training.trackers import Trackers

if TYPE_CHECKING:
    from agent_r1_core.evaluation.report import EvaluationResult
    from agent_r1_core.runs.run import Run
    from agent_r1_core.training.assembly import Assembly
    from agent_r1_core.training.listener import Listener
    from agent_r1_core.trajectory import Trajectory

_SHOWN = 4
"""Trajectories of a step that trackers get to show."""


@dataclass
class Trainer:
    """Trains the assembled policy inside a run directory."""

    parts: Assembly
    run: Run
    listener: Listener
    done: int = 0
    """Steps that are complete and recorded."""
    trackers: Trackers = field(init=False)
    health: HealthMonitor = field(init=False)
    checkpoints: Checkpoints = field(init=False)

    def __post_init__(self) -> None:
        self.trackers = Trackers(self.parts.trackers, self.listener.note)
        self.health = HealthMonitor(self.parts.config.health.early_stop)
        self.checkpoints = Checkpoints(self.run.directory / "checkpoints")

    async def fit(self, resume: bool) -> None:
        """Train to the last step; an interruption between steps leaves a checkpoint behind."""
        config = self.parts.config
        if resume:
            self.done = restore(self.parts, self.checkpoints)
            self.run.truncate_after(self.done)
            self.health.replay(self.run.metrics())
            self.listener.note(f"resuming after step {self.done} of {config.training.steps}")
        self.trackers.open(self.run, config, self.done if resume else None)
        try:
            await self.parts.start()
            if self.done == 0 and config.evaluation.at_start:
                await self._evaluate(0)
            await self._steps()
            save_final(self.parts, self.run)
        except (asyncio.CancelledError, KeyboardInterrupt):
            self._checkpoint(force=True)
            raise
        finally:
            await self.parts.close()
            self.trackers.close()

    async def _steps(self) -> None:
        steps = self.parts.config.training.steps
        while self.done < steps:
            stop = await self._step(self.done + 1)
            if stop is not None:
                self.listener.note(f"stopped early after step {self.done}: {stop}")
                break
        if self.checkpoints.latest_step() != self.done:
            self._checkpoint(force=True)

    async def _step(self, step: int) -> str | None:
        """One step; returns the reason to stop early, if there is one."""
        config = self.parts.config
        started = time.perf_counter()
        tasks = tasks_of_step(
            self.parts.train.tasks, step, config.training.tasks_per_step, config.seed, config.training.shuffle
        )
        rollout = await self.parts.train.collector.collect(
            tasks, config.training.samples_per_task, round=step, on_episode=self.listener.episodes
        )
        collected = time.perf_counter()
        # From here to the recorded metrics line the step is one piece: an interruption waits for its end.
        rest = asyncio.ensure_future(self._learn_and_record(step, rollout, started, collected))
        try:
            return await asyncio.shield(rest)
        except asyncio.CancelledError:
            self.listener.note(f"finishing step {step} before stopping")
            await rest
            raise

    async def _learn_and_record(self, step: int, rollout: Any, started: float, collected: float) -> str | None:
        config = self.parts.config
        metrics: dict[str, float] = {"step": step, **rollout_metrics(rollout), **group_metrics(rollout.groups)}
        kept = self.parts.algorithm.filter(rollout.groups)
        update = self.parts.learner.update(kept, step)
        learned = time.perf_counter()
        await self.parts.engine.load_weights(self.parts.learner.policy.weights(), step)
        metrics |= update.metrics
        metrics["rollout/groups_kept"] = len(kept) / max(1, len(rollout.groups))
        metrics["time/rollout"] = collected - started
        metrics["time/update"] = learned - collected
        metrics["time/weights"] = time.perf_counter() - learned
        self.run.write_trajectories(step, _trajectories(rollout), update.advantages_by_trajectory)
        if (config.evaluation.every and step % config.evaluation.every == 0) or step == config.training.steps:
            metrics |= (await self._evaluate(step)).flat("eval/")
        metrics["time/step"] = time.perf_counter() - started
        warnings, reason = self.health.judge(metrics)
        self._record(step, metrics, _trajectories(rollout)[:_SHOWN])
        for warning in warnings:
            self.listener.note(f"step {step}: {warning}")
        self._checkpoint(force=False, metrics=metrics)
        return reason

    def _record(self, step: int, metrics: Mapping[str, float], shown: Sequence[Trajectory]) -> None:
        self.run.append_metrics(step, metrics)
        self.done = step
        self.trackers.log(step, metrics, shown)
        self.listener.step(step, metrics)

    async def _evaluate(self, step: int) -> EvaluationResult:
        parts = self.parts
        result = await evaluate(
            parts.eval.collector, parts.eval.tasks, greedy=parts.config.evaluation.greedy, step=step
        )
        self.run.write_evaluation(f"step_{step:06d}", result.to_json())
        self.listener.evaluation(result)
        return result

    def _checkpoint(self, force: bool, metrics: Mapping[str, float] | None = None) -> None:
        settings = self.parts.config.checkpoint
        due = settings.every and self.done % settings.every == 0
        if self.done and (force or due) and self.checkpoints.latest_step() != self.done:
            save_checkpoint(self.parts, self.checkpoints, self.done, metrics or {})


def _trajectories(rollout: Any) -> list[Trajectory]:
    return [trajectory for group in rollout.groups for trajectory in group.trajectories]
