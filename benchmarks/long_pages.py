"""A plugin for contexts.py: `wiki_search` over pages that are longer than what they say, as most pages are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agent_r1_wiki_search.tool import WikiSearch
from pydantic import Field

from agent_r1_core import ToolContext, ToolSpec, hookimpl

AGENT_R1_PLUGIN_API = 1
FILLER = " ,"


class LongPages(WikiSearch):
    """Searches an encyclopedia and returns whole pages."""

    class Config(WikiSearch.Config):
        filler: int = Field(40, ge=0)
        """Tokens of the bundled model before every answer that say nothing."""

    def run(self, arguments: Any, context: ToolContext) -> str:
        """The filler, and the passages."""
        return FILLER * self.config.filler + "\n" + super().run(arguments, context)


@hookimpl
def register_tools() -> Iterable[ToolSpec]:
    """The tool, under the name that the bundled model has learnt."""
    return [ToolSpec("wiki_search", ":LongPages", "Whole pages of the encyclopedia")]
