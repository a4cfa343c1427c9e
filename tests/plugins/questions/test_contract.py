"""The task sources of questions keep the contract of task sources."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from agent_r1_questions.bamboogle import Bamboogle
from agent_r1_questions.hotpotqa import HotpotQA
from agent_r1_questions.musique import MuSiQue
from agent_r1_questions.qa import QA
from agent_r1_questions.two_wiki import TwoWikiMultihopQA

from agent_r1_core.testing import TaskSourceContract

HOTPOT = {
    "question": "Which city is the capital of the country of Lyon?",
    "answer": "Paris",
    "type": "bridge",
    "context": [["Lyon", ["Lyon is in France.", " It is large."]], ["France", ["Its capital is Paris."]]],
    "supporting_facts": [["Lyon", 0], ["France", 0]],
}
MUSIQUE = {
    "question": "Which city is the capital of the country of Lyon?",
    "answer": "Paris",
    "paragraphs": [{"idx": 0, "title": "Lyon", "paragraph_text": "Lyon is in France.", "is_supporting": True}],
}


class TestHotpotQA(TaskSourceContract):
    component = HotpotQA

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        path = tmp_path / "hotpot.json"
        path.write_text(json.dumps([HOTPOT | {"_id": name} for name in ("5a", "5b")]), encoding="utf-8")
        self.config = {"path": str(path)}


class TestTwoWikiMultihopQA(TaskSourceContract):
    component = TwoWikiMultihopQA

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        path, aliases = tmp_path / "dev.json", tmp_path / "id_aliases.json"
        path.write_text(json.dumps([HOTPOT | {"_id": "5a", "answer_id": "Q90", "evidences": []}]), encoding="utf-8")
        lines = [{"Q_id": name, "aliases": ["City of Light"], "demonyms": []} for name in ("Q90", "Q91")]
        aliases.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        self.config = {"path": str(path), "aliases": str(aliases)}


class TestMuSiQue(TaskSourceContract):
    component = MuSiQue

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        path = tmp_path / "musique.jsonl"
        lines = [json.dumps(MUSIQUE | {"id": name, "answerable": name == "2hop__1_2"}) for name in ("2hop__1_2", "b")]
        path.write_text("\n".join(lines), encoding="utf-8")
        self.config = {"path": str(path), "unanswerable": "skip"}


class TestBamboogle(TaskSourceContract):
    component = Bamboogle

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        path = tmp_path / "Bamboogle.csv"
        path.write_text('Question,Answer\n"Who, then?",Karimo\nWhere?,Tavelo\n', encoding="utf-8")
        self.config = {"path": str(path)}


class TestQA(TaskSourceContract):
    component = QA

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        path = tmp_path / "own.jsonl"
        path.write_text('{"question": "Who?", "answer": "Karimo"}\n{"question": "Where?", "answers": ["Tavelo"]}')
        self.config = {"path": str(path), "size": 2, "sample": "random", "seed": 3}
