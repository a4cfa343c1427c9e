"""Fixtures of the laws' tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bad_tools import RELEASE


@pytest.fixture
def released() -> Iterator[None]:
    """Hung threads end with their test."""
    RELEASE.clear()
    yield
    RELEASE.set()
