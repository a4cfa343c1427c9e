"""Questions made from passages of Wikipedia: what they ask is what the passages say, and `qa` reads them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from agent_r1_questions.qa import QA

PASSAGES = [
    {
        "title": "The Reed",
        "text": "The Reed( French: Le roseau) is a 1948 French crime film directed by Ana C. Karimo.",
    },
    {"title": "Two Hands", "text": "Two Hands is a 1950 film directed by Ana C. Karimo and Bo Tavelo."},
    {
        "title": "Ana C. Karimo",
        "text": "Ana C. Karimo( 3 May 1909, in Lille – 6 June 1989) was a French film director.",
    },
    {"title": "Bo Tavelo", "text": "Bo Tavelo (born July 4, 1950 in Loho, Peru) is a Peruvian poet."},
    {"title": "Ann Lee (poet)", "text": "Ann Lee (born 4 July 1950) is a poet."},
    {"title": "The Well (1950 film)", "text": "The Well is a 1950 film directed by Bo Tavelo."},
    {"title": "The Well (1991 film)", "text": "The Well is a 1991 film directed by Bo Tavelo."},
]
ANSWERS = {
    "Who directed the 1948 film The Reed?": ("Ana C. Karimo",),
    "From which year is the film The Reed directed by Ana C. Karimo?": ("1948",),
    "When was the director of the 1948 film The Reed born?": ("3 May 1909", "May 3, 1909"),
    "Where was the director of the 1948 film The Reed born?": ("Lille",),
    "When did the director of the 1948 film The Reed die?": ("6 June 1989", "June 6, 1989"),
    "When was Ana C. Karimo born?": ("3 May 1909", "May 3, 1909"),
    "Where was Ana C. Karimo born?": ("Lille",),
    "When did Ana C. Karimo die?": ("6 June 1989", "June 6, 1989"),
    "When was Bo Tavelo born?": ("July 4, 1950", "4 July 1950"),
    "Where was Bo Tavelo born?": ("Loho, Peru", "Loho"),
}


@pytest.fixture
def patterns(root: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    import wiki_patterns

    return wiki_patterns


def test_it_asks_what_passages_say_and_nothing_where_they_are_unclear(root: Path, tmp_path: Path) -> None:
    """Two directors and titles that come twice are left alone."""
    corpus, out = tmp_path / "corpus.json", tmp_path / "questions.jsonl"
    corpus.write_text(json.dumps(PASSAGES), encoding="utf-8")
    command = [sys.executable, root / "benchmarks" / "wiki_patterns.py", "--corpus", corpus, "--out", out]
    subprocess.run(command, check=True, capture_output=True)
    source = QA(QA.Config(path=str(out)))
    tasks = {task.prompt: task for task in source.load()}
    assert {prompt: task.answers for prompt, task in tasks.items()} == ANSWERS
    second = tasks["When was the director of the 1948 film The Reed born?"]
    assert (second.metadata["hops"], second.metadata["path"]) == (2, ["The Reed", "Ana C. Karimo"])
    assert {passage.title for passage in source.corpus() or ()} == {"The Reed", "Ana C. Karimo", "Bo Tavelo"}


def test_a_missing_corpus_is_one_sentence(root: Path, tmp_path: Path) -> None:
    command = [sys.executable, root / "benchmarks" / "wiki_patterns.py", "--corpus", tmp_path / "gone.json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert f"there is no corpus {tmp_path / 'gone.json'}; give --corpus FILE" in done.stderr


@pytest.mark.real_data
def test_every_answer_stands_in_the_last_of_its_real_passages(patterns: ModuleType, real_data: Path) -> None:
    passages = json.loads((real_data / "2wikimultihopqa_corpus.json").read_text(encoding="utf-8"))
    records: list[dict[str, Any]] = patterns.drawn(passages, 200, 0)
    assert records == patterns.drawn(passages, 200, 0)
    assert len({record["id"] for record in records}) == len(records) == 200
    for record in records:
        assert record["answers"][0] in patterns.tidy(record["passages"][-1]["text"]), record
