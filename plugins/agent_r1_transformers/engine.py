"""TransformersEngine: the embedded engine, for any decoder-only model of transformers, on a CPU or one GPU.

New requests join the running ones at the next step, and rows leave as soon as they end. Keys and values of an episode
are kept across its turns. One process, one device: a model that needs more needs another engine.
"""

from __future__ import annotations

from pydantic import Field

from agent_r1_core import EngineBackend, EngineConfig, ThreadedEngine
from agent_r1_transformers.backend import TransformersBackend


class TransformersEngine(ThreadedEngine):
    """Generates with the model in this process, in a thread of its own."""

    name = "transformers"

    class Config(EngineConfig):
        """Options of the `transformers` engine."""

        cache_tokens: int | None = Field(default=None, ge=0)
        """Most tokens whose keys and values are kept for episodes that wait for a tool; the least recently used
        episodes are dropped first and read again. null: those of `max_episodes` episodes; 0: none."""
        max_total_tokens: int | None = Field(default=None, ge=1)
        """Most tokens whose keys and values are held at once, running requests first; further requests wait. null: as
        many as fit in a quarter of the free memory, and without limit in deterministic runs."""

    def make_backend(self) -> EngineBackend:
        config = self.config
        return TransformersBackend(config.max_episodes, config.cache_tokens, config.max_total_tokens)
