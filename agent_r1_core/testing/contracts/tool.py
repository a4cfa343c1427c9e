"""Contract tests of a Tool."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ValidationError

from agent_r1_core.contracts.reward import reward_problem
from agent_r1_core.contracts.tasks import Passage
from agent_r1_core.contracts.tool import Tool, ToolContext, ToolResources
from agent_r1_core.contracts.toolset import Toolset
from agent_r1_core.errors import ToolError
from agent_r1_core.testing.contracts.base import ComponentContract, run, settle
from agent_r1_core.testing.trajectories import make_task

_NOT_GIVEN = object()


class ToolContract(ComponentContract):
    """Set `component` and `arguments`, and `member` of a toolset; `other`, `expected`, `reward` and `refused` where
    they make sense."""

    kind = "tool"
    arguments: ClassVar[Mapping[str, Any]] = {}
    """Arguments of a call that works, as a model would send them."""
    other: ClassVar[Mapping[str, Any] | None] = None
    """Arguments of another call that works; both are then made at once, too."""
    member: ClassVar[str] = ""
    """Of a toolset: the name of the tool that is called."""
    expected: ClassVar[Any] = _NOT_GIVEN
    """What that call returns."""
    reward: ClassVar[float | None] = None
    """What that call earns, for a tool that gives rewards; None: whatever its range allows."""
    refused: ClassVar[Mapping[str, Any] | None] = None
    """Valid arguments that the tool answers with a ToolError."""
    corpus: ClassVar[Iterable[Passage]] = ()
    """What a tool that searches finds under `resources.corpora["train"]` and `["eval"]`."""

    def resources(self, folder: Path) -> ToolResources:
        """What the tool opens with."""
        return ToolResources(str(folder), {name: lambda: list(self.corpus) for name in ("train", "eval")})

    def context(self) -> ToolContext:
        return ToolContext(episode="episode", turn=0, task=make_task(), rng=random.Random(0))

    @contextmanager
    def opened(self, folder: Path) -> Iterator[Tool]:
        tool = self.make()
        tool.open(self.resources(folder))
        try:
            yield self.acting(tool)
        finally:
            tool.close()

    def acting(self, tool: Tool) -> Tool:
        """The tool that a call is for: that of an opened toolset."""
        return {one.name: one for one in tool.members()}[self.member] if isinstance(tool, Toolset) else tool

    def call(self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext | None = None) -> Any:
        """Call the tool as an environment does: in the episode of the context, or in one of its own."""
        tool = self.acting(tool)

        async def episode(context: ToolContext, over: bool) -> Any:
            try:
                return await settle(tool.run(tool.Arguments.model_validate(dict(arguments)), context))
            finally:
                if over:
                    await settle(tool.release(context))

        return run(episode(context or self.context(), over=context is None))

    def test_its_schema_is_json_and_says_what_it_does(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as tool:
            schema = json.loads(json.dumps(tool.schema()))
        assert schema["type"] == "function"
        assert schema["function"]["name"] == (self.member or self.name)
        assert schema["function"]["description"].strip(), "the model is told nothing; give the tool a docstring"
        assert set(self.arguments) <= set(schema["function"]["parameters"].get("properties", {}))

    def test_an_unknown_argument_is_refused(self, tmp_path: Path) -> None:
        try:
            with self.opened(tmp_path) as tool:
                tool.Arguments.model_validate({**self.arguments, "an_argument_that_no_tool_has": 1})
        except ValidationError:
            return
        raise AssertionError("an unknown argument was silently accepted; make Arguments a subclass of ToolArguments")

    def test_a_call_answers_with_something_to_show(self, tmp_path: Path) -> None:
        context = self.context()
        with self.opened(tmp_path) as tool:
            answer = self.call(tool, self.arguments, context)
        assert isinstance(answer, (str, bytes)) or json.dumps(answer) is not None
        if tool.isolation == "process":
            json.dumps(context.state)  # it travels to the process and back
        if self.expected is not _NOT_GIVEN:
            assert answer == self.expected, f"answered {answer!r}, expected {self.expected!r}"

    def test_a_call_earns_what_its_range_allows(self, tmp_path: Path) -> None:
        context = self.context()
        with self.opened(tmp_path) as tool:
            self.call(tool, self.arguments, context)
        given = math.fsum(context.rewards)
        problem = reward_problem(given, tool.reward_range)
        assert problem is None, f"the tool {problem}"
        if self.reward is not None:
            assert math.isclose(given, self.reward, abs_tol=1e-6), f"the call earned {given}, expected {self.reward}"

    def test_calls_do_not_disturb_one_another(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as tool:
            first, second = (self.call(tool, self.arguments) for _ in range(2))
            assert first == second, (
                f"the same call in two episodes gave {first!r} and {second!r}; keep state in context"
            )
            if self.other is None or tool.isolation == "process":
                return  # there one call follows the other
            calls = [self.arguments, self.other] * 8
            alone = [first, self.call(tool, self.other)] * 8
            with ThreadPoolExecutor(len(calls)) as threads:
                at_once = list(threads.map(partial(self.call, tool), calls))
        assert at_once == alone, "calls that run at once answer otherwise; keep nothing of a call on the tool"

    def test_open_its_calls_and_close_may_run_in_different_threads(self, tmp_path: Path) -> None:
        tool = self.make()
        if tool.isolation == "process":
            return  # there they run in one thread
        steps: dict[str, Callable[[], Any]] = {
            "open()": partial(tool.open, self.resources(tmp_path)),
            "a call": partial(self.call, tool, self.arguments),
            "another call": partial(self.call, tool, self.arguments),
            "close()": tool.close,
        }
        with ExitStack() as threads:  # all at once, since a new one may get the identity of one that ended
            for step, function in steps.items():
                thread = threads.enter_context(ThreadPoolExecutor(1))
                try:
                    thread.submit(function).result()
                except Exception as error:
                    raise AssertionError(
                        f"{step} failed in another thread ({type(error).__name__}: {error}); make what belongs to a "
                        'thread in run(), or set isolation = "process", where open(), all calls and close() share one'
                    ) from error

    def test_a_refusal_is_a_sentence_for_the_model(self, tmp_path: Path) -> None:
        if self.refused is None:
            return
        with self.opened(tmp_path) as tool:
            try:
                outcome = f"the answer {self.call(tool, self.refused)!r}"
            except ToolError as error:
                outcome = str(error).strip() and "a ToolError"
        assert outcome == "a ToolError", (
            f"{dict(self.refused)} got {outcome or 'an empty ToolError'}; raise ToolError(reason)"
        )

    def test_it_closes_without_having_opened(self) -> None:
        self.make().close()
