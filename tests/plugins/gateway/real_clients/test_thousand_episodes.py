"""A thousand episodes of real clients with a policy that says all that a policy may say: of every sampled token, trained
exactly once, and none encoded again."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from agent_r1_core import Task
from agent_r1_core.testing import Cue

from .conftest import PROGRAMS, many, played
from .test_python_clients import CLIENTS

pytestmark = [pytest.mark.installed, pytest.mark.slow]

EPISODES = 1000 // len(CLIENTS)
SAID = ("Tavelo.", "", " \n", "In  Tavelo \n", "Käse \N{CHEESE WEDGE}", "a\u2028b", "```json\n{}\n```", "<answer>x</answer>")
BROKEN = ("{", '{"name": "look_up"}', '["look_up"]', "look_up(Karimo)", '{"name": "look_up", "arguments": "{]"}')


def call(random: random.Random) -> str:
    """A call, of the tool or another, well formed or not."""
    if random.random() < 0.15:
        return f"<tool_call>\n{random.choice(BROKEN)}\n</tool_call>"
    name = random.choice(["look_up"] * 9 + ["no_tool"])
    arguments = random.choice([{"name": "Karimo"}, {"name": "Kä\n se"}, {"name": 1.0}, {}, {"nme": "x", "deep": [None]}])
    written = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=random.random() < 0.5)
    return f"<tool_call>\n{written}\n</tool_call>"


def script(cue: Cue) -> str:
    """Thinking, text and calls, as the episode and the number of the request decide."""
    chance = random.Random(f"{cue.request.episode} {cue.turn}")
    thinking = chance.choice(["", "", "<think>\nI look.\n</think>\n\n", "<think>\n\n</think>\n\n", "<think>never ends"])
    calls = [call(chance) for _ in range(chance.choice([0, 0, 1, 1, 1, 2]))]
    return thinking + "\n".join([chance.choice(SAID), *calls])


@pytest.mark.parametrize("client", CLIENTS)
def test_every_sampled_token_is_trained_once_and_none_is_encoded_again(
    client: str, client_python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, *arguments = CLIENTS[client]
    tasks = [Task(f"t{number}", "Where was Karimo born?", seed=number) for number in range(1, EPISODES + 1)]
    with many([client_python, PROGRAMS / program, *arguments], tmp_path) as run:
        monkeypatch.setattr("agent_r1_gateway.env.function_named", lambda name: run)
        result, counts = played(script, tasks, function="a:client")
    print(client, counts)
    assert counts.episodes == EPISODES
    assert counts.trained_once == counts.sampled > 0
    assert counts.trained_otherwise == 0
    assert counts.encoded_again == 0
