"""The tool `python`, in every sandbox that there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from agent_r1_python.python_tool import Python

from agent_r1_core import ToolContext, ToolError, ToolResources
from agent_r1_core.sandbox import BACKENDS
from agent_r1_core.testing import ToolContract, make_task

Run = Callable[..., str]


@pytest.fixture(params=sorted(BACKENDS))
def sandbox(request: Any) -> str:
    return str(request.param)


@pytest.fixture
def run(sandbox: str) -> Iterator[Run]:
    """Runs code in an episode of the tool; options as keywords of the first call."""
    tools: list[Python] = []
    episodes: dict[str, ToolContext] = {}

    def call(code: str, episode: str = "one", **options: Any) -> str:
        if not tools:
            tools.append(Python(Python.Config(sandbox=sandbox, **options)))
            tools[0].open(ToolResources(""))
        context = episodes.setdefault(episode, ToolContext(episode, 0, make_task(), None))  # type: ignore[arg-type]
        try:
            return str(tools[0].run(Python.Arguments(code=code), context))
        except ToolError as error:
            return f"Error: {error}"

    yield call
    for tool in tools:
        for context in episodes.values():
            tool.release(context)
        assert not tool._held


class TestPython(ToolContract):
    component = Python
    arguments: ClassVar = {"code": "x = 2**100\nx % 1000"}
    expected = "376"


PRINTED = {
    "'a' * 3": "'aaa'",
    "x = 1": "(no output)",
    "None": "(no output)",
    "print(1)\nprint(2)\n3": "1\n2\n3",
    "for i in range(2): print(i)": "0\n1",
    "import dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int\nP(3)": "P(x=3)",
    "def f():\n    return 1 / 0\nf()": """Traceback (most recent call last):
  File "<input 7>", line 3, in <module>
    f()
  File "<input 7>", line 2, in f
    return 1 / 0
ZeroDivisionError: division by zero""",
    "1 +": '  File "<input 8>", line 1\n    1 +\n       ^\nSyntaxError: invalid syntax',
    "input()": """Traceback (most recent call last):
  File "<input 9>", line 1, in <module>
    input()
EOFError: EOF when reading a line""",
}


def test_the_answer_is_what_a_prompt_would_print_and_variables_belong_to_one_episode(run: Run) -> None:
    assert {code: run(code) for code in PRINTED} == PRINTED
    assert run("x = 20; 1 / 0").endswith("division by zero")
    assert run("x + 22") == "42"
    assert run("_ + 1") == "43"
    chance = "import random; random.random(), hash('a'), list({'a', 'b', 'c'})"
    assert run(chance) == run(chance, episode="two"), "LAW 11"
    assert run("x", episode="two").endswith("NameError: name 'x' is not defined")


def test_what_takes_too_long_or_ends_costs_the_state_and_is_told(run: Run) -> None:
    def in_time(code: str) -> str:
        while "it took longer" in (said := run(code)):  # on a busy machine
            continue
        return said

    run("x = 1", seconds=1)
    gone = "the interpreter is a new one, and all variables are gone"
    assert run("while True: pass") == f"Error: it took longer than 1 seconds and was stopped; {gone}"
    assert in_time("import os; os._exit(0)").endswith(gone)
    assert in_time("x").endswith("NameError: name 'x' is not defined")
    assert in_time("raise SystemExit(3)").endswith("SystemExit: 3")


def test_a_flood_of_output_is_cut(run: Run) -> None:
    assert run("print('x' * 10**7)", output=100) == "x" * 100 + "\n[9999901 more characters]"
    assert run("import os; os.write(1, b'x' * 10**6)") == "1000000"
