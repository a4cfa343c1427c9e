"""Corrupts files of every kind that is read, and demands a value, a fallback, or one sentence."""

from __future__ import annotations

import io
import json
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch

from agent_r1_cli.viewer.answers import Answers, Lines
from agent_r1_cli.viewer.shown_text import to_json
from agent_r1_core import train
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.config import TrainingConfig, load_config
from agent_r1_core.config.yaml_text import dump, parse
from agent_r1_core.errors import AgentR1Error, ConfigError
from agent_r1_core.evaluation.result_file import ResultFile
from agent_r1_core.health.settings import HealthConfig
from agent_r1_core.health.watch import Watch
from agent_r1_core.learning.learner import Learner
from agent_r1_core.learning.policy import Policy
from agent_r1_core.plugins import Registry
from agent_r1_core.runs.checkpoint import STATE, checksum_of
from agent_r1_core.runs.reading.found_runs import FoundRuns
from agent_r1_core.runs.run import Run
from agent_r1_core.training.api import resolve
from agent_r1_core.training.checkpointing import load_task_order, load_trainer_state
from agent_r1_core.training.listener import Silence
from agent_r1_core.training.model_source import find_model
from agent_r1_core.training.resume import check_resumable, hardware_choices, recorded_plugins
from agent_r1_core.training.task_order import TaskOrder
from attacks.kills import SETTINGS
from attacks.outcome import Outcome, Plan

FILES = 1900
RESUMES = 100
"""Corrupted files of checkpoints and records with which a run is resumed."""
LONGEST = 1500
"""Characters that a sentence may have, paths and lists of what is allowed included."""
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

Read = Callable[[Path], object]


def corrupt_files(plan: Plan) -> Outcome:
    """Every kind of file in turn, corrupted in a way that the seed draws."""
    rng, outcome = random.Random(plan.seed), Outcome("files")
    run = train("default", [*SETTINGS, f"run.dir={plan.folder}", "run.name=run"], listener=Silence())
    kinds = _kinds(plan.folder, run)
    for number in range(plan.times(FILES)):
        path, read = kinds[number % len(kinds)]
        whole = path.read_bytes()
        name, corrupted = _corrupted(whole, rng)
        path.write_bytes(corrupted)
        _try(outcome, f"{path.relative_to(plan.folder)} {name}", partial(read, path))
        path.write_bytes(whole)
    records = [path for path in sorted(run.path.rglob("*")) if path.is_file() and path.name != ".lock"]
    copy = plan.folder / "copy"
    for _ in range(plan.times(RESUMES)):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(run.path, copy)
        path = copy / rng.choice(records).relative_to(run.path)
        name, corrupted = _corrupted(path.read_bytes(), rng)
        path.write_bytes(corrupted)
        if rng.random() < 0.5:
            _vouch(path)
            name += ", its checksums made anew"
        _try(outcome, f"{path.relative_to(plan.folder)} {name}, resumed", partial(_resume, copy))
    return outcome


def _kinds(folder: Path, run: Run) -> list[tuple[Path, Read]]:
    """One file of every kind, and what reads it."""
    registry = Registry.discover()

    def tasks(name: str) -> Read:
        def read(path: Path) -> object:
            source = registry.create("tasks", {"name": name, "path": str(path)})
            return source.load(), list(source.corpus() or ())

        return read

    def model(path: Path) -> object:
        source = find_model(str(path.parent))
        return ChatTokenizer.from_folder(source.folder), Policy.load(source.folder)

    written = {
        "recipe.yaml": RECIPE,
        "gsm8k.jsonl": "".join(json.dumps(record) + "\n" for record in GSM8K),
        "gsm8k.json": json.dumps(GSM8K),
        "hotpotqa.json": json.dumps(HOTPOTQA),
        "2wikimultihopqa.json": json.dumps([record | {"evidences": [["A", "is", "B"]]} for record in HOTPOTQA]),
        "musique.jsonl": "".join(json.dumps(record) + "\n" for record in MUSIQUE),
        "bamboogle.csv": 'Question,Answer\n"Who, then?",Ann\nWhere?,Oslo\n',
        "qa.jsonl": "".join(json.dumps(record) + "\n" for record in OWN),
    }
    for name, text in written.items():
        (folder / name).write_text(text)
    shutil.copytree(run.model, folder / "model")
    step, opened = run.trajectory_steps()[-1], Run.open(run.path)
    resolved, checkpoint = resolve(run.path, [], resume=True), opened.checkpoints.all()[-1]
    learner = Learner(Policy.load(run.model), registry.create("algorithm", "grpo"), TrainingConfig())
    resolved.registry.load("tool", "wiki_search")

    def record(_: Path) -> object:
        check_resumable(opened, resolved, force=True)
        return hardware_choices(opened)

    def state(path: Path) -> object:
        _vouch(path)
        tasks, policy = opened.evaluation_tasks(), opened.policy()
        return opened.checkpoints.all(), tasks and policy.chosen_by and tasks.behind(policy.chosen_by)

    readers: list[tuple[Path, Read]] = [
        (folder / "recipe.yaml", load_config),
        (folder / "gsm8k.jsonl", tasks("gsm8k")),
        (folder / "gsm8k.json", tasks("gsm8k")),
        (folder / "hotpotqa.json", tasks("hotpotqa")),
        (folder / "2wikimultihopqa.json", tasks("2wikimultihopqa")),
        (folder / "musique.jsonl", tasks("musique")),
        (folder / "bamboogle.csv", tasks("bamboogle")),
        (folder / "qa.jsonl", tasks("qa")),
        (run.path / "run.json", lambda _: Run.open(run.path)),
        (run.path / "config.yaml", lambda _: opened.config()),
        (run.path / "config.yaml", load_config),
        (run.path / "config.yaml", record),
        (run.path / "plugins.json", lambda _: resolved.registry.check_same(recorded_plugins(run.path))),
        (run.path / "metrics.jsonl", lambda _: Watch(HealthConfig()).replay(opened.metrics())),
        (run.path / "health.jsonl", lambda _: opened.health()),
        (run.path / "events.jsonl", lambda _: opened.state()),
        (run.path / "evaluation_tasks.json", lambda _: opened.evaluation_tasks()),
        (next(run.path.glob("evaluations/*.json")), lambda _: opened.evaluations()),
        (next(run.path.glob("evaluations/*.json")), lambda path: ResultFile.open(path).rescored()),
        (next(run.path.glob("evaluations/*.jsonl")), lambda path: ResultFile.open(path).rescored()),
        (next(run.path.glob(f"trajectories/*{step}.parquet")), lambda _: opened.read_trajectories(step, dropped=True)),
        (next(run.path.glob(f"trajectories/*{step}.parquet")), lambda _: opened.read_token_numbers(step)),
        (next(run.path.glob("evaluations/*.parquet")), lambda path: opened.read_evaluation_trajectories(path.stem)),
        *((path, lambda _: _view(run.path, step)) for path in _shown(run.path, step)),
        (checkpoint.path / STATE, lambda _: (opened.checkpoints.all(), opened.policy())),
        (checkpoint.path / STATE, state),
        (next(checkpoint.trainer.iterdir()), lambda _: load_trainer_state(learner, checkpoint)),
        (checkpoint.task_order, lambda _: load_task_order(TaskOrder(7, 0, True), checkpoint, 2)),
    ]
    return readers + [(path, model) for path in sorted((folder / "model").iterdir())]


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


