"""Bamboogle in its original format; the questions are invented."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_r1_questions.bamboogle import Bamboogle

from agent_r1_core import TaskError

LINES = 'Question,Answer\n"When was Karimo, the film, shown?",3 May 1997\nWho wrote it?,"Vesano"\nWhere?,Tavelo\n'


def source(folder: Path, text: str, **options: int) -> Bamboogle:
    path = folder / "Bamboogle Prerelease - Sheet1.csv"
    path.write_text(text, encoding="utf-8")
    return Bamboogle(Bamboogle.Config(path=str(path), **options))


def test_a_line_gives_a_task_of_two_hops_without_a_corpus(tmp_path: Path) -> None:
    bamboogle = source(tmp_path, LINES)
    tasks = bamboogle.load()
    assert tasks[0].prompt == "When was Karimo, the film, shown?"
    assert [(task.id, *task.answers) for task in tasks] == [
        ("bamboogle.0", "3 May 1997"),
        ("bamboogle.1", "Vesano"),
        ("bamboogle.2", "Tavelo"),
    ]
    assert all(task.metadata == {"hops": 2} for task in tasks)
    assert bamboogle.corpus() is None
    assert source(tmp_path, LINES, offset=1, size=1).load() == tasks[1:2], "an id is a place in the file"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Question,Answer\nWho?,\n", "line 2 of .* has no 'Answer'"),
        ("Question;Answer\nWho?;Vesano\n", r"line 2 of .* has no text under 'Question' \(it has keys \['Question;"),
        ("Question,Answer\nWho?,Vesano,of Tavelo\n", "line 2 of .* has 3 values, but the first line names 2"),
        ('Question,Answer\nWho?,"Vesano\n', r"line 2 of .* is not CSV \(unexpected end of data\); repair it"),
        ("Question,Answer\n", "holds no record"),
    ],
)
def test_a_broken_file_gives_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(TaskError, match=sentence):
        source(tmp_path, text).load()
