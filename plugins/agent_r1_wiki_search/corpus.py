"""Reads the passages that `wiki_search` indexes, from a file or from the run's task sources.

It holds the whole corpus in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agent_r1_core import ConfigError, Passage, TaskError, ToolResources, read_records, text_field


def read_corpus(path: str) -> list[Passage]:
    """The passages of a `.jsonl`, `.json` or `.parquet` file, without repetitions.

    A record has `title` and `text`, or `contents` whose first line is the title (as in Pyserini's corpora).

    Raises:
        TaskError: the file is missing, malformed or empty.
    """
    records = read_records(path, hub="")
    return list(dict.fromkeys(_passage(record, f"record {index} of {path}") for index, record in enumerate(records)))


def source_corpus(resources: ToolResources, sources: Sequence[str]) -> list[Passage]:
    """The passages of these task sources, without repetitions.

    Raises:
        ConfigError: there is no such source, or none of them offers passages.
    """
    for name in sources:
        if name not in resources.corpora:
            known = ", ".join(sorted(resources.corpora)) or "none"
            raise ConfigError(f"wiki_search has source={name} but the corpora here are: {known}; name one, or auto")
    corpora: list[Iterable[Passage]] = [resources.corpora[name]() or [] for name in sources]
    passages = list(dict.fromkeys(passage for corpus in corpora for passage in corpus))
    if not passages:
        raise ConfigError(
            "wiki_search has nothing to search, since the task source offers no corpus; set its option corpus to a "
            "JSON Lines file of passages with title and text"
        )
    return passages


def _passage(record: Any, where: str) -> Passage:
    if isinstance(record, Mapping) and "contents" in record and "text" not in record:
        title, _, text = text_field(record, "contents", where).partition("\n")
        if not text.strip():
            raise TaskError(f"the contents of {where} have no text after the title's line; add it")
        return Passage(title.strip().strip('"'), text.strip())
    return Passage(text_field(record, "title", where), text_field(record, "text", where))
