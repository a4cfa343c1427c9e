"""A plugin with a `wiki_search` that answers late, for `staleness.py` and `rollout_workers.py`.

Its name in a recipe is `slow_search/wiki_search`; the model sees `wiki_search`. The latency of a call is log-normal,
and seeded by the run's seed, the task, the sample, the turn and the call: who is compared waits alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from agent_r1_wiki_search.config import WikiSearchConfig
from agent_r1_wiki_search.tool import WikiSearch
from pydantic import Field

from agent_r1_core import ToolContext, ToolSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


class SlowSearch(WikiSearch):
    """Searches an encyclopedia and returns the passages that match best."""

    class Config(WikiSearchConfig):
        """Options of the search, and how long it takes."""

        latency: float = Field(0.3, ge=0)
        """Mean seconds of a call."""
        tail: float = Field(1.0, ge=0)
        """Sigma of the log-normal distribution; 0: all calls take equally long; 1: one in a hundred takes six times the
        mean."""

    async def run(self, arguments: Any, context: ToolContext) -> str:  # type: ignore[override]  # any tool may be async
        """Wait, then search."""
        sigma = self.config.tail
        await asyncio.sleep(self.config.latency * context.rng.lognormvariate(-sigma * sigma / 2, sigma))
        return super().run(arguments, context)


@hookimpl
def register_tools() -> Iterable[ToolSpec]:
    """The one tool of this file."""
    return [ToolSpec("wiki_search", ":SlowSearch", "The built-in wiki_search, slowly")]
