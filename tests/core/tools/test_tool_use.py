"""A tool's own function, as a baseline calls its search, has the time-out of the tool's calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from agent_r1_core import Tool, ToolArguments, ToolContext
from agent_r1_core.errors import ToolError
from agent_r1_core.tools.tool_runner import ToolRunner


class Library(Tool):
    """Finds nothing."""

    name = "library"
    Arguments = ToolArguments

    def run(self, arguments: Any, context: ToolContext) -> str:
        return ""


def use(function: Callable[[], Any], timeout: float = 20) -> Any:
    return asyncio.run(ToolRunner({"library": Library()}, {"library": timeout}).use("library", function, str.upper))


def leave() -> str:
    raise SystemExit(3)


def decline() -> str:
    raise ToolError("the query is empty")


async def later() -> str:
    return "a page"


@pytest.mark.parametrize("function", [lambda: "a page", later])
def test_what_it_gives_is_converted(function: Callable[[], Any]) -> None:
    assert use(function) == "A PAGE"


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (leave, "tool library failed with RuntimeError: SystemExit was raised"),
        (lambda: None, "tool library failed with TypeError"),
        (decline, "^the query is empty$"),
    ],
)
def test_what_it_raises_is_one_sentence(function: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(ToolError, match=sentence):
        use(function)


def test_a_hung_function_is_given_up() -> None:
    release = threading.Event()
    with pytest.raises(ToolError, match=r"library did not answer within 0\.1 seconds; make it faster, or raise"):
        use(lambda: release.wait(20), 0.1)
    release.set()
