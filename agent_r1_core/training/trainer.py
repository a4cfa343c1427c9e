"""Trainer: each step collects a rollout, learns from it, serves the new weights, evaluates, records and checkpoints.

Training is on policy, unless training.max_staleness allows rollouts ahead of the learner: the weights that the previous
step produced sample every group of a step (LAW 7).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent_r1_core.assembly.checkpointing import save_checkpoint, save_model
from agent_r1_core.assembly.components import make_rewards
from agent_r1_core.assembly.task_order import Order
from agent_r1_core.config.monitor_checks import idle_monitors
from agent_r1_core.contracts.tracker import RunInfo
from agent_r1_core.errors import EpisodeError, LearnerLost, RunError
from agent_r1_core.evaluation.evaluator import evaluate_sets, in_training, record_evaluation
from agent_r1_core.evaluation.listener import Listener
from agent_r1_core.health.information import FirstActions, mutual_information, retrieval_accuracy
from agent_r1_core.health.thoughts import compared_turns, thought_effect
from agent_r1_core.health.watch import Watch
from agent_r1_core.learning.selection import Selection
from agent_r1_core.metrics import declared as metric
from agent_r1_core.metrics.rollouts import set_metrics
from agent_r1_core.training.notices import StepNotes, Trackers, catalogue_of
from agent_r1_core.training.supply import Collected, Supply

if TYPE_CHECKING:
    from agent_r1_core.assembly.assembly import Assembly
    from agent_r1_core.health.rule import MeasuredFall
    from agent_r1_core.runs.run import Run
    from agent_r1_core.trajectory import Group, Trajectory

_SHOWN = 4
"""Trajectories of a step that are passed to trackers."""


def _due(rule: MeasuredFall | None, step: int) -> bool:
    """Whether a monitor measures in this step."""
    return rule is not None and rule.every > 0 and (step - 1) % rule.every == 0


@dataclass
class Trainer:
    """Trains an assembled policy inside a run directory."""

    assembly: Assembly
    run: Run
    listener: Listener
    done: int = 0
    """Number of completed and recorded steps."""
    resumed: bool = False
    """Whether this continues an earlier attempt, even one without a step."""
    learned_step: int | None = field(init=False)
    """The step whose update the policy holds; None during an update."""
    order: Order = field(init=False)
    """The place in the order of tasks behind the `done` steps."""
    last: dict[str, float] = field(default_factory=dict)
    """Metrics of the last recorded step."""
    stopped: str | None = None
    """Why it stopped before its last step, with what to do; None: it did not."""

    def __post_init__(self) -> None:
        self.learned_step = self.done
        self.order = self.assembly.task_order
        self.trackers = Trackers(self.assembly.trackers, self.listener.note)
        self.catalogue = catalogue_of(self.assembly.resolved)
        self.notes = StepNotes(self.listener, self.catalogue)
        config = self.assembly.config
        algorithm = self.assembly.resolved.make("algorithm", config.algorithm)
        selection = Selection(algorithm, config.training)
        rewards = make_rewards(self.assembly.resolved)
        self.supply = Supply(self.assembly, selection, self.listener, self.order, self.done, rewards)
        self.health = Watch(config.health, set(idle_monitors(config, config.algorithm.name, algorithm)))
        recorded = self.run.metrics()
        self.run.write_alarms(self.health.replay(recorded))
        if recorded:
            self.last = recorded[-1]

    async def fit(self) -> None:
        """Train to the last step, then write the final policy.

        After an interruption (a cancelled task) the current step is finished. Then, as after the error below, the
        trainer saves a checkpoint.

        Raises:
            EpisodeError: all episodes of the first step, of two consecutive steps, or of the evaluation before the
                first one, failed permanently.
        """
        config = self.assembly.config
        resumed_at = (self.done or -1) if self.resumed else None
        self.run.write_metric_catalogue(self.catalogue)
        dumped = config.model_dump(mode="json")
        self.trackers.open(RunInfo(self.run.name, str(self.run.path), dumped, resumed_at, tuple(self.catalogue)))
        try:
            await self.assembly.start(version=self.done)
            if not self.resumed:
                self.listener.note(f"writing to {self.run.path}")
            if self.done == 0 and config.evaluation.at_start:
                await self._evaluate(0)
            await self._steps()
            await self._checkpoint()
            await self._written()
            save_model(self.assembly.learner, self.run)
            if not config.deterministic:
                self.listener.note(
                    "another run with this seed will differ slightly; deterministic=true repeats exactly"
                )
        except (asyncio.CancelledError, EpisodeError):
            if self.run.checkpoint_writer.busy:
                self.listener.note(f"writing the checkpoint of step {self.run.checkpoint_writer.step} before stopping")
            with suppress(LearnerLost):  # then the newest checkpoint is what there is
                await self._checkpoint(
                    interim=self.done < config.training.steps and not self._checkpoint_due(self.done)
                )
                await self._written()
            raise
        except Exception:
            with suppress(LearnerLost):  # the checkpoint went with it
                try:
                    await self._written()
                except RunError as error:  # the other error matters more
                    self.listener.note(str(error))
            raise
        finally:
            try:
                await self.supply.close()
                await self.assembly.close()
            finally:
                self.trackers.close()

    async def _steps(self) -> None:
        config = self.assembly.config
        while self.done < config.training.steps:
            if config.health.early_stop and self.health.severe is not None:
                self.stopped = (
                    f"stopped early after step {self.done}, at the alarm {self.health.severe.monitor}; "
                    "resume with health.early_stop=false to go on nevertheless"
                )
                self.listener.note(self.stopped)
                if config.evaluation.at_end and not self._evaluation_due(self.done):
                    await self._evaluate(self.done)
                return
            self.run.checkpoint_writer.raise_error()
            await self._step(self.done + 1)

    async def _step(self, step: int) -> None:
        started = time.perf_counter()
        collected = await self.supply.take(step)
        self.notes.failures(step, collected.rollout, bool(self.last.get(metric.ROLLOUT_EPISODES)))
        self.notes.demonstrations(step, collected.rollout.trajectories)
        # Update and record belong together: an interruption waits for both.
        remainder = asyncio.ensure_future(self._learn_and_record(step, collected, started))
        try:
            await asyncio.shield(remainder)
        except asyncio.CancelledError:
            self.listener.note(f"finishing step {step} before stopping")
            with suppress(LearnerLost):  # an interrupted run does not go on, and stops without the step
                await remainder
            raise

    async def _learn_and_record(self, step: int, collected: Collected, started: float) -> None:
        config, rollouts, learner = self.assembly.config, self.assembly.rollouts, self.assembly.learner
        rollout, groups, played = collected.rollout, collected.groups, time.perf_counter()
        sets = config.tasks.train
        if not config.training.max_staleness:
            await rollouts.rest()
        measured = await self._measured(step, rollout.groups)
        self.learned_step = None
        update = await learner.update(groups, step)
        self.learned_step = step
        learned = time.perf_counter()
        await rollouts.load_weights(await learner.snapshot(), step)
        metrics = {
            **rollout.metrics,
            **update.metrics,
            **measured,
            **collected.metrics,
            **(set_metrics(rollout.trajectories, sets) if isinstance(sets, dict) else {}),
            metric.ROLLOUT_GROUPS_KEPT: len(groups) / max(1, len(rollout.groups)),
            metric.TIME_ROLLOUT: played - started,
            metric.TIME_UPDATE: learned - played - measured.get(metric.TIME_HEALTH, 0.0),
            metric.TIME_WEIGHTS: time.perf_counter() - learned,
        }
        if config.training.max_staleness:
            del metrics[metric.ROLLOUT_MIXED_GROUPS]  # they may mix versions, as old as rollout/staleness_max says
        dropped = rollout.dropped if config.recording.dropped else ()
        episodes = [*rollout.trajectories, *rollout.baselines, *dropped]
        await rollouts.write(self.run.trajectory_file(step), step, episodes, update.numbers)
        if self._evaluation_due(step):
            evaluating = time.perf_counter()
            metrics |= await self._evaluate(step)
            metrics[metric.TIME_EVALUATION] = time.perf_counter() - evaluating
        metrics[metric.TIME_STEP] = seconds = time.perf_counter() - started
        metrics[metric.TIME_LEARNER_WAITS] = (seconds - metrics[metric.TIME_UPDATE]) / seconds
        metrics[metric.TIME_ROLLOUTS_WAIT] = min(1.0, self.supply.idle_seconds() / seconds)
        if step == 1:
            self.notes.undeclared(metrics)
        self._record(step, collected.order, metrics, rollout.trajectories[:_SHOWN])
        self.notes.warnings(step, update.warnings)
        if self._checkpoint_due(step):
            await self._checkpoint()

    async def _measured(self, step: int, groups: Sequence[Group]) -> dict[str, float]:
        """What monitors ask the learner for in this step, of the policy that sampled it."""
        begun, health, score = time.perf_counter(), self.assembly.config.health, self.assembly.learner.score
        measured: dict[str, float] = {}
        lacking = []
        if _due(health.information, step):
            if (first := FirstActions.of(groups)) is None:
                lacking.append("information measures nothing here: no two tasks of the step have different prompts")
            else:
                columns = await score([([prompt], first.actions) for prompt in first.prompts])
                logprobs = [[value for (value,) in row] for row in zip(*columns, strict=True)]
                measured[metric.INFORMATION] = mutual_information(logprobs, first.own)
                measured[metric.RETRIEVAL] = retrieval_accuracy(logprobs, first.own)
        if _due(health.thought_effect, step):
            if turns := compared_turns(groups, self.assembly.tokenizer.decode):
                scores = await score([(three, [action]) for three, action in turns])
                measured[metric.THOUGHT_EFFECT] = thought_effect([row for (row,) in scores], turns)
            else:
                lacking.append("thought_effect measures nothing here: no two episodes of the step think differently")
        for text in lacking if step == 1 else ():
            self.listener.note(f"health.{text}")
        return measured | ({metric.TIME_HEALTH: time.perf_counter() - begun} if measured else {})

    def _checkpoint_due(self, step: int) -> bool:
        return step % self.assembly.config.checkpoint.every == 0

    def _evaluation_due(self, step: int) -> bool:
        settings = self.assembly.config.evaluation
        last = step == self.assembly.config.training.steps
        return (last and settings.at_end) or bool(settings.every and step % settings.every == 0)

    def _record(self, step: int, order: Order, metrics: Mapping[str, float], shown: list[Trajectory]) -> None:
        self.run.append_metrics(step, metrics)
        self.done, self.order, self.last = step, order, dict(metrics)
        self.trackers.log(step, metrics, shown)
        self.listener.step(step, metrics)
        alarms = self.health.judge(step, metrics)
        self.run.append_alarms(alarms)
        for alarm in alarms:
            self.listener.note(alarm.note())

    async def _evaluate(self, step: int) -> dict[str, float]:
        """The scores after a step, as metrics. An evaluation without a finished episode has none; what was learned by
        then is worth more than it, so that training goes on."""
        try:
            evaluation = await evaluate_sets(self.assembly, self.listener, in_training(self.assembly, step))
        except EpisodeError as error:
            if step == 0:
                raise
            self.listener.note(f"the evaluation after step {step} has no scores: {error}")
            return {}
        result = evaluation.result
        await record_evaluation(self.assembly, self.run, f"step_{step:06d}", evaluation, result.to_json(), step)
        metrics = result.to_metrics()
        if step == 0:
            self.trackers.log(0, metrics, [])
        self.listener.evaluation(step, result)
        for text in (text for one in (result, *result.sets.values()) for text in one.conditions):
            if text not in self.assembly.conditions:  # scores that are missing, tool calls that failed
                self.listener.note(f"in this evaluation {text}")
        best = self.assembly.config.best_metric
        if best is not None and best.startswith(metric.EVALUATION) and best not in metrics:
            self.notes.warnings(
                step, [f"the evaluation gave {best} (checkpoint.best) no value: it chooses no checkpoint"]
            )
        return metrics

    async def _checkpoint(self, interim: bool = False) -> None:
        """Begin to save the last recorded step, unless a second interruption came between the next step's update and
        its record: the policy is then no longer that of the recorded step."""
        config, checkpoints = self.assembly.config, self.run.checkpoints
        await self._written()
        latest = checkpoints.latest()
        if self.done and self.learned_step == self.done and (latest is None or latest.step < self.done):
            learner, settings, best = self.assembly.learner, config.checkpoint, config.best_metric
            basis = self.assembly.evaluation_basis
            await save_checkpoint(learner, self.order, self.run, self.done, settings, best, self.last, basis, interim)
            if not config.checkpoint.background:
                await self._written()
        else:
            checkpoints.prune(config.checkpoint.keep)  # a kill may have come between a checkpoint and its pruning

    async def _written(self) -> None:
        """Wait until the checkpoint that was begun is on disk, and the episodes of all steps.

        Raises:
            RunError: they could not be written.
        """
        await self.assembly.rollouts.written()
        writer = self.run.checkpoint_writer
        if writer.busy:
            await asyncio.to_thread(writer.wait)
        writer.raise_error()
