"""The formats of records, told apart by their keys, so that none is read by the wrong task source without a word."""

from __future__ import annotations

from collections.abc import Mapping

from agent_r1_core import Record

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
