"""Recorder: a listener that passes everything on, and keeps notes and the run's beginning and end in `events.jsonl`.

Nothing that it does may end a training, or hide the error that did: where the file cannot be written, the listener is
told, once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from agent_r1_core.errors import AgentR1Error, RunError
from agent_r1_core.runs.events_file import STARTS, turning_point

if TYPE_CHECKING:
    from agent_r1_core.evaluation.listener import Listener
    from agent_r1_core.evaluation.report import EvaluationResult
    from agent_r1_core.runs.events_file import Kind, Start
    from agent_r1_core.runs.run import Run


class Recorder:
    """Records in a run, from `recording` on, what the listener hears."""

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
