from __future__ import annotations

import re
from pathlib import Path

import pytest


@pytest.fixture
def folder(root: Path) -> Path:
    return root / "agent_r1_core" / "bundled" / "tiny"


def test_the_card_states_figures_that_leave_something_to_learn(folder: Path) -> None:
    card = (folder / "README.md").read_text()

    def figure(name: str) -> float:
        return float(re.search(rf"^\| {re.escape(name)} \| ([\d.]+) \|$", card, re.MULTILINE)[1])

    assert 0.1 <= figure("greedy exact match, 2 hops") <= 0.40
    assert figure("pass@8 at temperature 1, 2 hops") > 2 * figure("greedy exact match, 2 hops")
    assert figure("failure: copying") + figure("failure: syntax") <= 0.05
    assert figure("greedy exact match, 2 hops, tool finds nothing") == 0.0
