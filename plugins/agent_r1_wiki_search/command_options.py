"""Options that several commands of `agent-r1 wiki` have."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


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
