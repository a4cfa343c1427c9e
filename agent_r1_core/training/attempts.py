"""Attempts to train a run: the first one and those that resume it, with new components where its learner is lost on the
way; and the record of how each went.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from agent_r1_core.errors import AgentR1Error, LearnerLost, RunError
from agent_r1_core.runs.call_log import CallLog, unfinished_calls
from agent_r1_core.runs.events_file import STARTS, End, Kind, Start, turning_point
from agent_r1_core.runs.run import Run
from agent_r1_core.training.resume import check_resumable, reassemble
from agent_r1_core.work.running import run_async

if TYPE_CHECKING:
    from agent_r1_core.assembly.assembly import Assembly
    from agent_r1_core.assembly.site import Site
    from agent_r1_core.config import ResolvedConfig
    from agent_r1_core.evaluation.listener import Listener
    from agent_r1_core.evaluation.report import EvaluationResult

_LOSSES = 3
"""How often in a row the learner may be lost before it reaches the next checkpoint."""


def start_run(resolved: ResolvedConfig, force: bool, recorder: Recorder, site: Site) -> Run:
    """Create the directory once all components exist; remove it if starting fails."""
    from agent_r1_core.assembly.assembly import assemble

    settings, plugins = resolved.config.run, resolved.registry.to_json()
    Run.check_free(settings.dir, settings.name, force=force)
    assembly = assemble(resolved, site=site, note=recorder.note)
    config = assembly.resolved.dump()
    recipe = resolved.recipe
    with Run.create(settings.dir, settings.name, config, plugins, stem=recipe, recipe=recipe, force=force) as run:
        try:
            with recorder.recording(run, "started", 0):
                _keep_parts(run, assembly)
                recorder.record(*_fit_run(assembly, run, recorder, site))
        except Exception:
            with suppress(RunError):  # why it failed matters more
                run.discard()
            raise
        except KeyboardInterrupt:
            if run.restore_replaced():
                raise KeyboardInterrupt(f"stopped before the first step; {run.path} is the old run again") from None
            raise
    return run


def resume_run(resolved: ResolvedConfig, force: bool, recorder: Recorder, site: Site) -> Run:
    """Continue a run after its newest whole checkpoint."""
    settings = resolved.config.run
    with Run.create(settings.dir, settings.name, {}, [], resume=True) as run:
        check_resumable(run, resolved, force)
        newest = run.checkpoints.latest()
        with recorder.recording(run, "resumed", newest.step if newest else 0):
            died = unfinished_calls(run.path)
            if died is not None:
                recorder.note(died)
            assembly, done = reassemble(run, resolved, recorder, site)
            _keep_parts(run, assembly)
            steps = assembly.config.training.steps
            if done < steps:
                run.remove_model()
                recorder.note(f"resuming {run.path} after step {done} of {steps}")
            else:
                recorder.note(f"{run.path} has completed all its {steps} steps; set training.steps for more")
            recorder.record(*_fit_run(assembly, run, recorder, site, done, resumed=True))
    return run


def _keep_parts(run: Run, assembly: Assembly) -> None:
    """Keep in the run what it is made of."""
    run.keep_model_files(assembly.model.folder)
    run.write_evaluation_tasks(assembly.evaluation_tasks)
    run.write_examples(assembly.sampling.get("examples"))
    run.write_config(assembly.resolved.replace({"run.name": run.name}).dump())


def _fit_run(
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


class Recorder:
    """A listener that passes everything on and, from `recording` on, keeps notes and the run's beginning and end in
    `events.jsonl`.

    Nothing that it does may end a training, or hide the error that did: where the file cannot be written, the listener
    is told, once.
    """

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._run: Run | None = None
        self._step = 0
        """The last recorded step."""
        self._failed = False
        """Whether an event could not be written."""

    @contextmanager
    def recording(self, run: Run, start: Start, step: int) -> Iterator[None]:
        """Record, in the run, that its training begins after `step`, what the listener hears meanwhile, and how it
        ends if an exception ends it."""
        self._run, self._failed = run, False
        if start == "resumed":
            self._end_killed(run)
        self._step = step
        self.record(start, f"training {start}" + (f" after step {step}" if step else ""))
        try:
            yield
        except KeyboardInterrupt as interruption:
            self.record("interrupted", str(interruption) or "training was interrupted")
            raise
        except AgentR1Error as error:
            self.record("failed", str(error))
            raise
        except BaseException as error:
            self.record("failed", f"{type(error).__name__}: {error}".rstrip(": "))
            raise
        finally:
            self._run = None

    def fail(self, text: str) -> None:
        """Record, and tell the listener, that training ends with the process."""
        self.record("failed", text)
        self._listener.note(f"error: {text}")

    def begin(self, done: int, steps: int) -> None:
        self._step = done
        self._listener.begin(done, steps)

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        self._step = step
        self._listener.step(step, metrics)

    def episodes(self, done: int, total: int, of: str) -> None:
        self._listener.episodes(done, total, of)

    def evaluation(self, step: int, result: EvaluationResult) -> None:
        self._listener.evaluation(step, result)

    def note(self, text: str) -> None:
        self._listener.note(text)
        self.record("note", text)

    def _end_killed(self, run: Run) -> None:
        """Record the end of a training that was killed before it could."""
        with suppress(RunError):  # the reader of a damaged file says so
            last, self._step = turning_point(run.events()), run.last_step()
            if last is not None and last.event in STARTS:
                self.record("interrupted", "its process was killed, as this resume found")

    def record(self, event: Kind, text: str) -> None:
        """Add an event to the run's, in one sentence."""
        if self._run is None or self._failed:
            return
        try:
            self._run.append_event(self._step, event, text)
        except RunError as error:
            self._failed = True
            self._listener.note(f"events of the run are recorded no longer: {error}")
