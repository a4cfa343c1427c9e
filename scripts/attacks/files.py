"""Corrupts files of every kind that is read, and demands a value, a fallback, or one sentence."""

from __future__ import annotations

import ctypes
import io
import json
import operator
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from agent_r1_viewer.answers import Answers, Lines
from attacks.kills import SETTINGS
from attacks.outcome import Outcome, Plan

from agent_r1_core import train
from agent_r1_core.assembly.checkpointing import load_task_order, load_trainer_state
from agent_r1_core.assembly.model_source import find_model
from agent_r1_core.assembly.task_order import TaskOrder
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.config import load_config
from agent_r1_core.config.yaml_text import dump, parse
from agent_r1_core.contracts.json_text import to_json
from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.errors import AgentR1Error, ConfigError
from agent_r1_core.evaluation.listener import Silence
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

_IN_OPEN = 0x20
_LIBC = ctypes.CDLL(None, use_errno=True)
FILES = 1900
RESUMES = 100
"""Corrupted files of checkpoints and records with which a run is resumed."""
LONGEST = 1500
"""Characters that a sentence may have, paths and lists of what is allowed included."""
RECIPE = "extends: default\ntraining: {steps: 3, lr: 1e-4}\ntools:\n  - {name: wiki_search, top_k: 2}\n"
GSM8K = [{"question": f"What is {n} + 1?", "answer": f"It is {n + 1}.\n#### {n + 1}"} for n in range(4)]
ASKED = {"question": "Who?", "answer": "Ann"}
CONTEXT = {"title": ["A", "B"], "sentences": [["Ann is here."], ["So is Bo."]]}
FOUND = {"supporting_facts": {"title": ["A", "B"], "sent_id": [0, 0]}, "context": CONTEXT}
HOTPOTQA = [{"id": str(n), **ASKED, "type": "bridge", "level": "easy", **FOUND} for n in range(3)]
PARAGRAPHS = [{"idx": 0, "title": "A", "paragraph_text": "Ann is here.", "is_supporting": True}]
ALIASES = {"answer_aliases": ["Anne"], "answerable": True, "paragraphs": PARAGRAPHS}
MUSIQUE = [{"id": f"2hop__{n}_{n + 1}", **ASKED, **ALIASES} for n in range(3)]
OWN = [{"question": "Who?", "answers": ["Ann"], "hops": 2, "passages": [{"title": "A", "text": "Ann is here."}]}] * 3
SHOWN = [{"messages": [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Ann"}]}] * 3


@contextmanager
def _openings(path: Path) -> Iterator[Callable[[], bool]]:
    """Whether a file was opened since this was asked last, for as long as the context lasts."""

    def happened() -> bool:
        try:
            return bool(os.read(handle, 4096))
        except BlockingIOError:
            return False

    handle = _LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if handle < 0 or _LIBC.inotify_add_watch(handle, os.fsencode(path), _IN_OPEN) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))
        yield happened
    finally:
        os.close(handle)


def corrupt_files(plan: Plan) -> Outcome:
    """Every kind of file in turn, corrupted in a way that the seed draws."""
    rng, outcome = random.Random(plan.seed), Outcome("files")
    run = train("default", [*SETTINGS, f"run.dir={plan.folder}", "run.name=run"], listener=Silence())
    all_kinds = kinds(plan.folder, run)
    for number in range(plan.times(FILES)):
        kind = all_kinds[number % len(all_kinds)]
        whole, name = kind.path.read_bytes(), str(kind.path.relative_to(plan.folder))
        way = _corrupt(kind.path, rng)
        if kind.vouched:
            vouch(kind.path)
        outcome.attack(f"what reads {name}", _try(outcome, f"{name} {way}", kind.path, partial(kind.read, kind.path)))
        kind.path.write_bytes(whole)
    records = [path for path in sorted(run.path.rglob("*")) if path.is_file() and path.name != ".lock"]
    copy = plan.folder / "copy"
    for _ in range(plan.times(RESUMES)):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(run.path, copy)
        path = copy / rng.choice(records).relative_to(run.path)
        way = _corrupt(path, rng)
        if rng.random() < 0.5:
            vouch(path)
            way += ", its checksums made anew"
        what = f"{path.relative_to(plan.folder)} {way}, resumed"
        resume = partial(train, copy, ["training.steps=6"], resume=True, listener=Silence())
        outcome.attack("a resume", _try(outcome, what, path, resume))
    return outcome


def _try(outcome: Outcome, what: str, path: Path, read: Callable[[], object]) -> bool:
    """Read, and judge what came of it; returns whether the file at `path` was opened."""
    with _openings(path) as opened:
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
        return opened()


def _corrupt(path: Path, rng: random.Random) -> str:
    """Change the bytes of a file in one of many ways; returns what was done."""
    whole = path.read_bytes()
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
        change = lambda holder, key, kind=kind: operator.setitem(holder, key, kind())
        ways[f"with {kind.__name__} for a value"] = partial(_changed, whole, change, rng)
    name = rng.choice(list(ways))
    path.write_bytes(ways[name]())
    return name


def _flipped(whole: bytes, rng: random.Random) -> bytes:
    flipped = bytearray(whole)
    for _ in range(rng.randrange(1, 5)):
        if flipped:
            flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
    return bytes(flipped)


def _state_of_nothing() -> bytes:
    torch.save({}, file := io.BytesIO())
    return file.getvalue()


def _changed(whole: bytes, change: Callable[[Any, Any], object], rng: random.Random) -> bytes:
    """A JSON, JSON Lines or YAML file with a change at one value; any other file, cut."""
    try:
        parts = whole.decode().splitlines(keepends=True)
        if len(parts) < 2 or not all(line.startswith("{") for line in parts):
            parts = ["".join(parts)]
        number = rng.randrange(len(parts))
        document, write = _document(parts[number])
    except (ValueError, ConfigError):
        return whole[: len(whole) // 2]
    places = list(_places(document))
    if not places:
        return b"{}"
    change(*rng.choice(places))
    parts[number] = write(document).rstrip("\n") + "\n"
    return "".join(parts).encode()


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


@dataclass(frozen=True)
class Kind:
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
