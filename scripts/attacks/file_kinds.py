"""One file of every kind that is read, and what reads it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_r1_viewer.answers import Answers, Lines

from agent_r1_core.assembly.checkpointing import load_task_order, load_trainer_state
from agent_r1_core.assembly.model_source import find_model
from agent_r1_core.assembly.task_order import TaskOrder
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.config import load_config
from agent_r1_core.contracts.json_text import to_json
from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.errors import AgentR1Error
from agent_r1_core.evaluation.result_file import ResultFile
from agent_r1_core.health.watch import HealthConfig, Watch
from agent_r1_core.learning.learner import Learner
from agent_r1_core.learning.policy import Policy
from agent_r1_core.plugins import Registry
from agent_r1_core.runs.checkpoint import STATE
from agent_r1_core.runs.checksums import MODEL_CHECKSUMS, checksum_of
from agent_r1_core.runs.reading.found_runs import FoundRuns
from agent_r1_core.runs.run import Run
from agent_r1_core.training.api import resolve
from agent_r1_core.training.resume import check_resumable, hardware_choices, recorded_plugins

RECIPE = "extends: default\ntraining: {steps: 3, lr: 1e-4}\ntools:\n  - {name: wiki_search, top_k: 2}\n"
GSM8K = [{"question": f"What is {n} + 1?", "answer": f"It is {n + 1}.\n#### {n + 1}"} for n in range(4)]
HOTPOTQA = [
    {
        "id": str(n),
        "question": "Who?",
        "answer": "Ann",
        "type": "bridge",
        "level": "easy",
        "supporting_facts": {"title": ["A", "B"], "sent_id": [0, 0]},
        "context": {"title": ["A", "B"], "sentences": [["Ann is here."], ["So is Bo."]]},
    }
    for n in range(3)
]
MUSIQUE = [
    {
        "id": f"2hop__{n}_{n + 1}",
        "question": "Who?",
        "answer": "Ann",
        "answer_aliases": ["Anne"],
        "answerable": True,
        "paragraphs": [{"idx": 0, "title": "A", "paragraph_text": "Ann is here.", "is_supporting": True}],
    }
    for n in range(3)
]
OWN = [{"question": "Who?", "answers": ["Ann"], "hops": 2, "passages": [{"title": "A", "text": "Ann is here."}]}] * 3
SHOWN = [{"messages": [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Ann"}]}] * 3


@dataclass(frozen=True)
class Kind:
    """A file, and what reads it."""

    path: Path
    read: Callable[[Path], object]
    vouched: bool = False
    """Whether the checksum of a corrupted one is made anew before it is read."""


def kinds(folder: Path, run: Run) -> list[Kind]:
    """One file of every kind, written to `folder` or by `run`."""
    registry = Registry.discover()

    def tasks(name: str) -> Callable[[Path], object]:
        def read(path: Path) -> object:
            source = registry.create("tasks", {"name": name, "path": str(path)})
            return source.load(), list(source.corpus() or ())

        return read

    def model(path: Path) -> object:
        source = find_model(str(path.parent))
        return ChatTokenizer.from_folder(source.folder), Policy.load(source.folder)

    written = {
        "gsm8k.jsonl": _lines(GSM8K),
        "gsm8k.json": json.dumps(GSM8K),
        "hotpotqa.json": json.dumps(HOTPOTQA),
        "2wikimultihopqa.json": json.dumps([record | {"evidences": [["A", "is", "B"]]} for record in HOTPOTQA]),
        "musique.jsonl": _lines(MUSIQUE),
        "bamboogle.csv": 'Question,Answer\n"Who, then?",Ann\nWhere?,Oslo\n',
        "conversations.jsonl": _lines(SHOWN),
        "qa.jsonl": _lines(OWN),
    }
    for name, text in (written | {"recipe.yaml": RECIPE}).items():
        (folder / name).write_text(text)
    # Beside its run the model is checked by its checksums, before anything reads what may deceive.
    shutil.copytree(run.model, folder / "model", ignore=shutil.ignore_patterns(MODEL_CHECKSUMS, "*.md"))
    step, opened = run.trajectory_steps()[-1], Run.open(run.path)
    resolved, checkpoint = resolve(run.path, [], resume=True), opened.checkpoints.all()[-1]
    learner = Learner(Policy.load(run.model), registry.create("algorithm", "grpo"), TrainingConfig())
    resolved.registry.load("tool", "wiki_search")

    episodes = opened.trajectory_file(step)

    def record(_: Path) -> object:
        check_resumable(opened, resolved, force=True)
        return hardware_choices(opened)

    def state(_: Path) -> object:
        tasks, policy = opened.evaluation_tasks(), opened.policy()
        return opened.checkpoints.all(), tasks and policy.chosen_by and tasks.behind(policy.chosen_by)

    found = [
        *(Kind(folder / name, tasks(Path(name).stem)) for name in written),
        Kind(folder / "recipe.yaml", load_config),
        Kind(run.path / "run.json", lambda _: Run.open(run.path)),
        Kind(run.path / "config.yaml", lambda _: opened.config()),
        Kind(run.path / "config.yaml", load_config),
        Kind(run.path / "config.yaml", record),
        Kind(run.path / "plugins.json", lambda _: resolved.registry.check_same(recorded_plugins(run.path))),
        Kind(run.path / "metrics.jsonl", lambda _: Watch(HealthConfig()).replay(opened.metrics())),
        Kind(run.path / "health.jsonl", lambda _: opened.health()),
        Kind(run.path / "events.jsonl", lambda _: opened.state()),
        Kind(run.path / "evaluation_tasks.json", lambda _: opened.evaluation_tasks()),
        Kind(next(run.path.glob("evaluations/*.json")), lambda _: opened.evaluations()),
        Kind(next(run.path.glob("evaluations/*.json")), lambda path: ResultFile.open(path).rescored()),
        Kind(next(run.path.glob("evaluations/*.jsonl")), lambda path: ResultFile.open(path).rescored()),
        Kind(episodes, lambda _: opened.read_trajectories(step, dropped=True)),
        Kind(episodes, lambda _: opened.read_token_numbers(step)),
        Kind(next(run.path.glob("evaluations/*.parquet")), lambda path: opened.read_evaluation_trajectories(path.stem)),
        *(Kind(path, lambda _: _view(run.path, step)) for path in _shown(run.path, step)),
        Kind(checkpoint.path / STATE, lambda _: (opened.checkpoints.all(), opened.policy())),
        Kind(checkpoint.path / STATE, state, vouched=True),
        Kind(next(checkpoint.trainer.iterdir()), lambda _: load_trainer_state(learner, checkpoint)),
        Kind(checkpoint.task_order, lambda _: load_task_order(TaskOrder(7, 0, True), checkpoint)),
    ]
    models = [run.model / "config.json", run.model / MODEL_CHECKSUMS, *sorted((folder / "model").iterdir())]
    return found + [Kind(path, model) for path in models]


def _lines(records: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def _shown(run: Path, step: int) -> list[Path]:
    """Files that the viewer reads, one of every kind."""
    about = ("run.json", "config.yaml", "plugins.json", "metric_catalogue.json")
    logs = ("metrics.jsonl", "health.jsonl", "events.jsonl")
    episodes = run / "trajectories" / f"step_{step:06d}.parquet"
    evaluated = [next(run.glob(f"evaluations/*.{kind}")) for kind in ("json", "jsonl", "parquet")]
    return [*(run / name for name in (*about, *logs)), episodes, *evaluated, run / "model_files" / "tokenizer.json"]


def _view(run: Path, step: int) -> object:
    """Ask the viewer for everything about a run and a step: each answer is data or one sentence.

    Raises:
        AgentR1Error: one of the answers is a sentence, or has one for a part of it.
    """
    answers, sentences = Answers(FoundRuns([run])), list[str]()

    def ask(*parts: object, **query: str) -> Any:
        try:
            answer = answers.answer(["runs", *map(str, parts)], query)
        except AgentR1Error as error:
            sentences.append(str(error))
            return {}
        if isinstance(answer, Lines):
            return [json.loads(line) for line in "".join(answer.parts).splitlines()]
        return json.loads(to_json(answer))

    sentences += [row["problem"] for row in ask()["runs"] if row["problem"]]
    if name := next((row["id"] for row in ask()["runs"]), ""):
        sentences += ask(name).get("problems", ())
        ask(name, "metrics")
        matrix = ask(name, "evaluations")
        for one in matrix.get("evaluations", ()):
            ask(name, "evaluations", one["name"], "episodes", 0)
        sentences += matrix.get("problems", ())
        for group in ask(name, "steps", step).get("groups", ()):
            ask(name, "steps", step, "groups", group["group"])
        ask(name, "steps", step, "episodes", 0)
        sentences += [line["problem"] for line in ask(name, "search", text="a", tool_error="no") if "problem" in line]
    if sentences:
        raise AgentR1Error(max(sentences, key=len))
    return answers


def vouch(path: Path) -> None:
    """Make a checkpoint's checksum of the file at `path` anew, as somebody would who wants it to be believed."""
    checkpoint = next((folder for folder in path.parents if (folder / STATE).is_file()), None)
    if checkpoint is None:
        return
    name = path.relative_to(checkpoint).as_posix()
    with suppress(ValueError, LookupError, TypeError, AttributeError, RecursionError):
        record = json.loads((checkpoint / STATE).read_text())
        record.pop("state_crc32")
        if name in record["files"]:
            record["files"][name], record["crc32"][name] = path.stat().st_size, checksum_of(path)
        (checkpoint / STATE).write_text(json.dumps(record))
