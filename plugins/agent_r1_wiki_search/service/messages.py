"""What the service and the backend `remote` say to each other, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from agent_r1_wiki_search.searcher import LONGEST_QUERY, MOST_PASSAGES, Hit

MOST_QUERIES = 64
"""Of one request."""


def _not_blank(query: str) -> str:
    if not query.strip():
        raise ValueError("is empty")
    return query


Query = Annotated[str, Field(max_length=LONGEST_QUERY), AfterValidator(_not_blank)]


class SearchRequest(BaseModel):
    """What `POST /search` takes."""

    model_config = ConfigDict(extra="forbid")

    queries: list[Query] = Field(min_length=1, max_length=MOST_QUERIES)
    top_k: int = Field(default=1, ge=1, le=MOST_PASSAGES)


def search_answer(results: Sequence[Sequence[Hit]], index: str) -> bytes:
    """What `POST /search` answers: for each query its hits, best first, and the identity of the index."""
    hits = [
        [{"title": hit.passage.title, "text": hit.passage.text, "score": hit.score} for hit in found]
        for found in results
    ]
    return json.dumps({"results": hits, "index": index}).encode()


def index_identity(facts: Mapping[str, Any]) -> str:
    """A hash of what a searcher says about itself, except where its files lie: equal for equal indexes."""
    places = {"corpus", "model"} if "weights" in facts else {"corpus"}  # the weights of a model have a hash
    facts = {name: value for name, value in facts.items() if name not in places}
    return blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=8).hexdigest()
