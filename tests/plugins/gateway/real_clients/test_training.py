"""The bundled model trains two steps through each client."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_r1_core import train

from .clients import CLIENTS

pytestmark = [pytest.mark.installed, pytest.mark.slow]

PLUGIN = '''
"""A reward that varies."""
import zlib

from agent_r1_core import RewardFn, RewardSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


class Letters(RewardFn):
    range = (0.0, 1.0)

    def score(self, trajectory):
        return zlib.crc32("".join(turn.text for turn in trajectory.turns).encode()) / 2**32


@hookimpl
def register_rewards():
    return [RewardSpec("letters", ":Letters", "a number that varies")]
'''


SHORT = "Use the shell."
SHORTER = {
    "claude code": ("--tools", "Bash", "--system-prompt", SHORT),
    "codex": ("--disable", "multi_agent", "--disable", "goals", "-c", "model_instructions_file={page}/instructions.md"),
    "pi": ("--tools", "bash", "--system-prompt", SHORT),
}
"""What the page says about long prompts: options that shorten them."""


@pytest.mark.parametrize("name", CLIENTS)
def test_two_steps_train(
    name: str, cheap_options_of: Callable[..., dict[str, Any]], page: Path, tmp_path: Path
) -> None:
    client = CLIENTS[name]
    recipe: dict[str, Any] = {
        "extends": "default",
        "model": {"dtype": "float32"},
        "env": {"name": "program", **cheap_options_of(client), "max_tokens": 1024, "max_turns": 3},
        "tools": [],
        "rewards": ["letters"],
        "engine": {"temperature": 2.0, "max_new_tokens": 48, "max_episodes": 4},
        "training": {"steps": 2, "tasks_per_step": 1, "samples_per_task": 2},
        "evaluation": {"every": 0, "at_start": False, "at_end": False},
        "checkpoint": {"every": 100, "best": None},
        "run": {"dir": str(tmp_path), "name": "two-steps"},
    }
    if client.from_npm:
        recipe["model"] |= {"name": str(page / "model")}
        (page / "instructions.md").write_text(SHORT)
        shorter = [option.format(page=page) for option in SHORTER[name]]
        recipe["env"] |= {"command": [*recipe["env"]["command"], *shorter], "max_tokens": 8192}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(recipe))
    (tmp_path / "letters.py").write_text(PLUGIN)
    run = train(tmp_path / "mine.yaml", plugins=[tmp_path / "letters.py"])
    steps = run.metrics()
    assert run.health().startswith("health: healthy"), run.health()
    assert [step["step"] for step in steps] == [1, 2]
    for step in steps:
        assert (step["rollout/failed"], step["rollout/retries"]) == (0, 0)
        assert step["update/grad_norm"] > 0
        assert step["logprob_gap"] < 1e-4
