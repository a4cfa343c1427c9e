"""Clients from their packages, in environments of their own, which all tests of a run share."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from functools import partial
from multiprocessing import connection
from pathlib import Path
from typing import Any

import pytest
from agent_r1_gateway.env import ProgramEnv
from agent_r1_gateway.testing import play_programs
from agent_r1_tool_formats.hermes import Hermes
from made_environments import install, made, python_with

from agent_r1_core import Sampling, Task, Trajectory
from agent_r1_core.assembly.model_source import BUNDLED
from agent_r1_core.contracts.engine import Generation, Request
from agent_r1_core.rollout import RolloutResult
from agent_r1_core.testing import ScriptedPolicy

from .clients import Client

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
FILE = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)
POSITIONS = 32_768
"""Coding agents begin with up to 30,000 bytes; the bundled model is made for 2,048 tokens."""


@pytest.fixture(scope="session")
def client_python(environments: Path) -> Path:
    """A Python with the clients, and without agent-r1."""
    return python_with(HERE / "requirements.txt", environments / "python")


@pytest.fixture(scope="session")
def client_path(environments: Path) -> str:
    """A search path with the coding agents; without npm a test is skipped, and fails in CI."""
    if shutil.which("npm") is None:
        reason = "there is no npm to install the coding agents with; install Node.js"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)

    def make(folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        shutil.copy(HERE / "package.json", folder)
        quiet = ("--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error")
        install("npm", "install", "--prefix", folder, *quiet)

    binaries = made(environments / "npm", HERE / "package.json", make) / "node_modules" / ".bin"
    return f"{binaries}{os.pathsep}{os.environ['PATH']}"


@pytest.fixture(scope="session")
def page(root: Path, environments: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of docs/programs.md, and the bundled model, which takes longer contexts there."""
    folder = tmp_path_factory.mktemp("page")
    python = environments / "python" / "bin" / "python"
    for name, text in FILE.findall((root / "docs" / "programs.md").read_text(encoding="utf-8")):
        text = text.replace("/path/to/its/python", str(python)).replace("/path/to", str(folder))
        (folder / name).write_text(text, encoding="utf-8")
    shutil.copytree(BUNDLED / "tiny", folder / "model")
    config = folder / "model" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"max_position_embeddings": POSITIONS}))
    return folder


@pytest.fixture
def options_of(request: pytest.FixtureRequest) -> Callable[..., dict[str, Any]]:
    """The options of the environment `program` with which a client plays; its variables come as keywords."""

    def options(client: Client, **variables: str) -> dict[str, Any]:
        program, *rest = client.words
        if not client.from_npm:
            command = [str(request.getfixturevalue("client_python")), str(PROGRAMS / program), *rest]
            return {"command": command, "environment": variables}
        command = ["sh", str(request.getfixturevalue("page") / program), "{prompt}", *rest]
        path = {"PATH": request.getfixturevalue("client_path")}
        return {"command": command, "environment": path | variables, "max_tokens": POSITIONS}

    return options


@pytest.fixture
def cheap_options_of(
    options_of: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Client], dict[str, Any]]]:
    """As `options_of`; but one process plays all episodes of a client in Python."""
    with ExitStack() as running:

        def options(client: Client) -> dict[str, Any]:
            given = options_of(client)
            if client.from_npm:
                return given
            run = running.enter_context(many(given["command"], tmp_path))
            monkeypatch.setattr("agent_r1_gateway.env.function_named", lambda name: run)
            return {"function": "a:client", "workers": 0}

        yield options


@contextmanager
def many(command: Sequence[object], folder: Path) -> Iterator[Callable[[Any], Any]]:
    """A function that lets one process of a program play each episode, in a thread of its own."""
    socket = str(folder / "socket")

    def run(episode: Any) -> Any:
        given = asdict(replace(episode, reward=None))
        del given["reward"]
        with connection.Client(socket, "AF_UNIX") as program:
            program.send(given)
            answer, failure = program.recv()
        assert failure is None, failure
        return {"answer": answer}

    words = [str(word) for word in (*command, "--listen", socket)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield run
        finally:
            process.kill()


class RecordingPolicy(ScriptedPolicy):
    """A scripted policy that keeps what it was asked and what it sampled."""

    def __init__(self, script: object) -> None:
        super().__init__(script)  # type: ignore[arg-type]
        self.sampled: dict[str, list[tuple[Request, Generation]]] = defaultdict(list)
        """By episode, in order."""

    async def generate(self, request: Request) -> Generation:
        """As the script says."""
        generation = await super().generate(request)
        self.sampled[request.episode].append((request, generation))
        return generation


def check_exact(trajectory: Trajectory, sampled: list[tuple[Request, Generation]]) -> None:
    """See that each sampled token is trained once, behind the very ids that the policy saw, and nothing else is."""
    trained: list[list[int]] = [[] for _ in trajectory.segments]
    for turn, (request, generation) in zip(trajectory.turns, sampled, strict=True):
        segment = trajectory.segments[turn.segment]
        assert tuple(segment.ids[: turn.start]) == request.ids, f"turn {turn.index}: another context than was seen"
        assert tuple(segment.ids[turn.start : turn.stop]) == generation.ids, f"turn {turn.index}: other ids"
        assert segment.logprobs[turn.start : turn.stop] == list(generation.logprobs)
        trained[turn.segment] += range(turn.start, turn.stop)
    for claimed, segment in zip(trained, trajectory.segments, strict=True):
        assert sorted(claimed) == [at for at, bit in enumerate(segment.mask) if bit], "not trained once, or too much"


def played(client: Client, script: Any, tasks: Sequence[Task], most: int = 256, **options: Any) -> RolloutResult:
    """What a client plays; a reply has `most` tokens, and `options` are those of the environment.

    Raises:
        AssertionError: an episode failed, something else is trained than was sampled, or a message of the assistant was
            encoded again, though the client does not rewrite its past.
    """
    config = ProgramEnv.Config(**options)
    policy = RecordingPolicy(script)
    result = play_programs(
        partial(ProgramEnv, config), policy, tasks, Hermes(), max_episodes=8, sampling=Sampling(max_new_tokens=most)
    )
    assert not result.dropped, result.dropped[0].reason
    for trajectory in result.trajectories:
        (key,) = (key for key in policy.sampled if key.rpartition("/")[0].endswith(trajectory.id))
        check_exact(trajectory, policy.sampled.pop(key))
    assert not policy.sampled, "tokens were sampled and left out"
    turns = [turn for trajectory in result.trajectories for turn in trajectory.turns]
    assert any(message["role"] == "assistant" for turn in turns for message in turn.observation) is client.rewrites
    return result
