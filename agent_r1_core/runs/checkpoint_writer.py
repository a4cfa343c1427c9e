"""Writes a run's checkpoints in a thread, one at a time, while training goes on.

A checkpoint that is being written is no checkpoint yet: it becomes one by a rename, as everything here does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent_r1_core.runs.checkpoints import Checkpoints


class CheckpointWriter:
    """The writer of a run's checkpoints."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints
        self._idle = threading.Event()
        self._idle.set()
        self._error: BaseException | None = None
        self.step = 0
        """The step whose checkpoint was begun last."""

    @property
    def busy(self) -> bool:
        """Whether a checkpoint is being written."""
        return not self._idle.is_set()

    def start(self, step: int, write: Callable[[Path], None], **options: Any) -> None:
        """Begin to write the checkpoint of a step, when the one before it is on disk.

        Args:
            write: fills the checkpoint's folder, in another thread.
            options: those of `Checkpoints.save`.

        Raises:
            RunError: the one before it could not be written.
        """
        self.wait()
        self.raise_error()
        self.step = step
        self._idle.clear()
        threading.Thread(target=self._run, args=(step, write, options), name="agent-r1-checkpoint", daemon=True).start()

    def wait(self) -> None:
        """Wait until nothing is being written, and leave an error to `raise_error`."""
        self._idle.wait()

    def raise_error(self) -> None:
        """Raise, once, what kept the last checkpoint from being written.

        Raises:
            RunError: the file system refused (full, read-only, gone).
        """
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _run(self, step: int, write: Callable[[Path], None], options: dict[str, Any]) -> None:
        try:
            self._checkpoints.save(step, write, **options)
        except BaseException as error:  # it belongs to the thread that asks for it
            self._error = error
        finally:
            self._idle.set()
