"""The task source `2wikimultihopqa`: questions over Wikipedia and Wikidata (Ho et al. 2020, arXiv 2011.01060).

Reads the original files (`train.json`, `dev.json`) and the columns of the hub's copy. The edition with ids
(`data_ids_april7.zip`) has other names of the answers in a file of their own, `id_aliases.json`, which the official
scores accept; without it only the answer as it is written counts. Test sets have no answers and are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from agent_r1_core import DataPath, Passage, Record, RecordsConfig, Task, TaskError, text_field
from agent_r1_questions.fields import answer_of, first_of, known, label_of, paragraphs, supporting_titles, texts_of
from agent_r1_questions.questions import Questions

_HOPS = {"comparison": 2, "inference": 2, "compositional": 2, "bridge_comparison": 4}


class TwoWikiMultihopQA(Questions):
    """Questions that need two or four of their ten paragraphs.

    Their kind is `comparison`, `inference`, `compositional` or `bridge_comparison`; the last has four hops.
    """

    format = "2wikimultihopqa"

    class Config(RecordsConfig):
        hub: str = "framolfese/2WikiMultihopQA"
        """The data set on the Hugging Face hub, read if `path` is null."""
        aliases: DataPath | None = None
        """The file `id_aliases.json`: further names of the answers that have an `answer_id`."""

    def task(self, record: Record) -> Task:
        """Answers: as written, then the aliases and demonyms; metadata: kind, hops, path."""
        content, where = record.content, record.where
        key = "_id" if isinstance(content, Mapping) and "_id" in content else "id"
        kind, names = label_of(record, "type"), self._aliases.get(label_of(record, "answer_id") or "", [])
        return Task(
            id=text_field(content, key, where),
            prompt=text_field(content, "question", where),
            answers=tuple(dict.fromkeys([answer_of(record, "answer"), *names])),
            metadata=known(kind=kind, hops=_HOPS.get(kind or "") or _evidences(record), path=supporting_titles(record)),
        )

    def passages(self, record: Record) -> Iterable[Passage]:
        return paragraphs(record)

    @cached_property
    def _aliases(self) -> Mapping[str, list[str]]:
        """Further names of answers by their id."""
        path = self.config.aliases
        if path is None:
            return {}
        if not any(label_of(record, "answer_id") for record in self.records):
            raise TaskError(
                f"no record of {self.config.origin} has an answer_id, so that the aliases of {path} belong to none; "
                "give the edition of the data set that has ids, or leave aliases out"
            )
        return {
            text_field(line.content, "Q_id", line.where): [*texts_of(line, "aliases"), *texts_of(line, "demonyms")]
            for line in RecordsConfig(path=path).read()
        }


def _evidences(record: Record) -> int | None:
    """The number of facts that lead to the answer: a list of triples, or the hub's columns."""
    evidences = first_of(record, "evidences") or []
    columns = list(evidences.values()) if isinstance(evidences, Mapping) else [evidences]
    return len(columns[0]) if columns and isinstance(columns[0], list | tuple) and columns[0] else None
