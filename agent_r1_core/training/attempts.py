"""Trains an assembled run to its end, with new components where its learner is lost on the way."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from agent_r1_core.errors import LearnerLost, RunError
from agent_r1_core.runs.call_log import CallLog
from agent_r1_core.runs.run import Run
from agent_r1_core.training.resume import (
    check_examples,
    choose_checkpoint,
    hardware_choices,
    held_out_by,
    tell_irregularities,
    tell_repeated,
)
from agent_r1_core.work.running import run_async

if TYPE_CHECKING:
    from agent_r1_core.assembly.assembly import Assembly
    from agent_r1_core.assembly.site import Site
    from agent_r1_core.assembly.task_sets import Note
    from agent_r1_core.config import ResolvedConfig
    from agent_r1_core.evaluation.listener import Listener
    from agent_r1_core.runs.checkpoint import Checkpoint
    from agent_r1_core.runs.events_file import End

_LOSSES = 3
"""How often in a row the learner may be lost before it reaches the next checkpoint."""


def fit_run(
    assembly: Assembly, run: Run, listener: Listener, site: Site, done: int = 0, resumed: bool = False
) -> tuple[End, str]:
    """Train; where processes of the learner are lost, go on from the newest checkpoint. Returns how training ended,
    with a sentence.

    Raises:
        KeyboardInterrupt: training was interrupted; the text says how to continue.
        LearnerLost: the learner was lost again and again without a checkpoint in between.
    """
    resolved, losses, begun = assembly.resolved, 0, done
    try:
        while True:
            try:
                return _fit_once(assembly, run, listener, done, resumed)
            except LearnerLost as error:
                saved = run.checkpoints.latest()
                reached = saved.step if saved else 0
                losses, begun = (losses + 1, begun) if reached == begun else (1, reached)
                if losses >= _LOSSES:
                    raise LearnerLost(
                        f"{error}; the learner was lost {_LOSSES} times before it reached a checkpoint: find out what "
                        "ends it (too little memory?), then start or resume the run"
                    ) from None
                listener.note(f"{error}; new learner workers start from the newest checkpoint")
                assembly, done = reassemble(run, resolved, listener, site)
                resumed = True
                listener.note(f"new learner workers go on after step {done}")
    except KeyboardInterrupt:
        run.checkpoint_writer.wait()
        with suppress(LearnerLost):
            run.checkpoint_writer.raise_error()
        saved = run.checkpoints.latest()
        raise KeyboardInterrupt(
            f"stopped after step {saved.step if saved else 0} of {resolved.config.training.steps}; "
            f"continue with: agent-r1 train {run.path} --resume"
        ) from None


def _fit_once(assembly: Assembly, run: Run, listener: Listener, done: int, resumed: bool) -> tuple[End, str]:
    """Train as long as the learner lives; returns how training ended."""
    from agent_r1_core.training.trainer import Trainer

    listener.begin(done, assembly.config.training.steps)
    log = CallLog(run.path)
    assembly.rollouts.log_calls(log)
    try:
        trainer = Trainer(assembly, run, listener, done, resumed)
        run_async(trainer.fit())
        if trainer.stopped is not None:
            return "stopped_early", trainer.stopped
        return "finished", f"all {assembly.config.training.steps} steps are done"
    except (OSError, RecursionError) as error:
        explained = log.explain(error)
        if explained is None:
            raise
        raise RunError(explained) from error
    finally:
        log.close()


def reassemble(run: Run, resolved: ResolvedConfig, listener: Listener, site: Site) -> tuple[Assembly, int]:
    """The components as they were at the newest whole checkpoint of a run, and its step; what the run recorded after
    it is gone then."""
    checkpoint = choose_checkpoint(run, resolved.config.checkpoint.every, listener.note)
    done = checkpoint.step if checkpoint else 0
    tell_irregularities(run, done, listener.note)
    assembly = assemble_behind(run, resolved, checkpoint, done, site, listener.note)
    tell_repeated(run, done, listener.note)
    run.truncate_after(done)  # only now is it sure that the checkpoint can be used
    return assembly, done


def assemble_behind(
    run: Run, resolved: ResolvedConfig, checkpoint: Checkpoint | None, done: int, site: Site, note: Note
) -> Assembly:
    """The components of a run as they were after step `done`, that of the checkpoint, if there is one.

    Raises:
        AgentR1Error: a component is not available, or is another one than the run had.
    """
    from agent_r1_core.assembly.assembly import assemble

    assembly = assemble(
        resolved.replace(hardware_choices(run)),
        checkpoint=checkpoint,
        held_out_by=held_out_by(run, done),
        site=site,
        note=note,
    )
    check_examples(run, assembly.examples, done)
    return assembly
