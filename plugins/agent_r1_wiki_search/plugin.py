"""Declares the tool `wiki_search`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import ToolSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_tools() -> Iterable[ToolSpec]:
    """The one tool of this plugin."""
    return [
        ToolSpec(
            "wiki_search",
            "agent_r1_wiki_search.tool:WikiSearch",
            "Finds passages of a file, an index or a task source by BM25, vectors or both, or through a search service",
        )
    ]
