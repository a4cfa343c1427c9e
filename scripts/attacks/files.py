"""Corrupts files of every kind that is read, and demands a value, a fallback, or one sentence."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from agent_r1_core import train
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.config import load_config
from agent_r1_core.errors import AgentR1Error
from agent_r1_core.learning.policy import Policy
from agent_r1_core.plugins import Registry
from agent_r1_core.runs.run import Run
from agent_r1_core.training.listener import Silence
from agent_r1_core.training.model_source import find_model
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
        _try(outcome, f"{path.relative_to(plan.folder)} {name}, resumed", partial(_resume, copy))
    return outcome


def _kinds(folder: Path, run: Run) -> list[tuple[Path, Read]]:
    """One file of every kind, and what reads it."""
    registry = Registry.discover()

    def tasks(name: str) -> Read:
        return lambda path: list(registry.create("tasks", {"name": name, "path": str(path)}).load())

    def model(path: Path) -> object:
        source = find_model(str(path.parent))
        return ChatTokenizer.from_folder(source.folder), Policy.load(source.folder)

    written = {
        "recipe.yaml": RECIPE,
        "gsm8k.jsonl": "".join(json.dumps(record) + "\n" for record in GSM8K),
        "gsm8k.json": json.dumps(GSM8K),
        "hotpotqa.json": json.dumps(HOTPOTQA),
    }
    for name, text in written.items():
        (folder / name).write_text(text)
    shutil.copytree(run.model, folder / "model")
    step, opened = run.trajectory_steps()[-1], Run.open(run.path)
    readers: list[tuple[Path, Read]] = [
        (folder / "recipe.yaml", load_config),
        (folder / "gsm8k.jsonl", tasks("gsm8k")),
        (folder / "gsm8k.json", tasks("gsm8k")),
        (folder / "hotpotqa.json", tasks("hotpotqa")),
        (run.path / "run.json", lambda _: Run.open(run.path)),
        (run.path / "config.yaml", lambda _: opened.config()),
        (run.path / "config.yaml", load_config),
        (run.path / "plugins.json", lambda _: opened.plugins()),
        (run.path / "metrics.jsonl", lambda _: opened.metrics()),
        (run.path / "evaluation_tasks.json", lambda _: opened.evaluation_tasks()),
        (next(run.path.glob("evaluations/*.json")), lambda _: opened.evaluations()),
        (next(run.path.glob(f"trajectories/*{step}.parquet")), lambda _: opened.read_trajectories(step)),
        (next(run.path.glob(f"trajectories/*{step}.parquet")), lambda _: opened.read_advantages(step)),
        (next(run.path.glob("checkpoints/*/state.json")), lambda _: (opened.checkpoints.all(), opened.policy())),
    ]
    return readers + [(path, model) for path in sorted((folder / "model").iterdir())]


def _resume(run: Path) -> object:
    return train(run, ["training.steps=6"], resume=True, listener=Silence())


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
    flipped = bytearray(whole)
    for _ in range(rng.randrange(1, 5)):
        if flipped:
            flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
    ways: dict[str, bytes] = {
        "cut": whole[:at],
        "with flipped bits": bytes(flipped),
        "with noise": whole[:at] + noise + whole[at:],
        "without a piece": whole[:at] + whole[at + len(noise) :],
        "empty": b"",
        "of zeros": bytes(len(whole)),
        "of noise": noise,
        "doubled": whole + whole,
        "as a list": b"[]",
        "as null": b"null",
        "as a number": b"1" * 5000,
        "as deep brackets": b"[" * 5000,
        "as nested keys": b'{"a":' * 3000,
    }
    for kind in (int, float, str, list, type(None)):
        ways[f"with {kind.__name__} for a value"] = _other_value(whole, kind, rng)
    name = rng.choice(list(ways))
    return name, ways[name]


def _other_value(whole: bytes, kind: Any, rng: random.Random) -> bytes:
    """A JSON file with one value of another type; any other file as it is, cut."""
    try:
        lines = whole.decode().splitlines()
        text = lines[0] if len(lines) > 1 and lines[0].startswith("{") and lines[0].endswith("}") else whole.decode()
        document = json.loads(text)
    except ValueError:
        return whole[: len(whole) // 2]
    places = list(_places(document))
    if not places:
        return b"{}"
    holder, key = rng.choice(places)
    holder[key] = kind()
    return json.dumps(document).encode() + (b"\n" if text != whole.decode() else b"")


def _places(value: Any) -> Any:
    """Every place in a document that holds a value: its holder and its key."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from _places(inner)
