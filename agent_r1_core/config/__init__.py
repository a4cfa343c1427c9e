"""One run configuration: a YAML recipe plus `key=value` overrides, resolved into a complete, checked RunConfig."""

from __future__ import annotations

from agent_r1_core.config.load import ResolvedConfig, load_config
from agent_r1_core.config.models import EvaluationConfig, RunConfig
from agent_r1_core.config.recipe import find_recipe, recipe_folders, recipe_names

__all__ = [
    "EvaluationConfig",
    "ResolvedConfig",
    "RunConfig",
    "find_recipe",
    "load_config",
    "recipe_folders",
    "recipe_names",
]
