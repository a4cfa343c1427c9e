"""Opened runs, for tests of replays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from agent_r1_replay.opened import OpenedRun
from small_run import Notes, run_once

from agent_r1_core.plugins.trust import Trust
from agent_r1_core.runs.run import Run
from agent_r1_core.testing import tiny_model_folder


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for small runs, with their model in `model`."""
    path = tmp_path_factory.mktemp("runs")
    tiny_model_folder(path / "model")
    return path


@pytest.fixture(scope="session")
def kept() -> dict[str, Any]:
    """Keys of a run that keeps every checkpoint, and evaluates nothing."""
    never = {"evaluation__every": 9, "evaluation__at_start": "false", "evaluation__at_end": "false"}
    return {"checkpoint": "{every: 1, keep: 9, best: null}", **never}


@pytest.fixture(scope="session")
def run(folder: Path, kept: dict[str, Any]) -> Run:
    """Two steps of GRPO."""
    return run_once(folder, "grpo", 2, **kept)


@pytest.fixture
def notes() -> Notes:
    """What a replay says."""
    return Notes()


@pytest.fixture
def opened(notes: Notes) -> Iterator[Callable[..., OpenedRun]]:
    """`opened(path, step, *overrides)`."""
    with ExitStack() as stack:

        def open_run(path: Path, step: int, *overrides: str, **options: Any) -> OpenedRun:
            return OpenedRun.open(path, step, overrides, stack, notes.note, trust=Trust(named=True), **options)

        yield open_run
