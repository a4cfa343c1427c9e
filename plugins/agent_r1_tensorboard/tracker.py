"""The tracker `tensorboard`: metrics as scalars and sampled trajectories as text, in `<run>/tensorboard`.

Look at them with `tensorboard --logdir <run>/tensorboard`. TensorBoard hides the steps that a resumed run repeats; the
older event files stay.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_r1_core import ComponentConfig, ComponentLoadError, RunInfo, Tracker

if TYPE_CHECKING:
    from agent_r1_core import Trajectory


class TensorBoard(Tracker):
    """Writes TensorBoard event files and flushes them every step."""

    def __init__(self, config: ComponentConfig | None = None) -> None:
        super().__init__(config)
        self._writer: Any = None

    @classmethod
    def unavailable(cls, config: ComponentConfig) -> str | None:
        """A sentence if the package tensorboard is missing."""
        if find_spec("tensorboard") is None:
            return "the package tensorboard is missing; run `pip install tensorboard` or leave the tracker out"
        return None

    def open(self, run: RunInfo) -> None:
        """Begin the run's event files, or continue them.

        Raises:
            ComponentLoadError: tensorboard is not installed.
        """
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ComponentLoadError(
                "the tracker tensorboard needs the package tensorboard; run `pip install tensorboard` or leave it out"
            ) from error
        purge = None if run.resumed_at is None else run.resumed_at + 1
        self._writer = SummaryWriter(str(Path(run.directory) / "tensorboard"), purge_step=purge)
        if run.resumed_at is None:
            self._writer.add_text("metrics", "\n".join(f"- `{metric}`: {metric.meaning}" for metric in run.metrics), 0)
            self._writer.add_text("config", _code(json.dumps(run.config, indent=2, default=str, ensure_ascii=False)), 0)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def log_trajectories(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """One text per trajectory, under `trajectories/0`, `trajectories/1`, ..."""
        for number, trajectory in enumerate(trajectories):
            self._writer.add_text(f"trajectories/{number}", _text(trajectory), step)
        self._writer.flush()

    def close(self) -> None:
        """Flush and close the event file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def how_to_look(self, directory: str) -> str:
        """TensorBoard's own command."""
        return f"tensorboard --logdir {directory}"


def _text(trajectory: Trajectory) -> str:
    end = f"{trajectory.status} ({trajectory.reason})" if trajectory.reason else str(trajectory.status)
    head = f"{trajectory.id}: reward {trajectory.total_reward:.3g}, {end}, answer {trajectory.answer!r}"
    lines = (f"[{message.get('role', '')}] {message.get('content', '')}" for message in trajectory.messages())
    return _code("\n".join([head, *lines]))


def _code(text: str) -> str:
    """The text indented, so that Markdown shows it unchanged."""
    return "\n".join(f"    {line}" for line in text.splitlines())
