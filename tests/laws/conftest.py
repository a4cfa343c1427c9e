"""Fixtures of the laws' tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bad_tools import RELEASE

from agent_r1_core.testing import tiny_model_folder


@pytest.fixture
def released() -> Iterator[None]:
    """Hung threads end with their test."""
    RELEASE.clear()
    yield
    RELEASE.set()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the small runs of a file, with their model in `model`."""
    path = tmp_path_factory.mktemp("runs")
    tiny_model_folder(path / "model")
    return path
