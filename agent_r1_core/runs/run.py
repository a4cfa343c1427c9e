"""Run: a directory with everything about one training or evaluation.

    run.json config.yaml plugins.json        what it is, how it was configured, with which plugins
    metrics.jsonl metric_catalogue.json      one object a step; what each metric means
    health.jsonl                             one object for every health alarm that begins or ends
    events.jsonl                             how training began, what it told its user, how it ended; one object each
    trajectories/step_000001.parquet         every trajectory of a step
    checkpoints/step_000010/ best.json       whole or absent; policy, trainer's state, place in the tasks
    evaluation_tasks.json                    ids of evaluated and held-out tasks, and digests of what all sets ask
    examples.json                            where the examples before every task come from, with their SHA-256
    evaluations/*.json, *.jsonl              score, n, interval, scorer, settings; what each episode was scored by
    evaluations/*.parquet                    the first episodes of each evaluation set, token by token
    model_files/                             tokenizer and whatever else belongs to the model, but weights
    calls_in_process.txt                     while it trains: which tools run inside its process
    model/                                   the final policy, a plain Hugging Face folder

A step's files are written before its checkpoint, which may become visible some steps later. After a kill, everything up
to the latest checkpoint is therefore there; a resume deletes what is later (`truncate_after`) and repeats those steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agent_r1_core.contracts.metric import Metric
from agent_r1_core.errors import ConfigError, RunError
from agent_r1_core.health.alarm import Alarm
from agent_r1_core.opening import check_inside
from agent_r1_core.runs import directory
from agent_r1_core.runs.checkpoints import CheckpointWriter
from agent_r1_core.runs.checksums import with_checksums
from agent_r1_core.runs.directory import ReplacedRun, checked_name
from agent_r1_core.runs.evaluation_file import EvaluationTasks, remove_evaluation, write_evaluation
from agent_r1_core.runs.events_file import Event, Kind
from agent_r1_core.runs.files import (
    clean_leftovers,
    remove,
    remove_folder,
    remove_torn_line,
    write_folder,
    write_json,
    write_text,
)
from agent_r1_core.runs.lock import RunLock
from agent_r1_core.runs.run_reader import RunReader


class Run(RunReader):
    """A run directory; `create` and `resume` open it for writing, `open` only for reading, which changes nothing."""

    def __init__(self, path: Path, held: RunLock | None = None, replaced: ReplacedRun | None = None) -> None:
        super().__init__(path)
        self.checkpoint_writer = CheckpointWriter(self.checkpoints)
        self._lock = held
        self._replaced = replaced
        """The run that this one replaces, until this one has recorded a step."""

    @classmethod
    def create(
        cls,
        home: Path | str,
        name: str | None,
        config: Mapping[str, Any],
        plugins: Sequence[Mapping[str, Any]],
        *,
        stem: str = "run",
        recipe: str | None = None,
        resume: bool = False,
        force: bool = False,
    ) -> Run:
        """Start a run, or continue one with `resume`.

        A resumed run keeps its own `config` (see `write_config`), `plugins` and `recipe`.

        Args:
            home: The directory that holds runs; it is created if missing.
            name: The run's name; None takes the first free `<stem>-1`, `<stem>-2`, ...
            force: Replace a run of this name; the old one is deleted when the new one has recorded a step.

        Raises:
            ConfigError: the name is not valid for a folder, or `resume` comes without one.
            RunError: the directory exists, is not a run, or another process is writing it.
        """
        if resume:
            if name is None:
                raise ConfigError("--resume needs to know which run to continue; set run.name=NAME")
            return cls.resume(Path(home, checked_name(name)))
        path = directory.numbered(Path(home), checked_name(stem)) if name is None else Path(home, checked_name(name))
        run = cls(path, *directory.claim(path, force))
        try:
            directory.lay_out(path, recipe)
            write_json(path / "plugins.json", list(plugins))
            run.write_config(config)  # the last file: a run that has it was set up whole
        except BaseException:
            if not run.restore_replaced():
                run.close()
            raise
        return run

    @staticmethod
    def check_free(home: Path | str, name: str | None, *, force: bool = False) -> None:
        """Raise early what `create` would raise, ConfigError or RunError, before anything expensive is prepared."""
        if name is not None:
            Run.bring_back(Path(home, checked_name(name)))
            directory.refuse_taken(Path(home, checked_name(name)), force)

    @classmethod
    def resume(cls, path: Path | str) -> Run:
        """Open an existing run for writing and remove what killed writers left; call `truncate_after` next.

        Raises:
            RunError: there is no run, it was killed during its setup, or another process is writing it.
        """
        cls.bring_back(path)
        run = cls.open(path)
        run._lock = RunLock(run.path)
        try:
            run._tidy()
        except BaseException:
            run.close()
            raise
        return run

    @classmethod
    def open(cls, path: Path | str) -> Run:
        """Open an existing run for reading; raises a RunError if there is none."""
        if not cls.is_run(path):
            raise directory.missing(Path(path))
        return cls(Path(path))

    @staticmethod
    def bring_back(path: Path | str) -> None:
        """Put back the run that a killed process was about to replace; only for a command that then writes it."""
        directory.undo_killed(Path(path))

    def write_config(self, config: Mapping[str, Any]) -> None:
        from agent_r1_core.config.yaml_text import dump

        self._writable()
        write_text(self.path / "config.yaml", dump(dict(config)))

    def append_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add the metrics of a step, on disk when this returns; raises RunError if the step already has its line."""
        self._writable()
        self._metrics.append(step, metrics)
        self._forget_replaced()

    def append_alarms(self, alarms: Sequence[Alarm]) -> None:
        """Add the health alarms that begin or end with a step; they are on disk when this returns."""
        self._writable()
        self._alarms.append(alarms)

    def write_alarms(self, alarms: Sequence[Alarm]) -> None:
        """Replace the health alarms of the run by those that its metrics give."""
        self._writable()
        self._alarms.write(alarms)

    def append_event(self, step: int, event: Kind, text: str) -> None:
        """Add an event, which happens now; it is on disk when this returns."""
        self._writable()
        self._events.append([Event(time.time(), step, event, text)])

    def write_metric_catalogue(self, metrics: Iterable[Metric]) -> None:
        """Record what the metrics of this run mean, for readers without its plugins."""
        self._write_json("metric_catalogue.json", [metric.to_json() for metric in metrics])

    def write_evaluation_tasks(self, tasks: EvaluationTasks) -> None:
        """Record which tasks are evaluated and which are held out of training."""
        self._write_json("evaluation_tasks.json", tasks.to_json())

    def write_examples(self, facts: Mapping[str, Any] | None) -> None:
        """Record which examples stand before every task; nothing if there are none."""
        if facts is not None:
            self._write_json("examples.json", dict(facts))

    def write_evaluation(
        self,
        name: str,
        result: Mapping[str, Any],
        step: int | None = None,
        episodes: Sequence[Mapping[str, Any]] = (),
        trajectories: Mapping[str, str] = MappingProxyType({}),
    ) -> Path:
        """Write an evaluation. Any process may do this, even while another one trains.

        Args:
            name: The file's name without `.json`; an existing file is replaced.
            step: The training step of the evaluated policy; a resume from an earlier step removes the file.
            episodes: What the result was computed from, one JSON-serialisable object per episode.
            trajectories: By evaluation set, the names of the files of `evaluation_trajectories_file`.
        """
        path = self.path / "evaluations" / f"{checked_name(name)}.json"
        check_inside(path.parent, self.path)
        write_evaluation(path, {"schema": 1, "step": step} | dict(result), episodes, trajectories)
        return path

    def keep_model_files(self, model: Path) -> None:
        """Copy what belongs to the model besides its weights from the folder `model`, unless the run has a copy."""
        self._writable()
        self.model_files.keep(model)

    def write_model(self, write: Callable[[Path], None]) -> Path:
        """Let `write` fill `model/` with the final policy, whole or not at all, and add the checksums of its files."""
        self._writable()
        write_folder(self.model, with_checksums(write))
        return self.model

    def remove_model(self) -> None:
        """Delete `model/` if it exists: a run that continues has no final policy yet."""
        self._writable()
        if self.model.is_dir():
            remove_folder(self.model)

    def truncate_after(self, step: int) -> None:
        """Delete metrics, trajectories, evaluations and checkpoints of later steps, which will be repeated."""
        self._writable()
        for later in self.trajectory_steps():
            if later > step:
                remove(self.trajectory_file(later))
        for name, result in self.evaluations().items():
            if result["step"] is not None and result["step"] > step:
                remove_evaluation(self.path / "evaluations" / f"{name}.json")
        self.checkpoints.discard_after(step)
        self._metrics.truncate_after(step)

    def discard(self) -> bool:
        """Delete the run if it holds no results yet, and put back the run that it replaces; returns whether it did."""
        self._writable()
        if self.restore_replaced():
            return True
        if self.metrics() or self.evaluations() or self.checkpoints.latest() is not None:
            return False
        remove_folder(self.path)
        self.close()
        return True

    def restore_replaced(self) -> bool:
        """If this run replaces another, delete it and put the other back; returns whether it did."""
        if self._replaced is None:
            return False
        remove_folder(self.path)
        self._replaced.restore()
        self._replaced = None
        self.close()
        return True

    def close(self) -> None:
        """Release the run to other writers, when the checkpoint that is being written is on disk."""
        self.checkpoint_writer.wait()
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

    def _write_json(self, name: str, value: Any) -> None:
        self._writable()
        write_json(self.path / name, value)

    def _tidy(self) -> None:
        """Remove what killed writers left in a run that goes on."""
        if not (self.path / "config.yaml").exists():
            raise RunError(
                f"run {self.path} was stopped before its configuration was written; start it again with --force"
            )
        self._replaced = ReplacedRun.of(self.path)
        if self._metrics.last_step() >= 0:
            self._forget_replaced()
        directory.make_folders(self.path)
        for folder in (self.path, self.path / "trajectories", self.path / "evaluations"):
            clean_leftovers(folder)
        self.checkpoints.clean()
        for lines in (self._metrics, self._events):
            remove_torn_line(lines.path)

    def _forget_replaced(self) -> None:
        if self._replaced is not None:
            self._replaced.delete()
            self._replaced = None

    def _writable(self) -> None:
        if self._lock is None:
            raise RunError(f"run {self.path} is open for reading only; open it with Run.resume to write")
