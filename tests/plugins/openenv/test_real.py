"""A server of the package openenv, in a Python of its own: its sessions, its tasks, and training on it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from agent_r1_openenv.env import OpenEnv
from agent_r1_openenv.source import OpenEnvTasks
from agent_r1_tool_formats.hermes import Hermes
from made_environments import python_with
from served import free_port, serving

from agent_r1_core import Action, EnvServices, Task, ToolCall, train

HERE = Path(__file__).parent
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def url(root: Path, environments: Path) -> Iterator[str]:
    python = python_with(HERE / "requirements.txt", environments / "openenv", "--no-deps")
    port = free_port()
    command = [python, "-m", "uvicorn", "bandit:app", "--host", "127.0.0.1", "--port", port, "--log-level", "error"]
    clean = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    with serving(command, port, cwd=root / "recipes/openenv", env=clean):
        yield f"http://127.0.0.1:{port}"


def play(url: str, seed: int, task: dict[str, str] | None = None) -> tuple[str, str, float]:
    """What is shown first, what a bad action is told, and what the dragon pays."""
    with closing(OpenEnv(OpenEnv.Config(url=url, show="said", rules=""), EnvServices(tool_format=Hermes()))) as env:
        begun = env.reset(Task(f"seed.{seed}", "Begin.", seed=seed, metadata={"openenv": task or {}}))
        acts = (Hermes().render_call(ToolCall("act", {"arm": arm})) for arm in ("cat", "dragon"))
        refused, last = (env.step(Action(act)) for act in acts)
        assert last.terminated
        return str(begun.messages[0]["content"]), str(refused.observation.messages[0]["content"]), last.reward


def test_episodes_wait_for_its_six_sessions_and_are_as_if_alone(url: str) -> None:
    alone = [play(url, seed) for seed in range(64)]
    assert {begun for begun, _, _ in alone} == {"Pull phoenix or dragon.", "Pull dragon or phoenix."}
    assert all(refused.startswith("Error: the action is refused: arm: String should match") for _, refused, _ in alone)
    with ThreadPoolExecutor(64) as threads:
        assert list(threads.map(lambda seed: play(url, seed), range(64))) == alone


def test_its_tasks_reach_its_resets(url: str) -> None:
    tasks = OpenEnvTasks(OpenEnvTasks.Config(url=url)).load()
    assert [play(url, 0, dict(task.metadata["openenv"]))[2] for task in tasks] == [1.0, 0.0]


def test_the_recipe_trains(url: str, tmp_path: Path) -> None:
    few = ["training.steps=2", "training.samples_per_task=4", "evaluation.size=4"]
    steps = train("openenv", [f"env.url={url}", f"run.dir={tmp_path}", *few]).metrics()
    assert [step["rollout/failed"] for step in steps] == [0, 0]
    assert any(step["reward/mean"] for step in steps)
