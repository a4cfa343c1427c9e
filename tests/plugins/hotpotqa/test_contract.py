"""The task source `hotpotqa` keeps the contract of task sources."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from agent_r1_hotpotqa.source import HotpotQA

from agent_r1_core.testing import TaskSourceContract

RECORD = {
    "question": "Which city is the capital of the country of Lyon?",
    "answer": "Paris",
    "context": [["Lyon", ["Lyon is in France.", " It is large."]], ["France", ["Its capital is Paris."]]],
    "supporting_facts": [["Lyon", 0], ["France", 0]],
}


class TestHotpotQA(TaskSourceContract):
    component = HotpotQA

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        path = tmp_path / "hotpot.json"
        path.write_text(json.dumps([RECORD | {"_id": name} for name in ("5a", "5b")]), encoding="utf-8")
        self.config = {"path": str(path)}
