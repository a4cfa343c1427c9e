"""Says in one sentence what is wrong with a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from agent_r1_wiki_search.service.messages import MOST_QUERIES, SearchRequest

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
