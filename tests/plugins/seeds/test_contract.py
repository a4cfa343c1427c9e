"""The task source `seeds` keeps the contract of task sources, and a recipe can name it."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import agent_r1_seeds.plugin
from agent_r1_seeds.source import Seeds

from agent_r1_core.plugins import Registry
from agent_r1_core.testing import TaskSourceContract


class TestSeeds(TaskSourceContract):
    component = Seeds
    config: ClassVar = {"size": 20, "first": 7}


def test_every_task_has_a_seed_of_its_own() -> None:
    registry = Registry.discover([Path(agent_r1_seeds.plugin.__file__)])
    source = registry.create("tasks", {"name": "plugin/seeds", "size": 3, "first": 5, "prompt": "Play."})
    told = [(task.id, task.seed, task.prompt) for task in source.load()]
    assert told == [(f"seed.{seed}", seed, "Play.") for seed in (5, 6, 7)]
