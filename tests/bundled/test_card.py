from __future__ import annotations

import re
from pathlib import Path


def test_the_card_states_figures_that_leave_something_to_learn(folder: Path) -> None:
    card = (folder / "README.md").read_text()

    def figure(name: str) -> float:
        return float(re.search(rf"^\| {re.escape(name)} \| ([\d.]+) \|$", card, re.MULTILINE)[1])

    assert 0.15 <= figure("greedy exact match, 2 hops") <= 0.40
    assert figure("pass@8 at temperature 1, 2 hops") >= 0.8
    assert figure("failure: copying") <= 0.05
    assert figure("greedy exact match, 2 hops, tool finds nothing") == 0.0
