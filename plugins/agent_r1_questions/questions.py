"""Questions: the base of task sources that read one question, with its answers and paragraphs, from each record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from agent_r1_core import Passage, Record, RecordsConfig, Task, TaskError, TaskSource

_FORMATS = (
    ("2wikimultihopqa", {"context", "supporting_facts", "evidences"}),
    ("hotpotqa", {"context", "supporting_facts"}),
    ("musique", {"paragraphs", "question_decomposition"}),
    ("bamboogle", {"Question", "Answer"}),
    ("qa", {"question", "golden_answers"}),
    ("qa", {"question", "answers"}),
)
"""Task sources, and keys that only records of their format have; the first that fits counts."""


def format_of(record: Record) -> str | None:
    """The task source that reads records with these keys; None: they do not tell."""
    content = record.content
    if not isinstance(content, Mapping):
        return None
    return next((name for name, keys in _FORMATS if keys <= content.keys()), None)


class Questions(TaskSource, ABC):
    """A subclass says what a record asks, and which paragraphs it has.

    The corpus is the union of the chosen questions' paragraphs, so `size` determines the size of the corpus.
    """

    Config = RecordsConfig
    format: ClassVar[str]
    """The name of this task source in `formats`."""
    reads_others: ClassVar[bool] = False
    """Whether it takes records in the format of another one, too."""

    @classmethod
    def idle_options(cls, config: Any) -> dict[str, str]:
        """Those of the hub beside a local path, and those of a sample where none is drawn."""
        return config.idle()

    @classmethod
    def unavailable(cls, config: Any) -> str | None:
        """A sentence if the hub or a folder is to be read, and the package for it is missing."""
        reason: str | None = config.unavailable()
        return reason

    def usable(self, record: Record) -> bool:
        """Whether a record counts at all; called before offset and size apply."""
        return True

    @abstractmethod
    def task(self, record: Record) -> Task:
        """The task of a record.

        Raises:
            TaskError: the record is malformed, or has no answer.
        """

    def passages(self, record: Record) -> Iterable[Passage]:
        """The paragraphs of a record, also those that do not help to answer it.

        Raises:
            TaskError: they are malformed.
        """
        return ()

    def load(self) -> Sequence[Task]:
        """The tasks in the file's order; metadata where known: kind, level, hops, path (titles of the supporting
        paragraphs).

        Raises:
            TaskError: the data set is missing or malformed, or an id occurs twice.
        """
        tasks: dict[str, Task] = {}
        for record in self.records:
            task = self.task(record)
            if task.id in tasks:
                raise TaskError(f"{record.where} has the id {task.id!r} of an earlier one; remove it")
            tasks[task.id] = task
        return list(tasks.values())

    def check_data(self) -> None:
        """Read the first record of a file.

        Raises:
            TaskError: as `load`.
        """
        record = self.config.first(self.usable)
        if record is not None:
            self._check_format(record)
            self.task(record)

    def corpus(self) -> Iterable[Passage] | None:
        """The paragraphs of the tasks, each once, or None if the records hold none.

        Raises:
            TaskError: the data set is missing or malformed.
        """
        passages: dict[Passage, None] = {}
        for record in self.records:
            passages |= dict.fromkeys(self.passages(record))
        return list(passages) or None

    @cached_property
    def records(self) -> list[Record]:
        """The chosen records.

        Raises:
            TaskError: one has the format of another task source.
        """
        records = self.config.read(self.usable)
        for record in records:
            self._check_format(record)
        return records

    def _check_format(self, record: Record) -> None:
        other = format_of(record)
        if not self.reads_others and other not in (None, self.format):
            raise TaskError(
                f"{record.where} has the format of {other}, of which {self.format} would miss a part; "
                f"read it by the task source {other}"
            )
