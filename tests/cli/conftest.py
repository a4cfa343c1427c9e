"""Commands in an empty current folder, and a small run of the default recipe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def succeed(agent_r1: Callable[..., Any]) -> Callable[..., Any]:
    """As `agent_r1`, for a command that succeeds."""

    def run(*arguments: object, **options: object) -> Any:
        done = agent_r1(*arguments, **options)
        assert done.exit_code == 0, done.stderr
        return done

    return run


@pytest.fixture
def refuse(agent_r1: Callable[..., Any]) -> Callable[..., Any]:
    """`refuse(2, "a sentence", *arguments)`: a command that ends with this code and sentence, and gives no answer."""

    def run(code: int, sentence: str, *arguments: object, **options: object) -> Any:
        done = agent_r1(*arguments, **options)
        assert (done.exit_code, done.stdout) == (code, ""), done.stderr
        assert sentence in done.stderr
        return done

    return run


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def small(noise: Path, root: Path) -> list[str]:
    """Arguments of a two-step run of the default recipe with a reward that varies."""
    return [
        *("-p", str(root / "tests/fixtures/end_to_end/vowels.py")),
        *(f"model.name={noise}", "model.dtype=float32", "threads=1", "engine.max_new_tokens=8", "env.max_turns=2"),
        *("tasks.train.size=20", "tasks.eval.size=4", "rewards=[vowels, exact_match]", "run.name=small"),
        *("training.steps=2", "training.tasks_per_step=2", "training.samples_per_task=2"),
    ]


@pytest.fixture
def changed(small: list[str]) -> Callable[..., list[str]]:
    """`changed("training.steps=3", drop=("tasks.eval.size",))`: `small` with keys set anew, and others left out."""

    def change(*overrides: str, drop: tuple[str, ...] = ()) -> list[str]:
        keys = {text.partition("=")[0] for text in overrides if "=" in text} | set(drop)
        return [*(text for text in small if text.partition("=")[0] not in keys), *overrides]

    return change
