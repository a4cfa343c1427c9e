"""The metrics that a run may report: the core's, and those that its components declare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_r1_core.metrics import Catalogue

if TYPE_CHECKING:
    from agent_r1_core.config import ResolvedConfig


def catalogue_of(resolved: ResolvedConfig) -> Catalogue:
    """The catalogue of a run with this configuration."""
    config = resolved.config
    blocks = [("algorithm", config.algorithm), ("env", config.env), *(("tool", block) for block in config.tools)]
    components = [(kind, resolved.registry.load(kind, block.name)) for kind, block in blocks]
    return Catalogue.with_components((kind, loaded.record.canonical, loaded.cls) for kind, loaded in components)
