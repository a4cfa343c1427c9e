"""The task source `musique`: questions composed of single-hop ones (Trivedi et al. 2022, arXiv 2108.00573).

Reads the original files (`musique_ans_v1.0_dev.jsonl` and others) and the columns of the hub's copy. The full edition
(`musique_full_v1.0`) has an unanswerable twin of every question: `unanswerable` says what becomes of those. Test sets
have no answers and are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from agent_r1_core import Passage, Record, RecordsConfig, Task, TaskError, text_field
from agent_r1_questions.fields import answer_of, known, texts_of
from agent_r1_questions.questions import Questions


class MuSiQue(Questions):
    """Questions that need two to four of their twenty paragraphs.

    Their kind is the form in which the single questions depend on each other: `2hop`, `3hop1`, `3hop2`, `4hop1`,
    `4hop2` or `4hop3`.
    """

    format = "musique"

    class Config(RecordsConfig):
        hub: str = "dgslibisey/MuSiQue"
        """The data set on the Hugging Face hub, read if `path` is null."""
        unanswerable: Literal["refuse", "skip"] = "refuse"
        """Records whose paragraphs do not hold the answer: an error, or left out before offset and size apply."""

    def usable(self, record: Record) -> bool:
        """Answerable ones.

        Raises:
            TaskError: it is not answerable, and `unanswerable` is `refuse`.
        """
        if not isinstance(record.content, Mapping) or record.content.get("answerable") is not False:
            return super().usable(record)
        if self.config.unanswerable == "refuse":
            raise TaskError(
                f"{record.where} is not answerable from its paragraphs; set unanswerable=skip to leave such questions "
                "out, or give the edition of answerable ones (musique_ans)"
            )
        return False

    def task(self, record: Record) -> Task:
        """Answers: as written, then the aliases; metadata: kind, hops, path."""
        content, where = record.content, record.where
        name = text_field(content, "id", where)
        form = re.match(r"(\d+)hop\d*(?=_)", name)
        return Task(
            id=name,
            prompt=text_field(content, "question", where),
            answers=tuple(dict.fromkeys([answer_of(record, "answer"), *texts_of(record, "answer_aliases")])),
            metadata=known(
                kind=form and form[0],
                hops=form and int(form[1]),
                path=list(dict.fromkeys(str(one["title"]) for one in _paragraphs(record) if one.get("is_supporting"))),
            ),
        )

    def passages(self, record: Record) -> Iterable[Passage]:
        return [Passage(str(one["title"]), str(one["paragraph_text"])) for one in _paragraphs(record)]


def _paragraphs(record: Record) -> list[Mapping[str, Any]]:
    found = record.content.get("paragraphs") if isinstance(record.content, Mapping) else None
    paragraphs = list(found) if isinstance(found, list | tuple) else []
    keys = {"title", "paragraph_text"}
    if (found and not paragraphs) or any(not isinstance(one, Mapping) or not keys <= one.keys() for one in paragraphs):
        raise TaskError(f"the paragraphs of {record.where} are malformed; give a file in the original format")
    return paragraphs
