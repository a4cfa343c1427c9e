"""Tests of the environment `{{name}}`."""

import random

from agent_r1_core import Action, EnvServices
from agent_r1_core.testing import PluginContract, ToolEnvContract, make_task
from {{package}} import plugin
from {{package}}.env import {{class}}


class TestEnv(ToolEnvContract):
    component = {{class}}
    config = {"highest": 5}
    actions = tuple(f"<answer>{guess}</answer>" for guess in range(1, 6))


class TestPlugin(PluginContract):
    plugin = plugin


def test_hints_lead_to_the_secret():
    env = {{class}}({{class}}.Config(highest=100))
    env.reset(make_task())
    low, high = 1, 100
    for _ in range(7):
        guess = (low + high) // 2
        step = env.step(Action(f"<answer>{guess}</answer>"))
        if step.terminated:
            break
        higher = "higher" in step.observation.messages[0]["content"]
        low, high = (guess + 1, high) if higher else (low, guess - 1)
    assert step.terminated
    assert step.reward == 1.0


def test_every_episode_of_a_task_has_the_same_secret():
    episodes = [{{class}}(services=EnvServices(rng=random.Random(seed))) for seed in range(20)]
    for env in episodes:
        env.reset(make_task())
    guesses = [[env.step(Action(f"<answer>{guess}</answer>")).terminated for guess in range(1, 21)] for env in episodes]
    assert all(one == guesses[0] for one in guesses)
