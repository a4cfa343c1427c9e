"""What the data sets' records have in common: an answer that test sets lack, and HotpotQA's form of paragraphs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agent_r1_core import Passage, Record, TaskError, text_field
from agent_r1_core.contracts.markup import encodable

_CSV = re.compile(r"\.csv(\.gz)?$", re.IGNORECASE)
_LIST = re.compile(r"""\[\s*(?:['"].*['"])?\s*\]""", re.DOTALL)
"""A list of texts as Python or JSON writes it."""


def answer_of(record: Record, key: str) -> str:
    """The answer under `key`.

    Raises:
        TaskError: there is none, as in test sets.
    """
    content = record.content
    if isinstance(content, Mapping) and content.get(key) in (None, "", []):
        raise TaskError(
            f"{record.where} has no {key!r}, as in a test set whose answers are not published; give a file or split "
            "with answers"
        )
    return text_field(content, key, record.where)


def first_of(record: Record, *keys: str) -> Any:
    """The value of the first key that the record has; None if it has none of them."""
    content = record.content if isinstance(record.content, Mapping) else {}
    return next((content[key] for key in keys if content.get(key) is not None), None)


def texts_of(record: Record, *keys: str) -> list[str]:
    """A text or whole number, or a list of them, under the first key that the record has; empty ones are left out.

    Raises:
        TaskError: it is something else, also a list in a cell of CSV, as pandas writes it.
    """
    value = first_of(record, *keys)
    if isinstance(value, str) and _CSV.search(record.where) and _LIST.fullmatch(value.strip()):
        raise TaskError(
            f"{record.where} has the text {value.strip():.60} under {' or '.join(keys)}: a list in CSV would count as "
            "one text; give JSON Lines or Parquet, which tell lists from texts"
        )
    values = list(value) if isinstance(value, list | tuple) else [] if value is None else [value]
    for one in values:
        if type(one) not in (str, int):
            raise TaskError(
                f"{record.where} has a {type(one).__name__} under {' or '.join(keys)}; give a text or a whole number, "
                "or a list of them"
            )
    return [text for text in (encodable(str(one)).strip() for one in values) if text]


def label_of(record: Record, *keys: str) -> str | None:
    """A text such as the kind of a question, if the record has it.

    Raises:
        TaskError: it is something else.
    """
    return next(iter(texts_of(record, *keys)), None)


def known(**facts: Any) -> dict[str, Any]:
    """Those facts that a record tells."""
    return {name: fact for name, fact in facts.items() if fact not in (None, "", [])}


def supporting_titles(record: Record) -> list[str]:
    """The titles of HotpotQA's `supporting_facts`: pairs of title and sentence, or the hub's columns.

    Raises:
        TaskError: they are malformed.
    """
    facts = record.content.get("supporting_facts") or []
    try:
        titles = facts["title"] if isinstance(facts, Mapping) else [fact[0] for fact in facts]
        return list(dict.fromkeys(map(str, titles)))
    except (KeyError, IndexError, TypeError):
        raise TaskError(
            f"the supporting_facts of {record.where} are malformed; give a file in the original format"
        ) from None


def paragraphs(record: Record) -> list[Passage]:
    """HotpotQA's `context`: pairs of title and sentences, or the hub's columns.

    Raises:
        TaskError: it is malformed.
    """
    try:
        context = record.content.get("context") or []
        pairs = (
            zip(context["title"], context["sentences"], strict=True)
            if isinstance(context, Mapping)
            else [(title, sentences) for title, sentences in context]
        )
        return [Passage(str(title), " ".join(sentence.strip() for sentence in sentences)) for title, sentences in pairs]
    except (AttributeError, KeyError, TypeError, ValueError):
        raise TaskError(f"the context of {record.where} is malformed; give a file in the original format") from None
