"""Commands of agent-r1 without a model: a training leaves a complete run, an evaluation a result with known scores."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest
from agent_r1_paper.matrix import Matrix
from agent_r1_paper.matrix_display import MatrixDisplay
from agent_r1_paper.runner import run_matrix
from agent_r1_paper.shaping import ALL_TABLES
from agent_r1_paper.store import Store
from agent_r1_paper.tables import SCALES

from agent_r1_core.evaluation.episode_record import EpisodeRecord
from agent_r1_core.evaluation.report import combine, report
from agent_r1_core.runs.run import Run
from agent_r1_core.testing.trajectories import make_task, make_trajectory

SETS = ("films", "people", "companies_and_cities")
QUESTIONS = 20


def answered(right: float, name: str = "") -> list[EpisodeRecord]:
    """The episodes of a set in which that share of the questions is answered rightly."""
    tasks = [make_task(f"q{index}", "Where?", ("Paris",)) for index in range(QUESTIONS)]
    answers = ["Paris" if index < right * QUESTIONS else "Rome" for index in range(QUESTIONS)]
    played = [make_trajectory(task=task, answer=answer) for task, answer in zip(tasks, answers, strict=True)]
    return [EpisodeRecord.of(one, set_name=name) for one in played]


class Commands:
    """Executes commands as `scores` says: by run name, the share of right answers in each set."""

    def __init__(self, scores: Mapping[str, Sequence[float]]) -> None:
        self.scores = scores
        self.ran: list[str] = []
        """`train ppo-0`, `eval ppo-0`, ..."""
        self.told = io.StringIO()
        """What the last run showed."""
        self.evaluates = False
        """Whether a training ends with an evaluation."""
        self.failing: dict[str, BaseException] = {}
        """What a command raises, by the same text."""

    def __call__(self, command: Sequence[str], log: Path) -> str:
        keys = dict(word.split("=", 1) for word in command if "=" in word)
        run = Path(keys["run.dir"], keys["run.name"]) if "run.dir" in keys else Path(command[1])
        text = f"{command[0]} {run.name}"
        self.ran.append(text)
        if text in self.failing:
            raise self.failing.pop(text)
        if command[0] == "train":
            with Run.create(run.parent, run.name, {}, []) as trained:
                trained.write_model(lambda folder: None)
            if self.evaluates:
                self._evaluated(run)
            return f"run: {run}"
        return json.dumps({"file": str(self._evaluated(run))})

    def _evaluated(self, run: Path) -> Path:
        if not Run.is_run(run):
            Run.create(run.parent, run.name, {}, []).close()
        shares = self.scores.get(run.name, (0.5, 0.5, 0.5))
        names = SETS if len(shares) > 1 else ("",)
        sets = {name: answered(share, name) for name, share in zip(names, shares, strict=True)}
        about = {"corpus": "960 passages", "checkpoint": "the best of 3", "held_out": "none of these 20 is in training"}
        results = {name: report(sets[name], sampling={"greedy": True}, provenance=about) for name in sets}
        result = combine(results) if len(shares) > 1 else results[""]
        rows = [episode.to_json() for episodes in sets.values() for episode in episodes]
        name = f"eval_{len(Run.open(run).evaluations()) + 1}"
        return Run.open(run).write_evaluation(name, {**result.to_json(), "policy": None}, episodes=rows)


@pytest.fixture
def commands() -> Commands:
    """Every cell scores 0.5 until a test says otherwise; Naive RAG can be played."""
    return Commands({"naive_rag.check": (0.9,)})


@cache
def matrix(table: str = "table3", seeds: int = 1, **more: object) -> Matrix:
    """A table at the scale `tiny`, which resolves its recipes once for all tests."""
    return Matrix(ALL_TABLES[table], SCALES["tiny"], seeds, **more)  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A folder that does not exist yet."""
    return Store(tmp_path / "matrix")


@pytest.fixture
def run(store: Store, commands: Commands) -> Callable[..., dict[str, str]]:
    """`run(matrix, resume=True)` runs in the folder what has not run; returns why cells failed."""

    def run(matrix: Matrix, resume: bool = False, store: Store = store) -> dict[str, str]:
        store.open(matrix, resume)
        commands.told = io.StringIO()
        return run_matrix(matrix, store, commands, MatrixDisplay(commands.told, live=False))

    return run
