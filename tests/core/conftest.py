"""A scripted engine, and tools that misbehave."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agent_r1_core import Engine, Generation, Request
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.contracts.engine import context_digest
from agent_r1_core.testing import tiny_tokenizer


class ScriptedEngine(Engine):
    """Answers with what `policy(text so far, request)` says."""

    def __init__(self, tokenizer: ChatTokenizer, policy: Callable[[str, Request], str]) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self.policy = policy
        self.requests: list[Request] = []
        self.batches: list[list[str]] = []
        self.released: list[str] = []

    async def generate(self, request: Request) -> Generation:
        await asyncio.sleep(0)
        self.requests.append(request)
        ids = self.tokenizer.encode(self.policy(self.tokenizer.decode(request.ids), request) + "<|im_end|>")
        kept = tuple(ids[: request.sampling.max_new_tokens])
        finish = "stop" if len(ids) == len(kept) else "length"
        return Generation(kept, (-0.5,) * len(kept), finish, context_digest(request.ids), version=7)

    async def generate_batch(self, requests: Sequence[Request]) -> list[Generation]:
        self.batches.append([request.episode for request in requests])
        return [await self.generate(request) for request in requests]

    async def release(self, episode: str) -> None:
        self.released.append(episode)


@pytest.fixture(scope="session")
def tokenizer() -> ChatTokenizer:
    return ChatTokenizer(tiny_tokenizer(), name="scripted")


@pytest.fixture
def engine(tokenizer: ChatTokenizer) -> Callable[[Callable[[str, Request], str]], Any]:
    """Makes a scripted engine."""
    return lambda policy: ScriptedEngine(tokenizer, policy)


@pytest.fixture(scope="session")
def _tool_module() -> ModuleType:
    path = Path(__file__).parent / "misbehaving_tools.py"
    spec = importlib.util.spec_from_file_location("agent_r1_misbehaving_tools", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tools(_tool_module: ModuleType) -> Iterator[ModuleType]:
    """The module of tools; hung threads end with the test."""
    _tool_module.RELEASE.clear()
    yield _tool_module
    _tool_module.RELEASE.set()
