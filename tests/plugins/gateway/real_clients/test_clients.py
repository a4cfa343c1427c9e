"""Clients from their packages, unchanged: each calls its tool, answers, and trains; recipes of docs/programs.md play.

In a thousand episodes with a policy that says all that one may say, each sampled token is trained exactly once, and
none is encoded again unless the client rewrote its past.
"""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_r1_core import EndStatus, Task, train
from agent_r1_core.testing import Cue, tiny_tokenizer
from agent_r1_core.testing.model import TURN_END

from .clients import CLIENTS, Client
from .conftest import played

pytestmark = [pytest.mark.installed, pytest.mark.slow]

TASK = Task("q", 'Where was "Karimo" born?')
NOBODY = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_calls_its_tool_and_asks_nobody_else(name: str, options_of: Callable[..., dict[str, Any]]) -> None:
    client = CLIENTS[name]
    script = [f"<think>\nI look.\n</think>\n\nA moment.\n{client.call()}", "In Tavelo."]
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        address = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        proxies = NOBODY | dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), address)
        result = played(client, script, [TASK], **options_of(client, **proxies))
        proxy.setblocking(False)
        with pytest.raises(BlockingIOError):
            proxy.accept()
    (trajectory,) = result.trajectories
    assert (trajectory.status, trajectory.answer) == (EndStatus.TERMINATED, "In Tavelo.")
    assert [(call.name, call.arguments) for call in trajectory.turns[0].calls] == [(client.tool, client.arguments)]
    assert f" {client.tool}" in tiny_tokenizer().decode(trajectory.segments[0].ids).partition(TURN_END)[0]
    assert any(client.found in message["content"] for message in trajectory.turns[1].observation)
    assert len(trajectory.turns) == client.requests
    assert len(trajectory.segments) == (client.requests if client.rewrites else 1)


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
    most = 120 if client.from_npm else 256
    result = played(client, script_for(client), tasks, most, **cheap_options_of(client))
    assert len(result.trajectories) == client.episodes


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


@pytest.mark.parametrize("recipe", ["mine.yaml", "library.yaml", "coding.yaml"])
def test_a_recipe_plays(recipe: str, page: Path, client_python: Path, client_path: str, warm: Path) -> None:
    path = os.pathsep.join([str(page), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [str(warm), "-m", "agent_r1_cli", "rollout", recipe, "-n", "1", "--trust", "--json"]
    variables = os.environ | {"PATH": client_path, "PYTHONPATH": path}
    done = subprocess.run(command, cwd=page, env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    (episode,) = json.loads(done.stdout)["episodes"]
    assert episode["status"] in ("terminated", "truncated")
