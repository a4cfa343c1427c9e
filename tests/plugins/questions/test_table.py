"""`table`: any file's columns become tasks, and a hostile file gets one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from agent_r1_questions.table import Table

from agent_r1_core import Task, TaskError
from agent_r1_core.testing import TaskSourceContract

ROWS = [
    {"question": "2 + 2?", "answer": 4, "level": "easy"},
    {"question": "Capital of France?", "answer": "Paris", "level": "hard"},
]
NAMES = {"prompt": "question", "answers": "answer", "metadata": ["level"]}


class TestContract(TaskSourceContract):
    component = Table

    @pytest.fixture(autouse=True)
    def _file(self, records: Callable[..., str]) -> None:
        self.config = {"path": records("rows.jsonl", *ROWS), **NAMES}


def tasks(path: str, **options: Any) -> list[Task]:
    return list(Table(Table.Config(path=path, **options)).load())


def test_every_format_gives_the_same_tasks(records: Callable[..., str], tmp_path: Path) -> None:
    csv = "question,answer,level\n2 + 2?,4,easy\nCapital of France?,Paris,hard\n"
    texts = [{**row, "answer": str(row["answer"])} for row in ROWS]
    pq.write_table(pa.Table.from_pylist(texts), tmp_path / "rows.parquet")
    files = [records("rows.json", *ROWS), records("rows.jsonl", *ROWS), records("rows.csv", csv)]
    first, *others = [tasks(file, **NAMES) for file in (*files, str(tmp_path / "rows.parquet"))]
    assert first == [
        Task("rows.0", "2 + 2?", ("4",), metadata={"level": "easy"}),
        Task("rows.1", "Capital of France?", ("Paris",), metadata={"level": "hard"}),
    ]
    assert others == [first] * 3


def test_columns_within_columns_messages_and_ids(records: Callable[..., str]) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 2?"}]
    row = {"chat": messages, "reward": {"truth": ["4", "four", "4"]}, "n": 7, "a.b": "dotted"}
    options = {"prompt": "chat", "answers": "reward.truth", "id": "n", "metadata": ["a.b", "reward"]}
    (task,) = tasks(records("rows.jsonl", row), **options)
    assert (task.id, task.prompt, task.answers) == ("7", messages, ("4", "four"))
    assert task.metadata == {"a.b": "dotted", "reward": row["reward"]}
    (bare,) = tasks(records("rows.jsonl", row), prompt="a.b")
    assert bare.answers == ()


BAD_PROMPTS = [
    (None, "a null; give a text"),
    ("  ", "no text"),
    (3, "a number"),
    ("a\0b", "a NUL character"),
    ("x" * 1_000_001, "1,000,001 characters"),
    ([{"role": "assistant", "content": "Hi"}], "a message of the role 'assistant'"),
    ([{"role": "system", "content": "Hi"}], "no user message at its end"),
    ([], "no user message at its end"),
    (["Hi"], "a message of the role None"),
]
BAD_ANSWERS = [
    (None, "a null; give a text or a number, or a list of them"),
    ("", "no text"),
    ([], "an empty list"),
    ([["nested"]], "a nested list"),
    ({"text": "4"}, "a nested object"),
    (True, "a true or false"),
    (float("nan"), "nan"),
    ([1, float("inf")], "inf"),
]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"question": "q"}, " has no column 'answer' (it has question)"),
        ([1], " has no column 'question' (it has none)"),
        ({"question;answer": "q;a"}, " has no column 'question' (it has question;answer); separate its columns by"),
        *(({"question": value, "answer": 1}, f", column 'question', has {why}") for value, why in BAD_PROMPTS),
        *(({"question": "q", "answer": value}, f", column 'answer', has {why}") for value, why in BAD_ANSWERS),
        ({"question": "q", "answer": 1, "level": float("nan")}, ", column 'level', has nan, which JSON cannot hold"),
    ],
)
def test_a_row_that_is_no_task_is_named_with_its_file_row_and_column(records, row, why):
    file = records("rows.jsonl", ROWS[0], row)
    with pytest.raises(TaskError) as error:
        tasks(file, **NAMES)
    assert str(error.value).startswith(f"line 2 of {file}{why}")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 600


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("rows.csv", b"question,answer\na\0b,1\n", "column 'question', has a NUL character"),
        ("rows.csv", b"question,question\na,1\n", "names a column twice"),
        ("rows.csv", b'question,answer\n"' + b"x" * 200_000 + b'",1\n', "is not CSV (field larger than field limit"),
    ],
)
def test_a_damaged_file_gets_one_sentence(tmp_path: Path, name: str, content: bytes, why: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TaskError) as error:
        tasks(str(tmp_path / name), **NAMES)
    assert why in str(error.value)
    assert str(tmp_path / name) in str(error.value)
    assert "\n" not in str(error.value)


def test_whole_numbers_are_written_as_such_whatever_type_the_file_gives_them(records: Callable[..., str]) -> None:
    numbers = [391.0, -0.0, 1e22, 0.5, 7]
    (task,) = tasks(records("rows.jsonl", {"question": "q", "answer": numbers, "level": 1}), **NAMES)
    assert task.answers == ("391", "0", "10000000000000000000000", "0.5", "7")


def test_an_id_that_comes_twice_is_refused_and_texts_are_as_utf_8_holds_them(records: Callable[..., str]) -> None:
    with pytest.raises(TaskError, match="has the id 'easy' of an earlier one"):
        tasks(records("rows.jsonl", ROWS[0], ROWS[0]), **NAMES, id="level")
    (task,) = tasks(records("rows.jsonl", {"question": "caf\ud800", "answer": "x", "level": {"\ud800": 1}}), **NAMES)
    assert task.prompt == "caf?"
    assert task.metadata == {"level": {"?": 1}}
