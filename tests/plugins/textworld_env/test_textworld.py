"""Games of TextWorld, in a Python of its own: made by seed, won by their walkthrough, and apart from each other."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pytest
from agent_r1_textworld.env import TextWorld, helper
from made_environments import python_with

from agent_r1_core import Action, EnvServices, EpisodeError, Task, train
from agent_r1_core.testing import ToolEnvContract

HERE = Path(__file__).parent
OWN = ("--no-binary", "jericho")
"""The newest has no wheel."""
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def python(environments: Path) -> Iterator[str]:
    made = str(python_with(HERE / "requirements.txt", environments / "textworld", "--no-deps", *OWN))
    TestTextWorld.config = {"python": made}
    yield made
    helper(made).close()


@pytest.mark.usefixtures("python")
class TestTextWorld(ToolEnvContract):
    component = TextWorld
    config: ClassVar[dict[str, Any]]
    task = Task("seed.3", "Begin.", seed=3)
    actions = ("<answer>look</answer>", "nothing", "<answer>fly</answer>", "<answer>take coin</answer>")


def play(python: str, seed: int, *commands: str) -> list[Any]:
    """What is read first, and what each command is worth."""
    with closing(TextWorld(TextWorld.Config(python=python), EnvServices())) as env:
        told: list[Any] = [env.reset(Task(f"seed.{seed}", "Begin.", seed=seed)).messages[0]["content"]]
        for command in commands:
            step = env.step(Action(f"<answer>{command}</answer>"))
            told.append((step.reward, step.success, step.info["illegal"], step.observation.messages))
        return told


def test_games_are_their_seeds_and_as_if_each_were_alone(python: str) -> None:
    commands = ("look", "fly away", "take coin")
    alone = [play(python, seed, *commands) for seed in (3, 4)]
    assert alone[0][0] != alone[1][0]
    for begun, look, fly, took in alone:
        assert "TextWorld!" in begun
        assert "Commands: examine coin, inventory, look, take coin" in begun
        assert [one[:3] for one in (look, fly, took)] == [(0, False, 0), (0, False, 1), (1.0, True, 0)]
        assert fly[3][0]["content"].startswith("That's not a verb I recognise.\nCommands:")
    with ThreadPoolExecutor(16) as threads:
        assert list(threads.map(lambda number: play(python, 3 + number % 2, *commands), range(64))) == alone * 32


@pytest.mark.parametrize("command", ["\x0e", "go we\ufffdth", "x" * 101, "Save", "look. restore", "transcription"])
def test_what_ends_or_hangs_the_interpreter_or_writes_files_never_reaches_it(python: str, command: str) -> None:
    _, (reward, _, illegal, read), after = play(python, 3, command, "take coin")
    assert (reward, illegal) == (0, 1)
    assert read[0]["content"].startswith("Error: no game reads this command")
    assert after[:2] == (1.0, True)


def test_a_game_that_cannot_be_made_or_that_ended_fails_its_episode(python: str) -> None:
    with pytest.raises(EpisodeError, match=r"cannot make the game of seed 3: .*; look at env.game and env.options"):
        TextWorld(TextWorld.Config(python=python, options={"level": 301}), EnvServices()).reset(TestTextWorld.task)
    env = TextWorld(TextWorld.Config(python=python), EnvServices())
    env.reset(TestTextWorld.task)
    helper(python).close()
    with pytest.raises(EpisodeError, match="textworld cannot play on"):
        env.step(Action("<answer>look</answer>"))
    env.close()


def test_the_recipe_trains(python: str, tmp_path: Path) -> None:
    keys = [f"env.python={python}", f"run.dir={tmp_path}", "evaluation.at_end=false", "env.options.level=1"]
    keys += ["tasks.train.first=3", "tasks.train.size=2", "training.tasks_per_step=2"]
    run = train("textworld", [*keys, "training.steps=2", "training.samples_per_task=4"])
    assert [step["rollout/failed"] for step in run.metrics()] == [0, 0]
