"""The task source `bamboogle`: questions that one search does not answer (Press et al. 2023, arXiv 2210.03350).

Reads the original file (a CSV of the columns Question and Answer) and the hub's copy. It is a test set of 125 questions
without paragraphs: give `wiki_search` a corpus of its own.
"""

from __future__ import annotations

from agent_r1_core import Record, RecordsConfig, Task, text_field
from agent_r1_questions.fields import answer_of
from agent_r1_questions.questions import Questions


class Bamboogle(Questions):
    """Questions that people wrote so that a search engine's first answer is wrong; all have two hops."""

    format = "bamboogle"

    class Config(RecordsConfig):
        hub: str = "chiayewken/bamboogle"
        """The data set on the Hugging Face hub, read if `path` is null."""
        split: str = "test"
        """Of the hub's data set or of a local folder; there is only this one."""

    def task(self, record: Record) -> Task:
        """Ids are places in the file; metadata: hops (2)."""
        return Task(
            id=f"bamboogle.{record.index}",
            prompt=text_field(record.content, "Question", record.where),
            answers=(answer_of(record, "Answer"),),
            metadata={"hops": 2},
        )
