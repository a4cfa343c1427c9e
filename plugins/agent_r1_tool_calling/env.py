"""The environment `tool_calling`: reads calls in an action, runs the tools, shows their results, finds the answer.

An action that calls a tool is not final. An answer next to a call is refused, since the model wrote it before it read
the result.

What the model has learnt from its tools names the state (`state_key`): the set of results that it was shown, in any
order, without errors. Calls that teach nothing new leave the state as it was.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Literal

from pydantic import Field

from agent_r1_core import (
    Action,
    CallRecord,
    ComponentConfig,
    EnvConfig,
    EnvServices,
    EpisodeError,
    Markup,
    Message,
    Observation,
    Step,
    Task,
    ToolCall,
    ToolEnv,
    ToolFormat,
    ToolFormatBlock,
    ToolResult,
)
from agent_r1_core.chat import clip_text, split_tagged, without_thinking

AnswerStyle = Literal["tags", "boxed", "plain"]

INSTRUCTIONS: dict[AnswerStyle, str] = {
    "tags": "When you know the answer, write it, as short as possible, between <answer> and </answer>.",
    "boxed": "When you know the answer, write it, as short as possible, as \\boxed{answer}.",
    "plain": "When you know the answer, reply with the answer alone, as short as possible.",
}
"""The sentence of the default system prompt for each style."""

_BOXED = "\\boxed{"
_BRACES = re.compile(r"\\.|[{}]", re.DOTALL)
"""Braces, and escaped characters, which are no braces."""


def find_answer(text: str, style: AnswerStyle) -> str | None:
    """The last answer in an action, stripped; None if there is none. Thinking is not searched."""
    visible = without_thinking(text)
    if style == "plain":
        return visible.strip() or None
    if style == "boxed":
        return _last_boxed(visible)
    answers, _ = split_tagged(visible, "answer")
    return answers[-1].strip() if answers else None


def _last_boxed(text: str) -> str | None:
    """The content of the last complete box; braces nest, and `\\{` is a character. Reads the text once."""
    answer: tuple[int, int] | None = None
    opened: list[int | None] = []  # where the content of each open box begins; None for any other open brace
    for match in _BRACES.finditer(text):
        position = match.start()
        if match[0] == "{":
            opened.append(position + 1 if text.endswith(_BOXED, 0, position + 1) else None)
        elif match[0] == "}" and opened:
            begin = opened.pop()
            if begin is not None:
                answer = begin, position
    return None if answer is None else text[slice(*answer)].strip()


class ToolCallingConfig(EnvConfig):
    """Options of `tool_calling`."""

    format: ToolFormatBlock = ToolFormatBlock(name="hermes")
    """How calls are written: a tool format by name, or `{name: ..., option: value}`."""
    answer: AnswerStyle = "tags"
    """How the final answer is written: between `<answer>` tags, in `\\boxed{}`, or as the plain text of an action
    without a call."""
    system_prompt: str | None = None
    """null: a default that tells the model how to call tools and how to answer; empty: no system prompt."""
    max_tool_characters: int = Field(2000, ge=1, le=100_000)
    """Most characters of one tool result; the rest is cut and marked."""
    max_calls: int = Field(8, ge=1)
    """Most calls of one action that are run, and most of its errors that are shown; an error observation counts the
    further ones."""


class ToolCalling(ToolEnv):
    """Questions answered with tools."""

    Config = ToolCallingConfig
    gives_rewards = False

    def __init__(self, config: ComponentConfig | None = None, services: EnvServices | None = None) -> None:
        super().__init__(config, services)
        self._schemas = [tool.schema() for tool in self.services.tools.values()]
        self._learnt: set[tuple[str, str]] = set()
        """Tools' names, and results that the model was shown."""
        if self.services.tool_format is not None:
            self.services.tool_format.bind(self._schemas)

    def tool_schemas(self) -> list[dict[str, Any]]:
        """The tools' schemas if the format passes them to the chat template."""
        return self._schemas if self._format().template_tools else []

    def instructions(self) -> str:
        """How to call and how to answer: the default system prompt."""
        return self._format().system_prompt(self._schemas, Markup(INSTRUCTIONS[self.config.answer]))

    async def reset(self, task: Task) -> Observation:
        """The system prompt, if there is one, and the task's own messages."""
        messages: list[Message] = (
            [{"role": "user", "content": task.prompt}] if isinstance(task.prompt, str) else list(task.prompt)
        )
        prompt = self.config.system_prompt
        system = self.instructions() if prompt is None else Markup(prompt)
        if messages and messages[0]["role"] == "system":
            system = Markup("\n\n").join(text for text in (system, messages[0]["content"]) if text)
            messages = messages[1:]
        return self._observation([{"role": "system", "content": system}, *messages] if system else messages)

    async def step(self, action: Action) -> Step:
        """Run the action's calls, end with its answer, or say what was wrong with it."""
        parsed = self._format().parse(action.whole)
        said = parsed.text if parsed.calls and parsed.text is not None else action.whole
        answer = None if self.config.answer == "plain" and action.cut else find_answer(said, self.config.answer)
        if not parsed.calls and not parsed.errors:
            if answer is not None:
                return Step(terminated=True, answer=answer)
            error = _CUT if action.cut else _NEITHER[self.config.answer]
            message: Message = {"role": "user", "content": "Error: " + error + "."}
            return Step(self._observation([message]), errors=[error])
        errors = list(parsed.errors)
        if answer is not None and self.config.answer != "plain":
            errors.append("an answer beside a tool call is not read; answer after its result")
        most = self.config.max_calls
        if len(parsed.calls) > most:
            errors.append(f"{len(parsed.calls)} calls at once are too many; only the first {most} were run")
        calls, begun = parsed.calls[:most], time.perf_counter()
        results = await self._run(calls)
        return Step(
            self._observation(self._messages(results, errors)),
            calls=[_record(call, result) for call, result in zip(calls, results, strict=True)],
            errors=errors,
            tool_seconds=time.perf_counter() - begun,
        )

    def _format(self) -> ToolFormat:
        if self.services.tool_format is None:
            raise EpisodeError("environment tool_calling got no tool format; pass one in its services")
        return self.services.tool_format

    async def _run(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        if self.services.call_tools is None:
            return [ToolResult(call.name, "Error: there are no tools.", error=True) for call in calls]
        return list(await self.services.call_tools(calls)) if calls else []

    def _observation(self, messages: list[Message]) -> Observation:
        state = json.dumps(sorted(self._learnt)).encode()
        return Observation(messages, state_key=blake2b(state, digest_size=8).hexdigest())

    def _messages(self, results: Sequence[ToolResult], errors: Sequence[str]) -> list[Message]:
        """Results, and errors of malformed calls, as the format writes them; at most `max_calls` errors."""
        limit, most = self.config.max_tool_characters, self.config.max_calls
        told = list(errors[:most])
        if len(errors) > most:
            told.append(f"{len(errors) - most} more errors are not shown")
        shown = [ToolResult(result.name, clip_text(result.text, limit), result.error) for result in results]
        self._learnt |= {(result.name, result.text) for result in shown if not result.error}
        shown += [ToolResult("error", "Error: " + error + ".", error=True) for error in told]
        return self._format().results(shown)


def _record(call: ToolCall, result: ToolResult) -> CallRecord:
    return CallRecord(call.name, call.arguments, result.text[:200] if result.error else None, result.seconds)


_CUT = "the reply was cut off before a tool call or an answer; be shorter"
_NEITHER: dict[AnswerStyle, str] = {
    "tags": Markup("no tool call and no answer; call a tool, or answer in <answer> tags"),
    "boxed": "no tool call and no answer; call a tool, or answer in \\boxed{}",
    "plain": "an empty reply; call a tool, or answer",
}
