"""Recipes and runs that were made elsewhere run no code that nobody has allowed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from agent_r1_core.runs.run import Run
from agent_r1_core.training.api import train

PLUGIN = """
from pathlib import Path
from agent_r1_core import RewardFn, RewardSpec, hookimpl

AGENT_R1_PLUGIN_API = 1
(Path(__file__).parent / "it_ran").touch()

class Free(RewardFn):
    def score(self, trajectory):
        return 1.0

register_rewards = hookimpl(lambda: [RewardSpec("free", ":Free", "Always 1")])
"""


@pytest.fixture
def strange(tmp_path: Path, noise: Path) -> Path:
    """A folder that came from elsewhere, with the recipe `recipe.yaml`, the run `run`, and the plugin of both."""
    folder = tmp_path / "strange"
    folder.mkdir()
    plugin = folder / "gift.py"
    plugin.write_text(PLUGIN)
    recipe = {"extends": "default", "rewards": ["free"], "plugins": [str(plugin)], "threads": 1, "trackers": []}
    recipe |= {"model": {"name": str(noise), "dtype": "float32"}}
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    entry = {"name": "gift", "status": "ok", "value": str(plugin), "file_hash": "0" * 64, "components": []}
    entry |= {"distribution": None, "version": None}
    with Run.create(folder, "run", {**recipe, "sources": {}}, [entry]):
        return folder


RECIPE = [("train", "recipe.yaml", "--dry-run"), ("eval", "recipe.yaml"), ("rollout", "recipe.yaml")]
RUN = [("eval", "--model", "run"), *((word, "run") for word in ("eval", "rollout", "play"))]
RUN += [("train", "run", "--dry-run"), ("train", "run", "--resume", "--force"), ("train", "run/config.yaml")]


@pytest.mark.parametrize("words", [*RECIPE, ("play", "recipe.yaml"), *RUN], ids=" ".join)
def test_no_command_runs_a_file_that_somebody_else_put_there(agent_r1, strange, words):
    done = agent_r1(*(strange / word if (strange / word).exists() else word for word in words))
    assert done.exit_code == 3
    [line] = done.stderr.splitlines()
    assert line.startswith("error: plugins[0] (")
    assert f"names a plugin file that did not run here before, {strange / 'gift.py'} (SHA-256 " in line
    assert line.endswith("; read it, then add --trust")
    assert not (strange / "it_ran").exists()


def test_a_resume_compares_files_before_it_imports_them(agent_r1, strange):
    done = agent_r1("train", strange / "run", "--resume", "--trust")
    assert done.exit_code == 1
    assert done.stderr.startswith("error: plugin 'gift' has changed since the run began: file hash 000")
    assert not (strange / "it_ran").exists()


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("plugins.json", "{}", "plugins.json is damaged"),
        ("plugins.json", '[{"name": "gift"}]', "plugins.json is damaged, which lists the plugins of the run"),
        ("plugins.json", "[" * 100_000, "plugins.json is damaged"),
        ("config.yaml", "extends: default\nmodel: {name: tiny}\n", "config.yaml is damaged: its end is missing"),
        ("config.yaml", "[" * 5_000, "config.yaml is damaged"),
    ],
)
def test_a_damaged_run_is_one_sentence(agent_r1, strange, name, text, sentence):
    (strange / "run" / name).write_text(text)
    for words in (("eval", strange / "run"), ("train", strange / "run", "--resume")):
        done = agent_r1(*words)
        assert done.exit_code == 1
        [line] = done.stderr.splitlines()
        assert sentence in line


def test_trust_is_said_once_and_ends_when_the_file_changes(agent_r1, strange):
    look = ("train", strange / "run", "--dry-run")
    assert (agent_r1(*look).exit_code, agent_r1(*look, "--trust").exit_code) == (3, 0)
    assert (strange / "it_ran").exists()
    assert agent_r1(*look).exit_code == 0
    (strange / "gift.py").write_text(PLUGIN + "\n")
    assert agent_r1(*look).exit_code == 3, "a run says nothing about who changed its file"
    assert agent_r1(*look, "-p", strange / "gift.py").exit_code == 0, "a file of the command line needs no trust"
    (strange / "gift.py").write_text(PLUGIN + "\n\n")
    assert agent_r1("train", strange / "recipe.yaml", "--dry-run").exit_code == 0, "who edits a recipe's file goes on"


def test_training_a_recipe_runs_its_files_and_its_run_is_the_users_own(succeed, strange):
    small = ["training.steps=1", "training.tasks_per_step=1", "training.samples_per_task=2", "engine.max_new_tokens=4"]
    small += ["tasks.train.size=4", "tasks.eval.size=2", "env.max_turns=1", "run.name=own"]
    run = train(strange / "recipe.yaml", small)
    assert json.loads((run.path / "plugins.json").read_text())
    succeed("eval", run.path)
