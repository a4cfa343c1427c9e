from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agent_r1_gsm8k.source import GSM8K

from agent_r1_core import TaskError
from agent_r1_core.testing import TaskSourceContract


class TestGSM8K(TaskSourceContract):
    component = GSM8K
    file = ("train.jsonl", *({"question": f"{n} and 1?", "answer": f"One more.\n#### {n + 1}"} for n in range(3)))


RECORD = {"question": "How many?", "answer": "2 * 600 = <<2*600=1200>>1,200\n#### 1,200"}


def test_the_answer_is_the_number_after_the_mark(source: Any) -> None:
    (task,) = source(GSM8K, "train.jsonl", RECORD).load()
    assert (task.id, task.prompt, task.answers) == ("train.0", "How many?", ("1200",))
    assert task.metadata["solution"] == RECORD["answer"]
    tasks = source(GSM8K, "train.jsonl", RECORD, RECORD, RECORD, offset=1, size=2).load()
    assert [task.id for task in tasks] == ["train.1", "train.2"], "an id is a place in the file"


@pytest.mark.parametrize("answer", ["1200", "#### ", ""])
def test_a_record_without_a_final_number_is_named(source: Any, answer: str) -> None:
    with pytest.raises(TaskError, match="line 2 of"):
        source(GSM8K, "train.jsonl", RECORD, RECORD | {"answer": answer}).load()


@pytest.mark.real_data
@pytest.mark.parametrize(("name", "count"), [("gsm8k_train_1000.jsonl", 1000), ("gsm8k_test_200.jsonl", 200)])
def test_the_original_files_are_read(real_data: Path, name: str, count: int) -> None:
    tasks = GSM8K(GSM8K.Config(path=str(real_data / name))).load()
    assert len({task.id for task in tasks}) == count
    assert all(answer.lstrip("-").replace(".", "", 1).isdigit() for task in tasks for answer in task.answers)
