"""The recipes that ship are whole: they resolve, say what they are, and survive being written out."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from agent_r1_core.config import find_recipe, load_config, recipe_folders, recipe_names
from agent_r1_core.plugins.trust import Trust

NAMES = recipe_names(recipe_folders())
NEEDS = {"hotpotqa-tiny": ["tasks.train.path=unread.json"]}
"""Overrides without which a recipe means a hub data set."""
OURS = Trust(named=True)
"""Some start programs: a server of tools, a Python with another package."""


def test_the_recipes_that_the_documents_name_are_there() -> None:
    named = {"default", "ppo", "reinforce_pp", "calculator", "hotpotqa-tiny", "qwen2.5-1.5b-hotpotqa", "frozen_lake"}
    methods = ("grpo", "ppo", "reinforce_pp", "reinforce_pp_baseline", "rloo")
    paper = {f"paper/{sets}-{method}" for sets in ("hotpotqa-2wiki", "miniwiki") for method in methods}
    assert named | paper <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_resolves_without_a_warning_and_is_read_back_equal(name: str, tmp_path: Path) -> None:
    resolved = load_config(name, trust=OURS)
    assert resolved.warnings == ()
    assert resolved.recipe == name.rpartition("/")[2]
    file = tmp_path / "config.yaml"
    file.write_text(resolved.yaml())
    assert load_config(file, trust=OURS).dump() == resolved.dump()


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_opens_with_what_it_does_and_the_command_that_runs_it(name: str) -> None:
    """Every `key=value` in a comment is an override that resolves, but for files that only the reader has."""
    lines = find_recipe(name).read_text().splitlines()
    assert lines[0].startswith("# ")
    command = "agent-r1 train" if name == "default" else f"agent-r1 train {name}"
    assert any(command in line for line in lines if line.startswith("#"))
    for line in lines:
        words = shlex.split(line.strip("# ").partition("(")[0]) if "agent-r1 train" in line else []
        overrides = [word for word in words if "=" in word]
        if overrides:
            assert load_config(name, overrides, trust=OURS).config


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_recipe_sets_no_option_without_effect(name: str, root: Path, tmp_path: Path) -> None:
    """Values of shipped recipes are free to be idle; elsewhere the same file would be an error, so none may be."""
    shutil.copytree(root / "recipes", tmp_path / "recipes")
    load_config(name, NEEDS.get(name, []), folders=[tmp_path / "recipes"], trust=OURS)


def test_training_and_evaluation_of_the_default_recipe_share_no_task() -> None:
    resolved = load_config("default", ["tasks.train.size=50", "tasks.eval.size=50"])
    tasks = resolved.config.tasks
    train, held = (resolved.make("tasks", block).load() for block in (tasks.train, tasks.eval))
    assert not {task.prompt for task in train} & {task.prompt for task in held}


@pytest.mark.real_data
def test_the_hotpotqa_recipe_reads_an_original_file(real_data: Path) -> None:
    resolved = load_config("hotpotqa-tiny", [f"tasks.train.path={real_data / 'hotpotqa_100.json'}"])
    source = resolved.make("tasks", resolved.config.tasks.train)
    assert len(source.load()) == 100
    assert resolved.config.tasks.eval is None
