"""A plugin of pytest for mutmut: quick files first, and in a file quick tests first, so that most mutants die soon.

A mutant that starts processes without end dies of it before it fills the memory, and one that kills its process group
kills nobody else. Copied into the folder that mutmut works in, where mutmut notes how long each test took.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

STATISTICS = Path(__file__).with_name("mutmut-stats.json")
STARTS = 200
"""How many processes one test may start."""

_started = 0


def pytest_configure() -> None:
    """Leave the process group of mutmut, and count the processes that are started, wherever that happens."""
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)
    sys.addaudithook(_count)


def pytest_runtest_setup() -> None:
    """Count anew for each test."""
    global _started
    _started = 0


def _count(event: str, arguments: tuple[Any, ...]) -> None:
    global _started
    if event == "subprocess.Popen":
        _started += 1
        if _started > STARTS:
            raise RuntimeError(f"a test starts more than {STARTS} processes")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests that one mutant meets; tests of a file stay together, as they may share its fixtures."""
    if not STATISTICS.is_file():
        return
    seconds = json.loads(STATISTICS.read_text())["duration_by_test"]
    of_file: Counter[str] = Counter()
    for item in items:
        of_file[str(item.path)] += seconds.get(item.nodeid, 0.0)
    items.sort(key=lambda item: (of_file[str(item.path)], str(item.path), seconds.get(item.nodeid, 0.0)))
