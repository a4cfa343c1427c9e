"""The model's own format: its chat template writes the calls, and its response template reads them.

A response template is part of a tokenizer's configuration; transformers' response parser follows it
(https://huggingface.co/docs/transformers/chat_response_parsing). Without one this is the format `hermes`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from threading import Thread
from typing import Any

from agent_r1_core import ComponentConfig, ParsedAction, ToolCall, ToolFormat
from agent_r1_core.chat import ChatTokenizer, without_first_thought, without_thinking
from agent_r1_core.errors import ModelError, first_line
from agent_r1_tool_formats.hermes import Hermes, read_call

_SAID = "Kq7said"
_SECONDS = 5.0
"""Time for reading an action or writing a call, which usually takes a thousandth of a second."""


class Native(Hermes):
    """Calls as the model's own templates have them."""

    def __init__(self, config: ComponentConfig | None = None) -> None:
        super().__init__(config)
        self._tokenizer: ChatTokenizer | None = None
        """Of a model with a response template."""
        self._schemas: list[dict[str, Any]] = []

    def attach(self, tokenizer: ChatTokenizer) -> None:
        """Use the model's response template, if it has one."""
        has_one = getattr(tokenizer.raw, "response_template", None) is not None
        self._tokenizer = tokenizer if has_one else None

    def bind(self, schemas: Sequence[dict[str, Any]]) -> None:
        """Learn the types of the tools' parameters."""
        self._schemas = list(schemas)

    def system_prompt(self, schemas: Sequence[dict[str, Any]], answer: str) -> str:
        """How to answer; the model knows how to call."""
        if self._tokenizer is None or not schemas:
            return super().system_prompt(schemas, answer)
        return "Solve the task step by step with the help of the tools. You may call tools several times. " + answer

    def describe_tools(self, schemas: Sequence[dict[str, Any]]) -> str:
        """The tools, for a template that shows none."""
        own = Hermes if self._tokenizer is None else ToolFormat
        return own.describe_tools(self, schemas)

    def parse(self, text: str) -> ParsedAction:
        """The calls in order; an action that the response template does not fit has a sentence why."""
        if self._tokenizer is None:
            return super().parse(text)
        try:
            read = self._within(lambda: self._read(text))
        except ModelError:
            raise
        except Exception as error:
            reason = first_line(error)
            return ParsedAction(errors=[f"the action has not the form that the model's template gives it ({reason})"])
        parsed = ParsedAction(text=str(read.get("content") or "").strip())
        for one in read.get("tool_calls") or ():
            call = read_call(one.get("function", one) if isinstance(one, dict) else one)
            if isinstance(call, ToolCall):
                parsed.calls.append(call)
            else:
                parsed.errors.append(call)
        return parsed

    def _read(self, text: str) -> dict[str, Any]:
        """The text as the response template reads it, without its thoughts; a `<think>` in an argument is data."""
        assert self._tokenizer is not None
        parse = self._tokenizer.raw.parse_response
        said = without_first_thought(text)
        read: dict[str, Any] = parse(said, prefix="", tools=self._schemas)
        if "<think>" not in str(read.get("content") or ""):
            return read
        return parse(without_thinking(said), prefix="", tools=self._schemas)

    def render_call(self, call: ToolCall) -> str:
        """The call as the chat template writes it, even where the response template reads another call in it.

        Raises:
            ModelError: the response template reads no call at all that the chat template writes.
        """
        if self._tokenizer is None:
            return super().render_call(call)
        written = self._within(lambda: list(self._written(call)))
        exact = next((one for one in written if call in self.parse(one).calls), None)
        if exact is not None:
            return exact
        shown = next((one for one in written if call.name in one), None)
        if shown is None or not self._tokenizer.template.agrees_with(self):
            raise ModelError(
                f"the response template of {self._tokenizer.name} does not read the calls that its chat template "
                "writes; choose the tool format hermes"
            )
        return shown

    def _written(self, call: ToolCall) -> Iterator[str]:
        """Renderings: some templates want the arguments as an object, some as its text, some no text beside calls."""
        assert self._tokenizer is not None
        render, closing = self._tokenizer.raw.apply_chat_template, self._tokenizer.template.closing_text()
        asked: list[Any] = [{"role": "user", "content": "hello"}]
        prompt = render(asked, tokenize=False, add_generation_prompt=True)
        for said in (_SAID, ""):
            for arguments in (call.arguments, json.dumps(call.arguments, ensure_ascii=False)):
                function = {"name": call.name, "arguments": arguments}
                calls = [{"type": "function", "id": "Kq7call01", "function": function}]
                try:
                    text = render([*asked, {"role": "assistant", "content": said, "tool_calls": calls}], tokenize=False)
                except Exception:
                    continue
                after = text.partition(said)[2] if said else text.removeprefix(prompt)
                yield after.removesuffix(closing).strip("\n")

    def _within(self, work: Callable[[], Any]) -> Any:
        """Do what the model's own templates say, which may never end, in a thread of its own.

        Raises:
            ModelError: it takes too long.
        """
        outcome: Future[Any] = Future()

        def run() -> None:
            try:
                outcome.set_result(work())
            except BaseException as error:
                outcome.set_exception(error)

        Thread(target=run, name="agent-r1 native format", daemon=True).start()
        try:
            return outcome.result(_SECONDS)
        except TimeoutError:
            name = self._tokenizer.name if self._tokenizer is not None else ""
            raise ModelError(
                f"the response template of {name} took longer than {_SECONDS:g} seconds; choose the tool format hermes"
            ) from None
