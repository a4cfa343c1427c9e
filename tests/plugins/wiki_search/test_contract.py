"""The tool `wiki_search` keeps the contract of tools."""

from __future__ import annotations

from typing import ClassVar

from agent_r1_wiki_search.tool import WikiSearch

from agent_r1_core import Passage
from agent_r1_core.testing import ToolContract


class TestWikiSearch(ToolContract):
    component = WikiSearch
    arguments: ClassVar = {"query": "Karimo"}
    expected = "Karimo\nKarimo is a city."
    refused: ClassVar = {"query": " "}
    corpus = (Passage("Karimo", "Karimo is a city."), Passage("Belu", "Belu is a film."))
