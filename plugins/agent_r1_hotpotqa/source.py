"""The task source `hotpotqa`: multi-hop questions with their paragraphs (Yang et al. 2018, arXiv 1809.09600).

Reads the original files (`hotpot_train_v1.1.json`, `hotpot_dev_distractor_v1.json` and others of that format, such as
2WikiMultihopQA's) and the columns of the hub's copy. Test sets have no answers and are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from agent_r1_core import Passage, RecordsConfig, Task, TaskError, TaskSource, text_field


class HotpotQA(TaskSource):
    """Questions that need two paragraphs; the corpus is the union of the chosen questions' paragraphs.

    In the distractor setting a question has ten paragraphs, so `size` determines the size of the corpus.
    """

    class Config(RecordsConfig):
        hub: str = "hotpotqa/hotpot_qa"
        """The data set on the Hugging Face hub, read if `path` is null."""
        subset: str | None = "distractor"
        """Its configuration on the hub; null: the only one."""

    @classmethod
    def idle_options(cls, config: Config) -> dict[str, str]:
        """With a local path, the options of the hub have no effect."""
        return config.idle()

    @cached_property
    def _records(self) -> list[tuple[str, Any]]:
        return self.config.read()

    def load(self) -> Sequence[Task]:
        """The tasks in the file's order; metadata: type, level, path (titles of the supporting paragraphs).

        Raises:
            TaskError: the data set is missing or malformed, or an id occurs twice.
        """
        tasks: dict[str, Task] = {}
        for where, record in self._records:
            task = _task(record, where)
            if task.id in tasks:
                raise TaskError(f"{where} has the id {task.id!r} of an earlier one; remove it")
            tasks[task.id] = task
        return list(tasks.values())

    def corpus(self) -> Iterable[Passage] | None:
        """The paragraphs of the tasks, each once, or None if the file holds no paragraphs.

        Raises:
            TaskError: the data set is missing or malformed.
        """
        passages: dict[Passage, None] = {}
        for where, record in self._records:
            passages |= dict.fromkeys(Passage(title, text) for title, text in _paragraphs(record, where))
        return list(passages) or None


def _task(record: Mapping[str, Any], where: str) -> Task:
    key = "_id" if isinstance(record, Mapping) and "_id" in record else "id"
    return Task(
        id=text_field(record, key, where),
        prompt=text_field(record, "question", where),
        answers=(text_field(record, "answer", where),),
        metadata={
            "type": str(record.get("type", "")),
            "level": str(record.get("level", "")),
            "path": list(dict.fromkeys(_supporting_titles(record, where))),
        },
    )


def _supporting_titles(record: Mapping[str, Any], where: str) -> list[str]:
    facts = record.get("supporting_facts") or []
    try:
        return [str(title) for title in facts["title"]] if isinstance(facts, Mapping) else [str(f[0]) for f in facts]
    except (KeyError, IndexError, TypeError):
        raise TaskError(f"the supporting_facts of {where} are malformed; give a file in the original format") from None


def _paragraphs(record: Mapping[str, Any], where: str) -> list[tuple[str, str]]:
    try:
        context = record.get("context") or []
        pairs = (
            zip(context["title"], context["sentences"], strict=True)
            if isinstance(context, Mapping)
            else [(title, sentences) for title, sentences in context]
        )
        return [(str(title), " ".join(sentence.strip() for sentence in sentences)) for title, sentences in pairs]
    except (AttributeError, KeyError, TypeError, ValueError):
        raise TaskError(f"the context of {where} is malformed; give a file in the original format") from None
