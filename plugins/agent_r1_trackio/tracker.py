"""The tracker `trackio`: metrics, and sampled trajectories as traces, in a local SQLite file; nothing is uploaded.

Look at them with `TRACKIO_DIR=<run>/trackio trackio show --project agent-r1`. To compare several runs, set `directory`
to the same folder for all. Entries appear within about a second; a killed process loses no more than that.
"""

from __future__ import annotations

import contextlib
import contextvars
import io
import os
import sqlite3
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_r1_core import ComponentConfig, ComponentLoadError, RunInfo, Tracker

if TYPE_CHECKING:
    from agent_r1_core import Trajectory

_REMOTE = ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL")


class Trackio(Tracker):
    """Logs to trackio without network; ignores environment variables that would send data to a server."""

    class Config(ComponentConfig):
        project: str = "agent-r1"
        """The project under which the dashboard lists the run."""
        directory: str | None = None
        """Where trackio keeps its files; null: `trackio` in the run's folder."""

    def __init__(self, config: ComponentConfig | None = None) -> None:
        super().__init__(config)
        self._trackio: Any = None
        self._run: Any = None

    @classmethod
    def unavailable(cls, config: Config) -> str | None:
        """A sentence if the package trackio is missing."""
        if find_spec("trackio") is None:
            return "the package trackio is missing; run `pip install 'agent-r1[trackio]'` or leave the tracker out"
        return None

    def open(self, run: RunInfo) -> None:
        """Begin the run, or continue it without the entries after the step at which it resumes.

        Raises:
            ComponentLoadError: trackio is not installed.
        """
        directory = Path(self.config.directory or Path(run.directory) / "trackio").expanduser().resolve()
        self._trackio = _import_trackio(directory)
        if run.resumed_at is not None:
            _forget_after(directory / f"{self.config.project}.db", run.name, run.resumed_at)
        with _quiet(), _environment(dict.fromkeys(_REMOTE)):
            # In a context of its own, so that trackio's current run, which it finishes noisily at exit, stays the
            # caller's.
            self._run = contextvars.copy_context().run(
                self._trackio.init,
                project=self.config.project,
                name=run.name,
                config=dict(run.config),
                resume="never" if run.resumed_at is None else "allow",
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Queue the metrics of a step."""
        self._run.log(dict(metrics), step=step)

    def log_trajectories(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Queue one trace per trajectory, with its rewards and its end as metadata."""
        self._run.log({"trajectories": [self._trace(trajectory) for trajectory in trajectories]}, step=step)

    def close(self) -> None:
        if self._run is not None:
            with _quiet():
                self._run.finish()
            self._run = None

    def how_to_look(self, directory: str) -> str:
        """trackio's own command, with the folder of this run's files."""
        folder = self.config.directory or Path(directory) / "trackio"
        return f"TRACKIO_DIR={folder} trackio show --project {self.config.project}"

    def _trace(self, trajectory: Trajectory) -> Any:
        metadata = {
            "task": trajectory.task.id,
            "sample": trajectory.sample,
            "reward": trajectory.total_reward,
            "rewards": trajectory.rewards,
            "turn_rewards": [turn.rewards for turn in trajectory.steps],
            "status": str(trajectory.status),
            "reason": trajectory.reason,
            "answer": trajectory.answer,
            "accepted": list(trajectory.task.answers),
        }
        return self._trackio.Trace(messages=[dict(message) for message in trajectory.messages()], metadata=metadata)


def _import_trackio(directory: Path) -> Any:
    """trackio with its files in `directory`; it reads TRACKIO_DIR on import, so another folder needs a new import."""
    loaded = sys.modules.get("trackio.utils")
    if loaded is not None and Path(loaded.TRACKIO_DIR) != directory:
        for name in [name for name in sys.modules if name.partition(".")[0] == "trackio"]:
            del sys.modules[name]
    try:
        with _environment({"TRACKIO_DIR": str(directory)}):
            import trackio
    except ImportError as error:
        raise ComponentLoadError(
            "the tracker trackio needs the package trackio; run `pip install 'agent-r1[trackio]'` or leave it out"
        ) from error
    return trackio


def _forget_after(database: Path, run: str, step: int) -> None:
    """Remove the run's entries of later steps, which trackio itself cannot do."""
    if not database.exists():
        return
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        for table in ("metrics", "traces"):
            connection.execute(f"DELETE FROM {table} WHERE run_name = ? AND step > ?", (run, step))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence trackio, which prints to stdout, where the command's own output goes."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield


@contextlib.contextmanager
def _environment(values: Mapping[str, str | None]) -> Iterator[None]:
    """Set (or, for None, unset) environment variables for a while."""
    before = {name: os.environ.get(name) for name in values}
    _put(values)
    try:
        yield
    finally:
        _put(before)


def _put(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
