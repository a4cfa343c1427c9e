"""The task source `gsm8k` keeps the contract of task sources."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from agent_r1_gsm8k.source import GSM8K

from agent_r1_core.testing import TaskSourceContract


class TestGSM8K(TaskSourceContract):
    component = GSM8K

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        path = tmp_path / "train.jsonl"
        records = ({"question": f"How many are {n} and 1?", "answer": f"One more.\n#### {n + 1}"} for n in range(3))
        path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
        self.config = {"path": str(path)}
