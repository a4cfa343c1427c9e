"""Run: a directory with everything about one training or evaluation.

    run.json config.yaml plugins.json        what it is, how it was configured, with which plugins
    metrics.jsonl metric_catalogue.json      one object a step; what each metric means
    trajectories/step_000001.parquet         every trajectory of a step
    checkpoints/step_000010/ best.json       whole or absent
    evaluation_tasks.json                    ids of the tasks that are evaluated, and of those held out of training
    evaluations/*.json                       score, n, interval, scorer, settings
    model/                                   the final policy, a plain Hugging Face folder

A step's files are written before its checkpoint; so after a kill everything up to the latest checkpoint is there, and
what is later is cut off (`truncate_after`) and done again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from agent_r1_core.contracts.metric import Metric
from agent_r1_core.errors import ConfigError, RunError
from agent_r1_core.runs import directory
from agent_r1_core.runs.checkpoints import Checkpoints
from agent_r1_core.runs.directory import checked_name
from agent_r1_core.runs.evaluation_tasks import EvaluationTasks
from agent_r1_core.runs.files import clean_leftovers, remove_folder, write_folder, write_json, write_text
from agent_r1_core.runs.lock import RunLock
from agent_r1_core.runs.metrics_file import MetricsFile
from agent_r1_core.runs.policy import RunPolicy
from agent_r1_core.runs.replaced import ReplacedRun, aside
from agent_r1_core.runs.trajectory_file import read_advantages, read_trajectories, write_trajectories
from agent_r1_core.trajectory import Trajectory


class Run:
    """A run directory; `create` and `resume` open it for writing, `open` for reading alone."""

    def __init__(self, path: Path, held: RunLock | None = None, replaced: ReplacedRun | None = None) -> None:
        self.path = path
        self.checkpoints = Checkpoints(path / "checkpoints")
        self._metrics = MetricsFile(path / "metrics.jsonl")
        self._lock = held
        self._replaced = replaced
        """The run that this one takes the place of, until this one has recorded a step."""

    @classmethod
    def create(
        cls,
        home: Path | str,
        name: str | None,
        config: Mapping[str, Any],
        plugins: Sequence[Mapping[str, Any]],
        *,
        stem: str = "run",
        resume: bool = False,
        force: bool = False,
    ) -> Run:
        """Begin a run, or with `resume` go on with one.

        Args:
            home: Where runs live; made where it is missing.
            name: The run's name; None takes the first free `<stem>-1`, `<stem>-2`, ...
            config: The resolved configuration; not written over that of a resumed run (see `write_config`).
            plugins: What `plugins.json` holds; likewise.
            stem: The recipe's name.
            resume: Go on with the run of this name.
            force: Replace a run of this name, which is deleted when the new one has recorded a step.

        Raises:
            ConfigError: the name cannot be a folder's name, or is missing with `resume`.
            RunError: the directory exists, is no run, or is being written by another process.
        """
        if resume:
            if name is None:
                raise ConfigError("--resume needs to know which run to go on with; set run.name=NAME")
            return cls.resume(Path(home, checked_name(name)))
        path = directory.numbered(Path(home), checked_name(stem)) if name is None else Path(home, checked_name(name))
        run = cls(path, *directory.claim(path, force))
        try:
            run._begin(config, plugins)
        except BaseException:
            if not run.restore_replaced():
                run.close()
            raise
        return run

    @staticmethod
    def check_free(home: Path | str, name: str | None, *, force: bool = False) -> None:
        """Do nothing where `create` could begin a run now; for a word in time, before the work of preparing one.

        Raises:
            ConfigError, RunError: as `create`.
        """
        if name is not None:
            directory.undo_killed(Path(home, checked_name(name)))
            directory.refuse_taken(Path(home, checked_name(name)), force)

    @classmethod
    def resume(cls, path: Path | str) -> Run:
        """Open an existing run for writing; what killed writers left is removed. Then `truncate_after` the checkpoint.

        Raises:
            RunError: there is no run, it was killed while it was set up, or another process writes it.
        """
        run = cls.open(path)
        run._lock = RunLock(run.path)
        if not (run.path / "config.yaml").exists():
            run.close()
            raise RunError(f"run {path} was stopped before its configuration was written; start it again with --force")
        run._replaced = ReplacedRun.of(run.path)
        if directory.has_steps(run.path):
            run._forget_replaced()
        for folder in (run.path, run.path / "trajectories", run.path / "evaluations"):
            clean_leftovers(folder)
        run.checkpoints.clean()
        run._metrics.truncate_after()
        return run

    @classmethod
    def open(cls, path: Path | str) -> Run:
        """Open an existing run for reading.

        Raises:
            RunError: there is none.
        """
        if not cls.is_run(path):
            raise RunError(
                f"{path} is no run directory (it has no {directory.MARKER}); give a folder that a training made"
            )
        return cls(Path(path))

    @staticmethod
    def is_run(path: Path | str) -> bool:
        """Whether `path` is recognisably a run directory; one whose replacement was killed half-way is put back."""
        directory.undo_killed(Path(path))
        return directory.is_run(Path(path))

    @property
    def name(self) -> str:
        """The run's name: that of its folder."""
        return self.path.resolve().name

    @property
    def model(self) -> Path:
        """The final policy; absent until training is over."""
        return self.path / "model"

    def config(self) -> dict[str, Any]:
        """The resolved configuration."""
        return dict(yaml.safe_load(self._text("config.yaml")))

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Put another resolved configuration in the place of the saved one."""
        self._writable()
        write_text(self.path / "config.yaml", yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True))

    def plugins(self) -> list[dict[str, Any]]:
        """The plugins that the run was begun with."""
        return list(json.loads(self._text("plugins.json")))

    def metrics(self) -> list[dict[str, Any]]:
        """One dictionary a step, with `step`, in ascending order."""
        return self._metrics.read()

    def append_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add the metrics of a step, once per step; they are on the disk when this returns.

        Raises:
            RunError: the step has its line already.
        """
        self._writable()
        self._metrics.append(step, metrics)
        self._forget_replaced()

    def write_trajectories(
        self, step: int, trajectories: Sequence[Trajectory], advantages: Mapping[str, Sequence[float]] | None = None
    ) -> Path:
        """Write all trajectories of a step; see `trajectory_file` for the advantages and the columns."""
        self._writable()
        path = self._step_file(step)
        write_trajectories(path, step, trajectories, advantages)
        return path

    def read_trajectories(self, step: int) -> list[Trajectory]:
        """The trajectories of a step."""
        return read_trajectories(self._step_file(step))

    def read_advantages(self, step: int) -> list[list[float] | None]:
        """Their advantages, one row per trajectory over all its ids; None: not trained on."""
        return read_advantages(self._step_file(step))

    def trajectory_steps(self) -> list[int]:
        """The steps whose trajectories are there."""
        return sorted(int(path.stem.removeprefix("step_")) for path in self.path.glob("trajectories/step_*.parquet"))

    def write_metric_catalogue(self, metrics: Iterable[Metric]) -> None:
        """Record what the metrics of this run mean, for readers without its plugins."""
        self._writable()
        write_json(self.path / "metric_catalogue.json", [metric.to_json() for metric in metrics])

    def write_evaluation_tasks(self, tasks: EvaluationTasks) -> None:
        """Record which tasks are evaluated, and which are held out of training for that."""
        self._writable()
        write_json(self.path / "evaluation_tasks.json", tasks.to_json())

    def evaluation_tasks(self) -> EvaluationTasks | None:
        """That record; None where the run was stopped before it was written."""
        path = self.path / "evaluation_tasks.json"
        return EvaluationTasks.from_json(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None

    def write_evaluation(self, name: str, result: Mapping[str, Any], step: int | None = None) -> Path:
        """Write an evaluation; any process may, also while another one trains.

        Args:
            name: The file's name without `.json`; an older one is replaced.
            result: JSON-able.
            step: The step of the policy that was evaluated; a resume from an earlier step removes the file.
        """
        path = self.path / "evaluations" / f"{checked_name(name)}.json"
        write_json(path, {"schema": 1, "step": step} | dict(result))
        return path

    def evaluations(self) -> dict[str, dict[str, Any]]:
        """All evaluations by name, in the order of their steps."""
        files = self.path.glob("evaluations/*.json")
        found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files}
        return dict(sorted(found.items(), key=lambda item: (item[1]["step"] is None, item[1]["step"] or 0, item[0])))

    def write_model(self, write: Callable[[Path], None]) -> Path:
        """Let `write` fill `model/` with the final policy, whole or not at all."""
        self._writable()
        write_folder(self.model, write)
        return self.model

    def remove_model(self) -> None:
        """Delete `model/`, if it is there: a run that goes on has no final policy yet."""
        self._writable()
        if self.model.is_dir():
            remove_folder(self.model)

    def truncate_after(self, step: int) -> None:
        """Drop metrics, trajectories, evaluations and checkpoints of later steps: they will be done again."""
        self._writable()
        for later in self.trajectory_steps():
            if later > step:
                self._step_file(later).unlink()
        for name, result in self.evaluations().items():
            if result["step"] is not None and result["step"] > step:
                (self.path / "evaluations" / f"{name}.json").unlink()
        self.checkpoints.discard_after(step)
        self._metrics.truncate_after(step)

    def policy(self) -> RunPolicy:
        """The policy that stands for this run: the best checkpoint's, else the final one, else the newest.

        Raises:
            RunError: there is none yet.
        """
        best, newest = self.checkpoints.best(), self.checkpoints.latest()
        if best is not None and newest is not None:
            return RunPolicy(best.policy, "best checkpoint", best.step, best.metric, newest.competitors)
        if self.model.is_dir():
            return RunPolicy(self.model, "final policy", max(self._metrics.last_step(), 0))
        if newest is None:
            old = f", or delete it to have the run back that it replaces ({aside(self.path).name})"
            raise RunError(
                f"run {self.path} holds no policy yet; let it train until its first checkpoint"
                f"{old if aside(self.path).is_dir() else ''}"
            )
        return RunPolicy(newest.policy, "newest checkpoint", newest.step)

    def policy_at(self, folder: Path) -> RunPolicy | None:
        """The policy of this run that lies in `folder`; None where the folder is none of them."""
        folder = folder.resolve()
        if folder == self.model.resolve():
            return RunPolicy(folder, "final policy", max(self._metrics.last_step(), 0))
        found = (one for one in self.checkpoints.all() if one.policy.resolve() == folder)
        return next((RunPolicy(folder, "checkpoint", one.step) for one in found), None)

    def discard(self) -> bool:
        """Delete the run if it holds no result yet, neither metrics nor evaluations; returns whether it did.

        The run that it was to replace returns.
        """
        self._writable()
        if self.restore_replaced():
            return True
        if self.metrics() or self.evaluations() or self.checkpoints.latest() is not None:
            return False
        remove_folder(self.path)
        self.close()
        return True

    def restore_replaced(self) -> bool:
        """Put the run that this one replaces back in its place, and delete this one, which has recorded no step.

        Returns:
            Whether there was such a run.
        """
        if self._replaced is None:
            return False
        remove_folder(self.path)
        self._replaced.restore()
        self._replaced = None
        self.close()
        return True

    def close(self) -> None:
        """Let others write the run."""
        if self._replaced is not None:
            self._replaced.lock.release()
            self._replaced = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, config: Mapping[str, Any], plugins: Sequence[Mapping[str, Any]]) -> None:
        """The marker first, so that a half-made run is recognised; the configuration last, so that it means whole."""
        write_json(
            self.path / directory.MARKER,
            {"kind": directory.KIND, "schema": 1, "created": time.strftime("%Y-%m-%dT%H:%M:%S%z")},
        )
        for folder in ("trajectories", "checkpoints", "evaluations"):
            (self.path / folder).mkdir()
        write_json(self.path / "plugins.json", list(plugins))
        self.write_config(config)

    def _step_file(self, step: int) -> Path:
        return self.path / "trajectories" / f"step_{step:06d}.parquet"

    def _text(self, name: str) -> str:
        try:
            return (self.path / name).read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise RunError(
                f"run {self.path} has no {name}; it was stopped too early, start it again with --force"
            ) from error

    def _forget_replaced(self) -> None:
        """Delete the run that this one replaces: this one has recorded a step."""
        if self._replaced is not None:
            self._replaced.delete()
            self._replaced = None

    def _writable(self) -> None:
        if self._lock is None:
            raise RunError(f"run {self.path} is open for reading alone; open it with Run.resume to write")
