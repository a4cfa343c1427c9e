"""What the service and the backend `remote` say to each other, as JSON, and what is wrong with a request, in words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

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
    top_k: int = Field(default=1, strict=True, ge=1, le=MOST_PASSAGES)


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


EXAMPLE = '{"queries": ["..."], "top_k": 3}'
_MOST = 5
"""Complaints in one sentence."""
_FIELDS = " and ".join(SearchRequest.model_fields)


def complaint(error: ValidationError) -> str:
    """The sentence for a request that is no `SearchRequest`."""
    found = [_problem(item["type"], item["loc"], item) for item in error.errors(include_url=False)[:_MOST]]
    return f"the request is wrong: {'; '.join(found)}; send {EXAMPLE}"


def _problem(kind: str, location: Sequence[Any], item: Any) -> str:
    place, context = ".".join(map(str, location)), item.get("ctx", {})
    match kind:
        case "json_invalid":
            return f"the body is not JSON ({context['error']})"
        case "model_type":
            return "the body is no JSON object"
        case "missing":
            return f"{place} is missing"
        case "extra_forbidden":
            return f"{place} is unknown, since the fields are {_FIELDS}"
        case "too_short":
            return f"{place} is empty"
        case "too_long":
            return f"{place} has more than {MOST_QUERIES} queries"
        case "string_too_long":
            return f"{place} has more than {context['max_length']} characters"
        case "value_error":
            return f"{place} {context['error']}"
        case "greater_than_equal":
            return f"{place} is below {context['ge']}"
        case "less_than_equal":
            return f"{place} is above {context['le']}"
        case "int_type" | "int_parsing" | "int_from_float":
            return f"{place} is no whole number"
        case "list_type":
            return f"{place} is no list"
        case "string_type":
            return f"{place} is no text"
    return f"{place or 'the body'}: {item['msg']}"
