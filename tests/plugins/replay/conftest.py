"""Opened runs, for tests of replays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from agent_r1_replay.opened import OpenedRun
from small_run import Notes

from agent_r1_core.plugins.trust import Trust
from agent_r1_core.testing import tiny_model_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the small runs of a file, with their model in `model`."""
    path = tmp_path_factory.mktemp("runs")
    tiny_model_folder(path / "model")
    return path


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
