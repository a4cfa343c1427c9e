"""RunReader: what a run directory holds, for readers; `Run` adds the writing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from agent_r1_core.errors import RunError
from agent_r1_core.runs import directory
from agent_r1_core.runs.checkpoints import Checkpoints
from agent_r1_core.runs.evaluation_tasks import EvaluationTasks
from agent_r1_core.runs.metrics_file import MetricsFile
from agent_r1_core.runs.policy import RunPolicy
from agent_r1_core.runs.replaced import aside
from agent_r1_core.runs.trajectory_file import read_advantages, read_trajectories
from agent_r1_core.trajectory import Trajectory


class RunReader:
    """The files of a run directory, read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = Checkpoints(path / "checkpoints")
        self._metrics = MetricsFile(path / "metrics.jsonl")

    @staticmethod
    def is_run(path: Path | str) -> bool:
        """Whether `path` is a run directory; first puts back a run whose replacement was killed half-way."""
        directory.undo_killed(Path(path))
        return directory.is_run(Path(path))

    @property
    def name(self) -> str:
        """The run's name: that of its folder."""
        return self.path.resolve().name

    @property
    def model(self) -> Path:
        """The folder of the final policy; absent until training ends."""
        return self.path / "model"

    def config(self) -> dict[str, Any]:
        """The resolved configuration."""
        return dict(yaml.safe_load(self._text("config.yaml")))

    def plugins(self) -> list[dict[str, Any]]:
        """The plugins with which the run started."""
        return list(json.loads(self._text("plugins.json")))

    def metrics(self) -> list[dict[str, Any]]:
        """One dictionary a step, with `step`, in ascending order."""
        return self._metrics.read()

    def read_trajectories(self, step: int) -> list[Trajectory]:
        """The trajectories of a step."""
        return read_trajectories(self._step_file(step))

    def read_advantages(self, step: int) -> list[list[float] | None]:
        """The advantages of a step, one row per trajectory over all its ids; None: not trained on."""
        return read_advantages(self._step_file(step))

    def trajectory_steps(self) -> list[int]:
        """The steps that have a trajectory file, in ascending order."""
        return sorted(int(path.stem.removeprefix("step_")) for path in self.path.glob("trajectories/step_*.parquet"))

    def evaluation_tasks(self) -> EvaluationTasks | None:
        """Which tasks are evaluated and held out; None if the run stopped before it recorded them."""
        path = self.path / "evaluation_tasks.json"
        return EvaluationTasks.from_json(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None

    def evaluations(self) -> dict[str, dict[str, Any]]:
        """All evaluations by name, ordered by step."""
        files = self.path.glob("evaluations/*.json")
        results = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files}
        return dict(sorted(results.items(), key=lambda item: (item[1]["step"] is None, item[1]["step"] or 0, item[0])))

    def policy(self) -> RunPolicy:
        """The policy that represents this run: the best checkpoint's, else the final one, else the newest.

        Raises:
            RunError: the run has none yet.
        """
        best, newest = self.checkpoints.best(), self.checkpoints.latest()
        if best is not None and newest is not None:
            return RunPolicy(best.policy, "best checkpoint", best.step, best.metric, newest.competitors)
        if self.model.is_dir():
            return RunPolicy(self.model, "final policy", max(self._metrics.last_step(), 0))
        if newest is None:
            old = f", or delete it to get back the run that it replaces ({aside(self.path).name})"
            raise RunError(
                f"run {self.path} holds no policy yet; let it train until its first checkpoint"
                f"{old if aside(self.path).is_dir() else ''}"
            )
        return RunPolicy(newest.policy, "newest checkpoint", newest.step)

    def policy_at(self, folder: Path) -> RunPolicy | None:
        """The policy of this run in `folder`; None if the folder holds none."""
        folder = folder.resolve()
        if folder == self.model.resolve():
            return RunPolicy(folder, "final policy", max(self._metrics.last_step(), 0))
        checkpoints = (item for item in self.checkpoints.all() if item.policy.resolve() == folder)
        return next((RunPolicy(folder, "checkpoint", item.step) for item in checkpoints), None)

    def _step_file(self, step: int) -> Path:
        return self.path / "trajectories" / f"step_{step:06d}.parquet"

    def _text(self, name: str) -> str:
        try:
            return (self.path / name).read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise RunError(
                f"run {self.path} has no {name}; it was stopped too early, start it again with --force"
            ) from error
