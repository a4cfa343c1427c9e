"""`agent-r1 wiki build|query|bench`: builds, queries and measures indexes for the tool `wiki_search`."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from agent_r1_core import WorkDisplay
from agent_r1_wiki_search.vectors import Kind


class Backend(StrEnum):
    """Ways to search an index folder."""

    TANTIVY = "tantivy"
    DENSE = "dense"
    HYBRID = "hybrid"


How = Annotated[
    Backend | None,
    typer.Option(help="How to search: all that the index was built for, or one way of it.", show_default=False),
]
Model = Annotated[
    str | None, typer.Option(help="The encoder: a folder of sentence-transformers or a hub name.", show_default=False)
]
Device = Annotated[
    str | None,
    typer.Option(
        help="Where the encoder runs, as torch names it: cpu, cuda, cuda:1; default: a GPU if there is one.",
        show_default=False,
    ),
]
Effort = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="ivf_pq: lists to look into, default: 64; hnsw: vectors to keep in view, default: 128.",
        show_default=False,
    ),
]


Index = Annotated[Path, typer.Argument(metavar="INDEX", help="An index folder.", show_default=False)]
TopK = Annotated[int, typer.Option(min=1, max=1000, help="Passages per query.")]


def build(
    corpus: Annotated[
        Path,
        typer.Argument(
            metavar="CORPUS",
            help="A .json, .jsonl, .jsonl.gz, .parquet or .csv file, or a folder of such.",
            show_default=False,
        ),
    ],
    index: Annotated[
        Path, typer.Argument(metavar="INDEX", help="The folder to build; it must not exist.", show_default=False)
    ],
    backend: Annotated[Backend, typer.Option(help="How the index will be searched.")] = Backend.TANTIVY,
    stemmer: Annotated[
        bool, typer.Option("--stemmer", help="tantivy and hybrid: match English words by their stems.")
    ] = False,
    model: Model = None,
    query_prefix: Annotated[
        str | None, typer.Option(help="Stands before every query; default: the model's own prompt.", show_default=False)
    ] = None,
    passage_prefix: Annotated[
        str | None,
        typer.Option(help="Stands before every passage; default: the model's own prompt.", show_default=False),
    ] = None,
    vectors: Annotated[
        Kind | None, typer.Option(help="What finds vectors; default: numpy.", show_default=False)
    ] = None,
    lists: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="ivf_pq: lists of vectors; default: 4 times the square root of the number of passages.",
            show_default=False,
        ),
    ] = None,
    code_bytes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="ivf_pq: bytes of a compressed vector; default: the most up to 64 that fits.",
            show_default=False,
        ),
    ] = None,
    links: Annotated[
        int | None, typer.Option(min=2, help="hnsw: links of each vector; default: 32.", show_default=False)
    ] = None,
    device: Device = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Passages to encode at once; default: 32.", show_default=False)
    ] = None,
) -> None:
    """Build an index of a corpus: records with title and text, or contents whose first line is the title.

    The corpus is read as a stream. The same command continues a build that was interrupted.
    """
    from agent_r1_wiki_search.building import build_index, file_source
    from agent_r1_wiki_search.plans import Plan, parts_of

    plan = Plan(
        *(backend, stemmer or None, model, query_prefix, passage_prefix, vectors, lists, code_bytes, links),
        *(device, batch_size),
    )
    with WorkDisplay(lasting=True) as display:
        manifest = build_index(file_source(corpus.absolute()), parts_of(plan), index.absolute(), display.say)
    size = sum(count for count, _ in manifest.files.values())
    print(f"{index}: {manifest.passages:,} passages for {' and '.join(manifest.parts)}, {size / 1e6:,.1f} MB")


def query(
    index: Index,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What to look for.", show_default=False)],
    backend: How = None,
    top_k: TopK = 5,
    model: Model = None,
    device: Device = None,
    effort: Effort = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print the passages of an index that answer a question best."""
    from agent_r1_core.errors import ConfigError
    from agent_r1_wiki_search.folder import SearchOptions, open_folder

    if not question.strip():
        raise ConfigError("the question is empty; say what to look for")
    with WorkDisplay():
        searcher = open_folder(index, backend, SearchOptions(model, device, effort))
    (hits,) = searcher.search([question], top_k)
    if as_json:
        found = [{"title": hit.passage.title, "text": hit.passage.text, "score": hit.score} for hit in hits]
        print(json.dumps({"schema": 1, "facts": searcher.facts(), "hits": found}, ensure_ascii=False))
    elif hits:
        print("\n\n".join(f"{hit.score:.3f}  {hit.passage.title}\n{hit.passage.text}" for hit in hits))
    else:
        print("no passage found", file=sys.stderr)
    searcher.close()


def bench(
    index: Index,
    backend: How = None,
    top_k: TopK = 10,
    model: Model = None,
    device: Device = None,
    effort: Effort = None,
    queries: Annotated[int, typer.Option(min=1, help="Queries to time.")] = 500,
) -> None:
    """Measure an index: time per query, one by one and 64 at once, and how many passages are found by their titles.

    The queries are titles of passages at equal distances.
    """
    from agent_r1_wiki_search.folder import SearchOptions, open_folder
    from agent_r1_wiki_search.measuring import measure

    with WorkDisplay():
        searcher = open_folder(index, backend, SearchOptions(model, device, effort))
        measured = measure(searcher, index, queries, top_k)
    for name, value in measured.items():
        print(f"{name:<36} {value}")
    searcher.close()
