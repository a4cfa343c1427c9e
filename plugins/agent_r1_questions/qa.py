"""The task source `qa`: questions and answers of one's own, under the keys that data sets of the field use.

| what | keys, the first that a record has | values |
|---|---|---|
| question | `question` | text |
| answers | `answers`, `answer`, `golden_answers` | a text or whole number, or a list of them; each is accepted |
| further answers | `aliases`, `answer_aliases` | the same |
| id | `id`, `_id`, `qid` | text or whole number; without one, the file's name and the number of records before it |
| hops | `hops` | whole number |
| kind | `kind`, `type` | text |
| level | `level` | text |
| supporting titles | `path` | list of texts |
| paragraphs | `passages`, `ctxs` | list of objects with `title` and `text` |

Only question and answers must be there; other keys are left alone. Records with paragraphs in the format of HotpotQA,
2WikiMultihopQA or MuSiQue are noticed, and the log names the task source that reads them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence

from agent_r1_core import Passage, Record, RecordsConfig, Task, TaskError, text_field
from agent_r1_questions.fields import first_of, known, label_of, texts_of
from agent_r1_questions.questions import Questions, format_of

_ANSWERS = ("answers", "answer", "golden_answers")
_PASSAGES = ("passages", "ctxs")
_PARAGRAPHS = {"2wikimultihopqa": "context", "hotpotqa": "context", "musique": "paragraphs"}
"""Where the records of other task sources have their paragraphs."""
_LOG = logging.getLogger(__name__)


class QA(Questions):
    """Questions and answers of your own, from a file or the hub, with paragraphs if the records have them.

    Keys: `question`; `answers`, `answer` or `golden_answers`; where known `aliases` or `answer_aliases`, `id`, `_id` or
    `qid`, `hops`, `kind` or `type`, `level`, `path` (supporting titles), `passages` or `ctxs`.
    """

    format = "qa"
    reads_others = True

    class Config(RecordsConfig):
        hub: str = ""
        """A data set on the Hugging Face hub, read if `path` is null."""

    def load(self) -> Sequence[Task]:
        """As `RecordTasks.load`; logs which task source reads the paragraphs, if this one does not."""
        tasks = super().load()
        for record in self.records:
            if name := _other_source(record):
                _LOG.warning(
                    "qa does not read the paragraphs under %r of %s; the task source %s reads this format",
                    *(_PARAGRAPHS[name], record.where, name),
                )
                break
        return tasks

    def task(self, record: Record) -> Task:
        """Metadata: kind, level, hops, path."""
        where = record.where
        question = text_field(record.content, "question", where)
        answers = [*texts_of(record, *_ANSWERS), *texts_of(record, "aliases", "answer_aliases")]
        if not answers:
            raise TaskError(f"{where} has no answer under {', '.join(_ANSWERS)}; add one, or leave the record out")
        hops = first_of(record, "hops")
        if isinstance(hops, str) and re.fullmatch(r"[0-9]{1,9}", hops.strip()):  # all that CSV holds is text
            hops = int(hops)
        if hops is not None and hops != "" and type(hops) is not int:
            raise TaskError(f"the hops of {where} are {hops!r:.60}; give a whole number")
        return Task(
            id=label_of(record, "id", "_id", "qid") or f"{self.config.stem}.{record.index}",
            prompt=question,
            answers=tuple(dict.fromkeys(answers)),
            metadata=known(
                kind=label_of(record, "kind", "type"),
                level=label_of(record, "level"),
                hops=hops,
                path=list(dict.fromkeys(texts_of(record, "path"))),
            ),
        )

    def passages(self, record: Record) -> Iterable[Passage]:
        """Its `passages` or `ctxs`."""
        found = first_of(record, *_PASSAGES) or []
        if not isinstance(found, list):
            raise TaskError(f"the passages of {record.where} are no list; give a list of objects with title and text")
        return [
            Passage(text_field(one, "title", where), text_field(one, "text", where))
            for number, one in enumerate(found, 1)
            for where in [f"passage {number} of {record.where}"]
        ]


def _other_source(record: Record) -> str | None:
    """The task source in whose format a record has paragraphs; None where `qa` reads them, or there are none."""
    name = format_of(record)
    if name not in _PARAGRAPHS or first_of(record, *_PASSAGES) is not None:
        return None
    return name if record.content[_PARAGRAPHS[name]] else None
