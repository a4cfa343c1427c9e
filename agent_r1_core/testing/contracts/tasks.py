"""Contract tests of a TaskSource."""

from __future__ import annotations

import itertools
import json
from collections import Counter

from agent_r1_core.contracts.tasks import Passage
from agent_r1_core.testing.contracts.base import ComponentContract
from agent_r1_core.trajectory import Task


class TaskSourceContract(ComponentContract):
    """Set `component`, and `config` to options with which it loads, for example a small file of your tests."""

    kind = "tasks"

    def test_its_tasks_are_well_formed(self) -> None:
        tasks = self.make().load()
        assert len(tasks) > 0, "it loads no task; raise TaskError instead"
        for task in tasks:
            assert isinstance(task, Task), f"it loads a {type(task).__name__}, not a Task"
            assert isinstance(task.id, str), f"a task has the id {task.id!r}"
            assert task.id, "a task has an empty id"
            assert task.prompt, f"task {task.id!r} asks nothing"
            assert isinstance(task.answers, tuple), f"the answers of task {task.id!r} are not a tuple"
            assert all(isinstance(answer, str) for answer in task.answers)
            json.dumps(dict(task.metadata))

    def test_ids_are_unique(self) -> None:
        ids = [task.id for task in self.make().load()]
        repeated = sorted(task_id for task_id, count in Counter(ids).items() if count > 1)[:3]
        assert not repeated, f"several tasks have the same id: {repeated}"

    def test_the_same_options_give_the_same_tasks(self) -> None:
        first, second = list(self.make().load()), list(self.make().load())
        assert first == second, "two sources with the same options load different tasks, or in a different order"

    def test_its_corpus_holds_passages(self) -> None:
        corpus = self.make().corpus()
        if corpus is None:
            return
        passages = list(itertools.islice(corpus, 100))
        assert passages, "its corpus is empty; return None if there is none"
        assert all(isinstance(passage, Passage) and passage.text for passage in passages)
