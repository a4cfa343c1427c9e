"""What the tests of plugins share: contracts under several options, coroutines as tests, and files of records."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A contract class that lists options under `variants` is tested with each of them as its `config`; one that lists
    `components`, with each of these."""
    for name in ("variants", "components"):
        if values := getattr(metafunc.cls, name, ()):
            metafunc.parametrize(
                f"_{name}", values, ids=lambda value: getattr(value, "__name__", str(value)), indirect=True
            )


@pytest.fixture(autouse=True)
def _variants(request: pytest.FixtureRequest) -> None:
    if hasattr(request, "param"):
        request.instance.config = request.param
        request.instance.masked = request.param.get("loss_mask", True) and request.param.get("advantage_mask", True)


@pytest.fixture(autouse=True)
def _components(request: pytest.FixtureRequest) -> None:
    if hasattr(request, "param"):
        request.cls.component = request.param


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine has an event loop of its own, and five minutes."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**given), 300))
    return True


@pytest.fixture
def records(tmp_path: Path) -> Callable[..., str]:
    """Writes records in the format of the file's name, or a text as it is; gives the path."""

    def write(name: str, *content: Any) -> str:
        path = tmp_path / name
        if content and isinstance(content[0], str):
            (text,) = content
        else:
            text = json.dumps(content) if path.suffix == ".json" else "\n".join(map(json.dumps, content))
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


@pytest.fixture(autouse=True)
def _file(request: pytest.FixtureRequest) -> None:
    """A contract class with a `file`, its name and its content, tests a source of that file."""
    if file := getattr(request.cls, "file", ()):
        request.instance.config = {"path": request.getfixturevalue("records")(*file), **request.cls.config}


@pytest.fixture
def source(records: Callable[..., str]) -> Callable[..., Any]:
    """`source(Class, name, *content, **options)`: a task source of a file."""
    return lambda cls, *file, **options: cls(cls.Config(path=records(*file), **options))


@pytest.fixture(scope="session")
def logprobs_of() -> Callable[..., list[float]]:
    """The model's own log-probs of `ids` after `context`, by one full forward pass."""
    import torch

    def score(module: Any, context: tuple[int, ...], ids: tuple[int, ...], temperature: float = 1.0) -> list[float]:
        with torch.no_grad():
            logits = module(torch.tensor([[*context, *ids]]), use_cache=False).logits[0, len(context) - 1 : -1]
        table = torch.log_softmax(logits.float() / temperature, -1)
        return table.gather(1, torch.tensor(ids)[:, None])[:, 0].tolist()

    return score


@pytest.fixture(scope="session")
def agree(logprobs_of: Callable[..., list[float]]) -> Callable[..., None]:
    """`agree(module, contexts, answers)`: what an engine generated has the log-probs of the module."""
    from agent_r1_core.contracts.engine import context_digest

    def check(module: Any, contexts: Any, answers: Any, temperature: float = 1.0) -> None:
        for context, answer in zip(contexts, answers, strict=True):
            assert answer.context == context_digest(context), "it was conditioned on other ids"
            assert answer.logprobs == pytest.approx(logprobs_of(module, context, answer.ids, temperature), abs=1e-4)

    return check


@pytest.fixture
def printed_everywhere() -> Callable[[str], str]:
    """What a program prints in a process of its own, whatever the seed of its hashes."""

    def run(code: str) -> str:
        surroundings = ({**os.environ, "PYTHONHASHSEED": seed} for seed in "12")
        command = [sys.executable, "-c", code]
        (printed,) = {subprocess.check_output(command, env=env, text=True) for env in surroundings}
        return printed

    return run


def tool_context(episode: str) -> Any:
    from agent_r1_core import Task, ToolContext

    return ToolContext(episode, 0, Task("task", "?"), random.Random(0))


@asynccontextmanager
async def opened(toolset_class: Any, timeout: float = 30.0, **options: Any) -> AsyncIterator[Any]:
    """`call(tool, episode="episode", **arguments)` of a toolset's tools, which `call.runner` runs."""
    from agent_r1_core import ToolCall, ToolResources, ToolResult
    from agent_r1_core.tools.tool_runner import ToolRunner

    toolset = toolset_class(toolset_class.Config.model_validate(options))
    toolset.name = "tools"
    runner = ToolRunner({"tools": toolset}, {"tools": timeout})
    await runner.start(ToolResources(""))

    def call(tool: str, episode: str = "episode", **arguments: Any) -> Awaitable[ToolResult]:
        return runner.call(ToolCall(tool, arguments), tool_context(episode))

    call.runner = runner  # type: ignore[attr-defined]
    try:
        yield call
    finally:
        await runner.close()


@pytest.fixture(scope="session")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of environments that tests make; `AGENT_R1_TEST_CLIENTS` names one that outlasts the run."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = Path(os.environ.get("AGENT_R1_TEST_CLIENTS", shared / "clients"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
