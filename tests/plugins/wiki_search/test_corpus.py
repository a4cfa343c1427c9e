"""Corpora in the forms that data sets come in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from agent_r1_wiki_search.corpus import stream_corpus

from agent_r1_core import Passage, TaskError


def write(folder: Path, content: Any) -> str:
    path = folder / "corpus.json"
    path.write_text(json.dumps(content))
    return str(path)


def test_an_object_of_titles_with_their_sentences_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, {"Lyon": ["It is large.", " It lies on the Rhône."], "Alû": ["A demon."]})
    assert list(stream_corpus(path)) == [
        (f"record 1 of {path}", Passage("Lyon", "It is large. It lies on the Rhône.")),
        (f"record 2 of {path}", Passage("Alû", "A demon.")),
    ]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            {"Lyon": ["It is large.", 3]},
            "holds one JSON object, not a list of records; give a list of objects, one for",
        ),
        ([{f"Title {number:04}" * 9: [] for number in range(2000)}], " and 1992 more); give a file whose records have"),
    ],
)
def test_what_is_no_corpus_is_told_in_a_few_words(tmp_path: Path, content: Any, sentence: str) -> None:
    with pytest.raises(TaskError) as refusal:
        list(stream_corpus(write(tmp_path, content)))
    assert sentence in str(refusal.value)
    assert len(str(refusal.value)) < 800
