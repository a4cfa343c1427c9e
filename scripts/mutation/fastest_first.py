"""A plugin of pytest for mutmut: quick files first, and in a file quick tests first, so that most mutants die soon.

Copied into the folder that mutmut works in, where mutmut notes how long each test took.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

STATISTICS = Path(__file__).with_name("mutmut-stats.json")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests that one mutant meets; tests of a file stay together, as they may share its fixtures."""
    if not STATISTICS.is_file():
        return
    seconds = json.loads(STATISTICS.read_text())["duration_by_test"]
    of_file: Counter[str] = Counter()
    for item in items:
        of_file[str(item.path)] += seconds.get(item.nodeid, 0.0)
    items.sort(key=lambda item: (of_file[str(item.path)], str(item.path), seconds.get(item.nodeid, 0.0)))
