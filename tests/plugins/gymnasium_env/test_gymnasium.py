"""Any environment of gymnasium as text, and the documented recipe, whose budgets let a good policy succeed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import util
from pathlib import Path

import pytest
from agent_r1_gymnasium import env as module
from agent_r1_gymnasium.env import Gymnasium, plain_text
from pydantic import ValidationError

from agent_r1_core import Action, EpisodeError

from .conftest import answer, begun, text_of

CLIFF = {"id": "CliffWalking-v1", "actions": {"up": 0, "right": 1, "down": 2, "left": 3}}


def test_the_first_message_shows_the_state_and_a_turn_moves_and_names_it() -> None:
    text = text_of(begun(Gymnasium, **CLIFF).first)
    assert text.startswith("Actions: up, right, down, left. Write it as <answer>up</answer>.\n")
    assert text.endswith("x  C  C  C  C  C  C  C  C  C  C  T")
    assert text_of(begun(Gymnasium, **CLIFF, rules="").first).startswith("o  o")
    env = begun(Gymnasium, **CLIFF)
    there, back = answer(env, "up"), answer(env, " DOWN ")
    assert (there.reward, there.info, there.errors) == (-1.0, {"moves": 1, "illegal": 0}, [])
    assert there.success is None, "the environment says nothing of it"
    assert there.observation.state_key not in (None, env.first.state_key)
    assert back.observation.state_key == env.first.state_key


def test_several_actions_add_up_to_the_first_illegal_one_and_thinking_is_not_acting() -> None:
    env = begun(Gymnasium, **CLIFF, actions_per_turn=4, illegal_penalty=0.5)
    assert answer(env, "up, right || right").info == {"moves": 3, "illegal": 0}
    step = answer(env, "left; fly\nleft")
    assert (step.info, step.reward) == ({"moves": 1, "illegal": 2}, -1.5)
    assert step.errors == ["'fly' is no action; the actions are up, right, down, left"]
    assert text_of(step.observation).startswith(f"Error: {step.errors[0]}.\n")
    assert answer(env, "up, up, up, up, up").errors == ["5 actions are too many; a turn has at most 4"]
    env = begun(Gymnasium, **CLIFF)
    assert env.step(Action("<think><answer>up</answer></think>")).errors
    step = env.step(Action("<answer>fly</answer><answer>up</answer>"))
    assert step.info["moves"] == 1


@pytest.mark.parametrize(("text", "cut", "said"), [("up", False, "no action"), ("<answer>u", True, "cut off")])
def test_an_action_that_cannot_be_read_moves_nothing_and_is_told(text: str, cut: bool, said: str) -> None:
    env = begun(Gymnasium, **CLIFF)
    step = env.step(Action(text, cut=cut))
    assert said in text_of(step.observation)
    assert (step.info, step.reward, len(step.errors)) == ({"moves": 0, "illegal": 1}, 0.0, 1)
    assert step.observation.state_key == env.first.state_key


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((0, 1.0, "False", False, {}), "terminated='False'; use True or False"),
        ((0, 1.0, False, 0, {}), "truncated=0; use True or False"),
        ((0, 1.0, False, False, {"is_success": "no"}), "is_success='no'; use True or False"),
        ((0, "0.5", False, False, {}), "gave the reward '0.5'; use a number"),
        ((0, None, False, False, {}), "gave the reward None; use a number"),
        ((0, 1.0, False, {}), "return observation, reward, terminated, truncated, info"),
    ],
)
def test_what_a_step_may_not_give_is_named(monkeypatch, given: tuple, said: str) -> None:
    env = begun(Gymnasium, **CLIFF)
    monkeypatch.setattr("gymnasium.envs.toy_text.cliffwalking.CliffWalkingEnv.step", lambda self, action: given)
    with pytest.raises(EpisodeError, match="CliffWalking-v1.*" + re.escape(said)):
        answer(env, "up")


def test_an_end_of_the_world_and_a_time_limit_are_two_things() -> None:
    limited = begun(Gymnasium, **CLIFF, max_steps=2, actions_per_turn=5)
    step = answer(limited, "up, up, up, up")
    assert (step.truncated, step.terminated, step.info["moves"]) == (True, False, 2)
    goal = begun(Gymnasium, **CLIFF, actions_per_turn=20, max_steps=13, success_reward=-1)
    step = answer(goal, ", ".join(["up", *["right"] * 11, "down", "up"]))
    assert (step.truncated, step.terminated, step.success) == (False, True, True)
    assert step.observation.messages == []
    assert answer(begun(Gymnasium, **CLIFF, success_reward=-1), "up").success is False, "it is not over"


def test_a_group_meets_one_start_and_different_luck() -> None:
    """`reset(seed)` draws the first cards from the task; the next ones are the episode's own."""
    blackjack = {"id": "Blackjack-v1", "text": "observation", "rules": ""}
    low = next(seed for seed in range(99) if text_of(begun(Gymnasium, seed=seed, **blackjack).first)[:2] == "(6")
    hands = [begun(Gymnasium, seed=low, luck=luck, **blackjack) for luck in range(12)]
    assert len({text_of(env.first) for env in hands}) == 1
    drawn = [answer(env, "1") for env in hands]
    assert len({text_of(step.observation) if step.observation.messages else "bust" for step in drawn}) > 2
    assert len({text_of(begun(Gymnasium, seed=seed, **blackjack).first) for seed in range(12)}) > 2


