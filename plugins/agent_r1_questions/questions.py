"""Questions: the base of task sources that read one question, with its answers and paragraphs, from each record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from agent_r1_core import Passage, Record, RecordTasks, TaskError

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


class Questions(RecordTasks):
    """A subclass says what a record asks, and which paragraphs it has.

    A task's metadata, as far as the record tells: kind, level, hops, path (titles of the supporting paragraphs).

    The corpus is the union of the chosen questions' paragraphs, so `size` determines the size of the corpus.
    """

    format: ClassVar[str]
    """The name of this task source in `formats`."""
    reads_others: ClassVar[bool] = False
    """Whether it takes records in the format of another one, too."""

    def usable(self, record: Record) -> bool:
        """All of them.

        Raises:
            TaskError: it has the format of another task source.
        """
        other = format_of(record)
        if not self.reads_others and other not in (None, self.format):
            raise TaskError(
                f"{record.where} has the format of {other}, of which {self.format} would miss a part; "
                f"read it by the task source {other}"
            )
        return True

    def passages(self, record: Record) -> Iterable[Passage]:
        """The paragraphs of a record, also those that do not help to answer it.

        Raises:
            TaskError: they are malformed.
        """
        return ()

    def corpus(self) -> Iterable[Passage] | None:
        """The paragraphs of the tasks, each once, or None if the records hold none.

        Raises:
            TaskError: the data set is missing or malformed.
        """
        passages: dict[Passage, None] = {}
        for record in self.records:
            passages |= dict.fromkeys(self.passages(record))
        return list(passages) or None
