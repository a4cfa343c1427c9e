from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agent_r1_core.config import load_config, recipe_folders, recipe_names

NEEDS = {"hotpotqa-tiny": ["tasks.train.path=unread.json"]}
"""Overrides without which a recipe means a hub data set."""


@pytest.mark.parametrize("name", recipe_names(recipe_folders()))
def test_a_shipped_recipe_sets_no_option_without_effect(name: str, root: Path, tmp_path: Path) -> None:
    """Values of shipped recipes are free to be idle; elsewhere the same file would be an error, so none may be."""
    shutil.copytree(root / "recipes", tmp_path / "recipes")
    load_config(name, NEEDS.get(name, []), folders=[tmp_path / "recipes"])


def test_an_override_may_make_a_shipped_value_idle() -> None:
    """Switching evaluation off is no error because the default recipe says how to evaluate."""
    resolved = load_config("default", ["evaluation.every=0", "evaluation.at_start=false", "evaluation.at_end=false"])
    assert not resolved.config.evaluation.at_end
