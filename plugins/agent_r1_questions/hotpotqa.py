"""The task source `hotpotqa`: multi-hop questions with their paragraphs (Yang et al. 2018, arXiv 1809.09600).

Reads the original files (`hotpot_train_v1.1.json`, `hotpot_dev_distractor_v1.json` and others) and the columns of the
hub's copy. Test sets have no answers and are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agent_r1_core import Passage, Record, RecordsConfig, Task, text_field
from agent_r1_questions.fields import answer_of, known, label_of, paragraphs, supporting_titles
from agent_r1_questions.questions import Questions


class HotpotQA(Questions):
    """Questions that need two paragraphs, of ten in the distractor setting.

    Their kind is `bridge` or `comparison`, their level easy, medium or hard (all of the development set are hard).
    """

    format = "hotpotqa"

    class Config(RecordsConfig):
        hub: str = "hotpotqa/hotpot_qa"
        """The data set on the Hugging Face hub, read if `path` is null."""
        subset: str | None = "distractor"
        """Its configuration on the hub; null: the only one."""

    def task(self, record: Record) -> Task:
        """Metadata: kind, level, hops (2), path."""
        content, where = record.content, record.where
        key = "_id" if isinstance(content, Mapping) and "_id" in content else "id"
        return Task(
            id=text_field(content, key, where),
            prompt=text_field(content, "question", where),
            answers=(answer_of(record, "answer"),),
            metadata=known(
                kind=label_of(record, "type"), level=label_of(record, "level"), hops=2, path=supporting_titles(record)
            ),
        )

    def passages(self, record: Record) -> Iterable[Passage]:
        return paragraphs(record)
