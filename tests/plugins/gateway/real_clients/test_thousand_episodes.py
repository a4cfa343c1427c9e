"""A thousand episodes of real clients, with a policy that says all that one may say: each sampled token is trained
exactly once, and none is encoded again unless the client rewrote its past."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from agent_r1_core import Task
from agent_r1_core.testing import Cue

from .clients import CLIENTS, Client
from .conftest import played

pytestmark = [pytest.mark.installed, pytest.mark.slow]

SAID = (
    "Tavelo.",
    "",
    " \n",
    "In  Tavelo \n",
    "Käse \N{CHEESE WEDGE}",
    "a\u2028b",
    "```json\n{}\n```",
    "<answer>x</answer>",
)
THOUGHT = ("", "", "<think>\nI look.\n</think>\n\n", "<think>\n\n</think>\n\n", "<think>never ends")
BROKEN = ("{", '{"name": "look_up"}', '["look_up"]', "look_up(Karimo)", '{"name": "look_up", "arguments": "{]"}')


def call(client: Client, chance: random.Random) -> str:
    """A call, of the client's tool or another, well formed or not."""
    if chance.random() < 0.15:
        return f"<tool_call>\n{chance.choice(BROKEN)}\n</tool_call>"
    if chance.random() < 0.4:
        return client.call()
    first = next(iter(client.arguments))
    arguments = chance.choice(
        [{first: "exit 3 # Kä\n se"}, {first: "true"}, {first: 1.0}, {}, {"x": "y", "deep": [None]}]
    )
    name = chance.choice([client.tool, client.tool, "no_tool"])
    written = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=chance.random() < 0.5)
    return f"<tool_call>\n{written}\n</tool_call>"


def script_for(client: Client) -> Callable[[Cue], str]:
    """Thinking, text and calls, as the episode and the number of the request decide; after four requests, no calls."""

    def script(cue: Cue) -> str:
        chance = random.Random(f"{cue.request.episode} {cue.turn}")
        calls = [call(client, chance) for _ in range(chance.choice([0, 0, 1, 1, 1, 2]) if cue.turn < 4 else 0)]
        return chance.choice(THOUGHT) + "\n".join([chance.choice(SAID), *calls])

    return script


@pytest.mark.parametrize("name", CLIENTS)
def test_every_sampled_token_is_trained_once_and_none_is_encoded_again(
    name: str, cheap_options_of: Callable[..., dict[str, Any]]
) -> None:
    client = CLIENTS[name]
    tasks = [Task(f"t{number}", "Where was Karimo born?", seed=number) for number in range(1, client.episodes + 1)]
    _, counts = played(script_for(client), tasks, 120 if client.from_npm else 256, **cheap_options_of(client))
    print(name, counts)
    assert counts.episodes == client.episodes
    assert counts.trained_once == counts.sampled > 0
    assert counts.trained_otherwise == 0
    assert bool(counts.encoded_again) is client.rewrites
