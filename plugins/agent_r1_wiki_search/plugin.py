"""Declares the tool `wiki_search`, and the commands that build and serve what it searches."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import CommandSpec, ToolSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_tools() -> Iterable[ToolSpec]:
    return [
        ToolSpec(
            "wiki_search",
            "agent_r1_wiki_search.tool:WikiSearch",
            "Finds passages of a file, an index or a task source by BM25, vectors or both, or through a search service",
        )
    ]


@hookimpl
def register_commands() -> Iterable[CommandSpec]:
    return [
        CommandSpec("wiki build", "agent_r1_wiki_search.commands:build", "Build an index of a corpus."),
        CommandSpec("wiki serve", "agent_r1_wiki_search.serve_command:serve", "Search an index for others over HTTP."),
        CommandSpec("wiki query", "agent_r1_wiki_search.commands:query", "Ask an index."),
        CommandSpec("wiki bench", "agent_r1_wiki_search.commands:bench", "Measure an index."),
    ]
