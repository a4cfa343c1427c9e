"""RunReader: what a run directory holds, for readers; `Run` adds the writing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agent_r1_core.errors import ConfigError, RunError
from agent_r1_core.health.alarm import Alarm, verdict
from agent_r1_core.opening import parse_json, read_text
from agent_r1_core.runs.checkpoint import Checkpoint, RunPolicy
from agent_r1_core.runs.checkpoints import Checkpoints
from agent_r1_core.runs.directory import aside, is_run
from agent_r1_core.runs.evaluation_file import EvaluationTasks, damaged_file, read_evaluation, trajectory_files
from agent_r1_core.runs.events_file import Event, RunState
from agent_r1_core.runs.files import LinesFile
from agent_r1_core.runs.lock import is_held
from agent_r1_core.runs.metrics_file import MetricsFile
from agent_r1_core.runs.model_files import ModelFiles
from agent_r1_core.runs.trajectory_file import read_token_numbers, read_trajectories
from agent_r1_core.trajectory import Trajectory

_STEP_FILE = re.compile(r"step_(\d{6,})\.parquet")


class RunReader:
    """The files of a run directory, read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = Checkpoints(path / "checkpoints")
        self.model_files = ModelFiles(path / "model_files")
        self._metrics = MetricsFile(path / "metrics.jsonl")
        self._alarms = LinesFile(path / "health.jsonl", Alarm, "an alarm")
        self._events = LinesFile(path / "events.jsonl", Event, "an event")

    @staticmethod
    def is_run(path: Path | str) -> bool:
        return is_run(Path(path))

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
        return parsed_config(self.path / "config.yaml", self._text("config.yaml"))

    def setting(self, key: str) -> Any:
        """The value of a key of the configuration, such as `model.dtype`; a RunError where it lacks it."""
        value: Any = self.config()
        try:
            for part in key.split("."):
                value = value[part]
        except (KeyError, TypeError) as error:
            raise RunError(f"{self.path / 'config.yaml'} is damaged: it names no {key}; restore the file") from error
        return value

    def plugins(self) -> list[dict[str, Any]]:
        """The plugins with which the run started."""
        return list(self._json("plugins.json", list))

    def metrics(self) -> list[dict[str, Any]]:
        """One dictionary a step, with `step`, in ascending order."""
        return self._metrics.read()

    def last_step(self) -> int:
        """The newest recorded step; 0 before the first."""
        return max(self._metrics.last_step(), 0)

    def alarms(self) -> list[Alarm]:
        """What the health monitors said: every beginning and end of an alarm, in the order of the steps."""
        return self._alarms.read()

    def health(self, steps: int | None = None) -> str:
        """The verdict on the run, one to three lines: healthy, or which alarms stand, since when; not known where
        nobody watched. `steps` that it has recorded are counted if left out.
        """
        alarms = self.alarms() if self._alarms.path.is_file() else None
        return verdict(alarms, self.last_step() if steps is None else steps)

    def events(self) -> list[Event]:
        """How training began, what it told its user, and how it ended, in the order of time."""
        try:
            return self._events.read()
        except FileNotFoundError:  # a run that is being deleted
            return []
        except OSError as error:
            path = self._events.path
            raise RunError(f"{path} cannot be read ({error.strerror}); make it readable and try again") from error

    def state(self) -> RunState:
        """Whether the run is trained just now, and if not, how its training ended."""
        events, held = self.events(), is_held(self.path)
        # A trainer writes its end before it lets go: one that ended in between has written it by now.
        return RunState.of(self.path, events if held else self.events(), held)

    def trajectory_file(self, step: int) -> Path:
        """Where the trajectories of a step are, once they are written."""
        return self.path / "trajectories" / f"step_{step:06d}.parquet"

    def read_trajectories(self, step: int, dropped: bool = False) -> list[Trajectory]:
        """The trajectories of a step, then its greedy baselines, then, if asked for, the episodes that were dropped
        because they failed at every attempt, and count in no mean."""
        return read_trajectories(self.trajectory_file(step), dropped)

    def read_token_numbers(self, step: int, dropped: bool = False) -> list[dict[str, list[float] | None]]:
        """What the update of a step knew of the tokens: advantages, the learner's log-probs and values, one row per
        trajectory over all its ids; None: nothing of this kind."""
        return read_token_numbers(self.trajectory_file(step), dropped)

    def trajectory_steps(self) -> list[int]:
        """The steps that have a trajectory file, in ascending order."""
        found = (_STEP_FILE.fullmatch(path.name) for path in self.path.glob("trajectories/*"))
        return sorted(int(match[1]) for match in found if match)

    def evaluation_trajectories_file(self, name: str, set_name: str = "") -> Path:
        """Where the episodes of an evaluation are token by token, if they are kept."""
        return self.path / "evaluations" / f"{name}{set_name and '.'}{set_name}.parquet"

    def read_evaluation_trajectories(self, name: str, set_name: str = "") -> list[Trajectory]:
        """The first episodes of an evaluation set, token by token; those that failed, if they are among them, come
        last.

        Raises:
            RunError: the evaluation, or the set, keeps none.
        """
        path = self.path / "evaluations" / f"{name}.json"
        files = trajectory_files(path, read_evaluation(path))
        if set_name not in files:
            of = f" of a set {set_name!r}" if set_name else ""
            kept = ", ".join(filter(None, files))
            advice = f"name one of its sets: {kept}" if kept else "evaluate with recording.evaluation_episodes above 0"
            raise RunError(f"{path} keeps no episodes token by token{of}; {advice}")
        return read_trajectories(path.with_name(files[set_name]))

    def evaluation_tasks(self) -> EvaluationTasks | None:
        """Which tasks are evaluated and held out; None if the run stopped before it recorded them."""
        path = self.path / "evaluation_tasks.json"
        if not path.is_file():
            return None
        try:
            return EvaluationTasks.from_json(self._json(path.name, dict))
        except (KeyError, ValueError) as error:
            raise damaged_file(path) from error

    def examples(self) -> dict[str, Any] | None:
        """Which examples stand before every task; None if there are none."""
        return self._json("examples.json", dict) if (self.path / "examples.json").is_file() else None

    def evaluations(self) -> dict[str, dict[str, Any]]:
        """All evaluations by name, ordered by step."""
        files = self.path.glob("evaluations/*.json")
        results = {path.stem: read_evaluation(path) for path in files}
        return dict(sorted(results.items(), key=lambda item: (item[1]["step"] is None, item[1]["step"] or 0, item[0])))

    def newest_evaluation(self) -> Path | None:
        """The file of the last evaluation that `agent-r1 eval` made of this run, else of the last one in training;
        None: there is none."""
        evaluations = self.evaluations()
        later = [name for name, result in evaluations.items() if result["step"] is None]
        numbered = sorted(later, key=lambda name: (len(name), name)) or list(evaluations)
        return self.path / "evaluations" / f"{numbered[-1]}.json" if numbered else None

    def policy(self, damaged: Mapping[Path, str] = MappingProxyType({})) -> RunPolicy:
        """The policy that represents this run: the best checkpoint's, else the final one, else the newest.

        Args:
            damaged: folders of checkpoints that do not count, and what is wrong with them.

        Raises:
            RunError: the run has none.
        """
        checkpoints, best = self.checkpoints.all(), self.checkpoints.best(without=damaged)
        if best is not None:
            return RunPolicy(best.policy, "best checkpoint", best.step, best.metric, checkpoints[-1].competitors)
        if self.model.is_dir():
            return RunPolicy(self.model, "final policy", self.last_step())
        newest = next((item for item in reversed(checkpoints) if item.path not in damaged), None)
        if newest is None:
            raise RunError(self._no_policy(damaged))
        return RunPolicy(newest.policy, "newest checkpoint", newest.step)

    def policy_at(self, folder: Path) -> RunPolicy | None:
        """The policy of this run in `folder`; None if the folder holds none."""
        folder = folder.resolve()
        if folder == self.model.resolve():
            return RunPolicy(folder, "final policy", self.last_step())
        checkpoint = self.checkpoint_of(folder)
        return None if checkpoint is None else RunPolicy(folder, "checkpoint", checkpoint.step)

    def checkpoint_of(self, policy: Path) -> Checkpoint | None:
        """The checkpoint whose policy is in the folder `policy`; None if it is in none."""
        policy = policy.resolve()
        return next((item for item in self.checkpoints.all() if item.policy.resolve() == policy), None)

    def _no_policy(self, damaged: Mapping[Path, str]) -> str:
        """Why it has none, and what to do."""
        reasons = self.checkpoints.damaged() | {path.name: reason for path, reason in damaged.items()}
        if reasons:
            listed = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
            return f"run {self.path} holds no whole policy ({listed}); restore a checkpoint from a copy"
        kept = aside(self.path)
        old = (
            f", or delete it and get back the run that it replaces ({kept.name}) with --resume" if kept.is_dir() else ""
        )
        return f"run {self.path} holds no policy yet; let it train until its first checkpoint{old}"

    def _json(self, name: str, kind: type) -> Any:
        try:
            value = parse_json(self._text(name))
        except ValueError as error:
            raise damaged_file(self.path / name) from error
        if not isinstance(value, kind):
            raise damaged_file(self.path / name)
        return value

    def _text(self, name: str) -> str:
        try:
            return read_text(self.path / name)
        except UnicodeDecodeError as error:
            raise damaged_file(self.path / name) from error
        except FileNotFoundError as error:
            recorded = (self.path / "metrics.jsonl").exists() or any(self.path.glob("evaluations/*.json"))
            advice = "restore it from a copy" if recorded else "it was stopped too early, start it again with --force"
            raise RunError(f"run {self.path} has no {name}; {advice}") from error


def parsed_config(path: Path, text: str) -> dict[str, Any]:
    """The configuration in a text of the file at `path`; raises a RunError if it is damaged."""
    from agent_r1_core.config.yaml_text import parse

    try:
        value = parse(text, str(path)).value
    except ConfigError as error:
        raise damaged_file(path) from error
    if not isinstance(value, dict):
        raise damaged_file(path)
    return value
