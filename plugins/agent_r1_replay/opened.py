"""OpenedRun: a recorded run, its configuration as it was and with keys changed, and what a replay reads of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_r1_core.errors import ConfigError, RunError
from agent_r1_core.runs.run import Run
from agent_r1_core.training.api import resolve
from agent_r1_core.training.resume import recorded_plugins
from agent_r1_replay.recorded import RecordedStep, checkpoint_before

if TYPE_CHECKING:
    from agent_r1_core.assembly.task_sets import Note
    from agent_r1_core.config import ResolvedConfig
    from agent_r1_core.runs.checkpoint import Checkpoint
    from agent_r1_replay.deriving import Deriver

SECTIONS = ("algorithm", "rewards", "training")
"""Whose keys may change: what turns a record into an update."""
PLAYING = (
    *("tasks_per_step", "samples_per_task", "extra_rollouts", "max_retries", "shuffle", "curriculum"),
    "max_staleness",
)
"""Keys of `training` that decide what is played."""


@dataclass(frozen=True)
class OpenedRun:
    """A run from one of its steps on."""

    run: Run
    step: int
    checkpoint: Checkpoint | None
    """Of the step before; None for the first step."""
    own: ResolvedConfig
    changed: ResolvedConfig
    """The same if no key was changed."""

    @classmethod
    def open(
        cls,
        path: Path,
        step: int,
        overrides: Sequence[str],
        stack: ExitStack,
        note: Note,
        **options: Any,
    ) -> OpenedRun:
        """Open a run for reading; its checkpoint is not pruned before the stack closes.

        Args:
            options: `plugins`, `disabled` and `trust`, as in `resolve`.

        Raises:
            RunError: it is no run, or lacks the checkpoint.
            ConfigError, PluginError: a key may not change, or a component is missing.
        """
        if not Run.is_run(path):
            raise RunError(f"{path} is not a run; name a run's folder")
        for text in overrides:
            _check_key(text)
        run = Run.open(path)
        last = run.last_step()
        if step > last:
            recorded = f"steps 1 to {last}" if last else "no step yet"
            raise RunError(f"run {path} has recorded {recorded}, so there is no step {step} to replay")
        checkpoint = checkpoint_before(run, step)
        lock = None if checkpoint is None else checkpoint.lock()
        if lock is not None:
            stack.enter_context(lock)
        own = resolve(path, (), resume=True, dry_run=True, **options)
        changed = resolve(path, overrides, resume=True, dry_run=True, **options) if overrides else own
        for sentence in changed.warnings:
            note(sentence)
        for sentence in own.registry.check_same(recorded_plugins(run.path)):
            note(f"{sentence}: what differs may come from it")
        return cls(run, step, checkpoint, own, changed)

    def deriver(self, resolved: ResolvedConfig, note: Note) -> Deriver:
        """The learner as it was before the step, with one of the two configurations."""
        from agent_r1_replay.deriving import Deriver

        had, has = ("critic" in one.make("algorithm", one.config.algorithm).roles() for one in (self.own, resolved))
        if has and not had:
            note("the run had no critic: this one begins as a copy of the policy and has learnt nothing")
        return Deriver(self.run, resolved, self.checkpoint, had != has, note)

    def record(self, step: int) -> RecordedStep:
        """What was recorded of a step.

        Raises:
            RunError: nothing, or it is damaged.
            ConfigError: the changed algorithm learns from episodes of another kind.
        """
        recorded = RecordedStep.of(self.run, step)
        block = self.changed.config.algorithm
        algorithm = self.changed.make("algorithm", block)
        if algorithm.needs_greedy_baseline() and not any(one.baseline for one in recorded.trajectories):
            raise ConfigError(f"{block.name} compares with greedy baselines, and step {step} has recorded none")
        if algorithm.hint() not in (None, self.own.make("algorithm", self.own.config.algorithm).hint()):
            raise ConfigError(f"the hint that a teacher of {block.name} reads is in no record but of a run that had it")
        demonstrated = {one.demonstrated is not None for one in recorded.trajectories}
        imitates = algorithm.demonstrations() is not None
        if demonstrated - {imitates}:
            kinds = ("demonstrations", "sampled episodes")
            learns, has = kinds if imitates else kinds[::-1]
            raise ConfigError(f"{block.name} learns from {learns}, and step {step} has recorded {has}")
        return recorded

    def policy_after(self, step: int) -> tuple[Path, Checkpoint | None] | None:
        """The policy that the run kept of a step, and the checkpoint that it is in; None: it kept none."""
        kept = next((one for one in self.run.checkpoints.all() if one.step == step), None)
        if kept is not None:
            return kept.policy, kept
        return (self.run.model, None) if self.run.model.is_dir() and step == self.run.last_step() else None


def _check_key(text: str) -> None:
    """Raise a ConfigError where an override changes what the record has fixed (LAW 8)."""
    key = text.partition("=")[0].strip()
    section, _, option = key.partition(".")
    if section.partition("[")[0] not in SECTIONS or (section == "training" and option.partition(".")[0] in PLAYING):
        raise ConfigError(
            f"{key} changes nothing that a replay derives, since the episodes are those of the record; change keys of "
            f"{', '.join(SECTIONS[:-1])} or {SECTIONS[-1]} that an update depends on"
        )