def test_colours_that_carry_meaning_become_words() -> None:
    assert plain_text("\x1b[41mS\x1b[0mFF\n") == "[red S]FF"
    taxi = text_of(begun(Gymnasium, id="Taxi-v4", rules="").first)
    assert "[yellow" in taxi
    assert "\x1b" not in taxi
    hand = text_of(begun(Gymnasium, id="Blackjack-v1", text="observation", rules="").first)
    assert len([int(part) for part in hand[1:-1].split(",")]) == 3, "without the types of numpy"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"id": "Taxi-v3"}, "cannot make Taxi-v3"),
        ({"id": "Blackjack-v1"}, "set env.text=observation"),
        ({"id": "Pendulum-v1", "text": "observation"}, "only discrete ones"),
        ({"id": "CliffWalking-v1", "actions": {"jump": 4}}, "no action 4 for 'jump'"),
    ],
)
def test_what_cannot_be_played_says_why(options: dict, sentence: str) -> None:
    with pytest.raises(EpisodeError, match=sentence):
        begun(Gymnasium, **options)


AT_ONCE = """
import threading
from concurrent.futures import ThreadPoolExecutor
from agent_r1_core import Task
from agent_r1_gymnasium.env import Gymnasium
together = threading.Barrier(16)
def play(name):
    together.wait()
    Gymnasium(Gymnasium.Config(id=name)).reset(Task("t", "", seed=1))
with ThreadPoolExecutor(16) as threads:
    list(threads.map(play, ["Taxi-v4", "CliffWalking-v1", "FrozenLake-v1", "FrozenLake8x8-v1"] * 4))
"""


def test_the_first_episodes_may_begin_at_once_in_threads() -> None:
    """Imports by several threads would find modules that are half done."""
    done = subprocess.run([sys.executable, "-c", AT_ONCE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_recipe_may_not_name_a_module_to_import_and_a_missing_package_is_named(monkeypatch):
    with pytest.raises(ValidationError, match="register the environment in a plugin file"):
        Gymnasium.Config(id="os:Toy-v0")
    with pytest.raises(ValidationError, match="take lower case"):
        Gymnasium.Config(id="Toy-v0", actions={"Go up": 1})
    assert Gymnasium.unavailable(Gymnasium.Config(id="Taxi-v4")) is None
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == "gymnasium" else util.find_spec(name))
    assert "pip install 'agent-r1[gymnasium]'" in Gymnasium.unavailable(Gymnasium.Config(id="Taxi-v4"))


def test_the_best_policy_reaches_the_goal_of_the_cliff_within_the_budgets(agent_r1, root: Path, tmp_path: Path) -> None:
    text = (root / "docs/worlds.md").read_text(encoding="utf-8")
    found = re.search(r"<!-- file: cliff\.yaml -->\n```yaml\n(.*?)```", text, re.DOTALL)
    assert found is not None
    recipe, script = tmp_path / "cliff.yaml", tmp_path / "actions.txt"
    recipe.write_text(found[1])
    for actions, end in (
        (["up", *["right"] * 11, "down"], ("terminated", "env", True, 13)),
        (["up", "down"] * 10, ("truncated", "max_turns", False, 20)),
    ):
        script.write_text("\n\n".join(f"<answer>{action}</answer>" for action in actions))
        played = json.loads(agent_r1("play", recipe, "--script", script, "--json").stdout)["episode"]
        last = played["turns"][-1]
        assert (played["status"], played["reason"], last["success"], len(played["turns"])) == end