def _resume(run: Path) -> object:
    return train(run, ["training.steps=6"], resume=True, listener=Silence())


def _vouch(path: Path) -> None:
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


def _try(outcome: Outcome, what: str, read: Callable[[], object]) -> None:
    """Read, and judge what came of it."""
    outcome.tried += 1
    try:
        read()
        outcome.counts["read"] += 1
    except AgentR1Error as error:
        outcome.counts["refused"] += 1
        text = str(error)
        if len(text) > LONGEST or not text.replace("\n", "").isprintable():
            outcome.faults.append(f"{what}: no readable sentence: {text[:200]!r}")
    except BaseException as error:
        outcome.faults.append(f"{what}: {type(error).__name__}: {str(error)[:200]!r}")


def _corrupted(whole: bytes, rng: random.Random) -> tuple[str, bytes]:
    """What was done, and the result."""
    at = rng.randrange(len(whole) + 1)
    noise = rng.randbytes(rng.randrange(1, 64))
    ways: dict[str, Callable[[], bytes]] = {
        "cut": lambda: whole[:at],
        "with flipped bits": lambda: _flipped(whole, rng),
        "with noise": lambda: whole[:at] + noise + whole[at:],
        "without a piece": lambda: whole[:at] + whole[at + len(noise) :],
        "empty": lambda: b"",
        "of zeros": lambda: bytes(len(whole)),
        "of noise": lambda: noise,
        "doubled": lambda: whole + whole,
        "as a list": lambda: b"[]",
        "as null": lambda: b"null",
        "as a number": lambda: b"1" * 5000,
        "as deep brackets": lambda: b"[" * 5000,
        "as nested keys": lambda: b'{"a":' * 3000,
        "as a state of nothing": _state_of_nothing,
        "without a value": lambda: _changed(whole, lambda holder, key: holder.pop(key), rng),
    }
    for kind in (int, float, str, list, type(None)):
        change = partial(_put, kind=kind)
        ways[f"with {kind.__name__} for a value"] = partial(_changed, whole, change, rng)
    name = rng.choice(list(ways))
    return name, ways[name]()


def _flipped(whole: bytes, rng: random.Random) -> bytes:
    """The file with up to four bits flipped."""
    flipped = bytearray(whole)
    for _ in range(rng.randrange(1, 5)):
        if flipped:
            flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
    return bytes(flipped)


def _state_of_nothing() -> bytes:
    """A file by torch that holds nothing."""
    file = io.BytesIO()
    torch.save({}, file)
    return file.getvalue()


def _put(holder: Any, key: Any, kind: Callable[[], Any]) -> None:
    holder[key] = kind()


def _changed(whole: bytes, change: Callable[[Any, Any], object], rng: random.Random) -> bytes:
    """A JSON, JSON Lines or YAML file with a change at one value; any other file, cut."""
    try:
        lines = whole.decode().splitlines(keepends=True)
        one_each = len(lines) > 1 and all(line.startswith("{") for line in lines)
        number = rng.randrange(len(lines)) if one_each else 0
        before, text, after = (
            (lines[:number], lines[number], lines[number + 1 :]) if one_each else ([], whole.decode(), [])
        )
        document, write = _document(text)
    except (ValueError, ConfigError):
        return whole[: len(whole) // 2]
    places = list(_places(document))
    if not places:
        return b"{}"
    change(*rng.choice(places))
    return "".join([*before, write(document).rstrip("\n") + "\n", *after]).encode()


def _document(text: str) -> tuple[Any, Callable[[Any], str]]:
    """The value of a JSON or YAML text, and what writes it again."""
    try:
        return json.loads(text), json.dumps
    except ValueError:
        return parse(text, "the file").value, dump


def _places(value: Any) -> Any:
    """Every place in a document that holds a value: its holder and its key."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from _places(inner)
