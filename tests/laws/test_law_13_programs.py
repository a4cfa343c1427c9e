"""LAW 13: a recipe that was made elsewhere runs no program here and sends nothing away, unless the user allows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_r1_core.config import load_config
from agent_r1_core.errors import UntrustedPlugin
from agent_r1_core.plugins.trust import Trust

COMMAND = "env: {name: program, command: [sh, -c, 'echo harm']}"
FUNCTION = 'env: {name: program, function: "os:getcwd"}'
OWN = 'env: {name: program, function: "agent_r1_gateway.testing:echo"'
MODELS = OWN + ", models: {judge: 'https://one.example'}, models_key: SECRET}"
ENVIRONMENT = "env: {name: program, command: [python, agent.py], environment: {PYTHONSTARTUP: /one.py}}"
CONTAINER = "env: {name: harbor, container: ./evil}"
CONTAINER_OF_TASKS = "tasks: {train: {name: harbor, path: tasks, container: ./evil}}"


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    return tmp_path / "strange.yaml"


@pytest.mark.parametrize("env", [COMMAND, FUNCTION, MODELS, ENVIRONMENT, CONTAINER, CONTAINER_OF_TASKS])
def test_a_program_of_a_recipe_is_allowed_once(recipe: Path, env: str) -> None:
    recipe.write_text(f"extends: default\ntools: []\n{env}\n")
    with pytest.raises(UntrustedPlugin, match=r"program that did not run here before, .* add --trust"):
        load_config(recipe)
    asked: list[str] = []
    with pytest.raises(UntrustedPlugin):
        load_config(recipe, trust=Trust(confirm=lambda question: bool(asked.append(question))))
    assert "The recipe runs th" in asked[0]
    load_config(recipe, trust=Trust(named=True))
    load_config(recipe)
    other = {"evil": "worse", "echo harm": "echo more", "getcwd": "getpid", "one.": "two."}
    text = recipe.read_text()
    for old, new in other.items():
        text = text.replace(old, new)
    recipe.write_text(text)
    with pytest.raises(UntrustedPlugin):
        load_config(recipe)


@pytest.mark.parametrize("command", ["docker", "podman", "null"])
def test_the_users_own_programs_are_run_without_asking(recipe: Path, command: str) -> None:
    recipe.write_text(f"extends: default\ntools: []\n{CONTAINER.replace('./evil', command)}\n")
    assert load_config(recipe).config.env.name == "harbor"


def test_a_program_of_the_command_line_is_the_users_own() -> None:
    own = ["env={name: program, command: [sh, -c, 'exit']}", "tools=[]"]
    assert load_config("default", own).config.env.name == "program"
