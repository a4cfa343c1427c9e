"""ChatTemplate: turns messages into text with the model's own template, with fallbacks for what the template lacks.

Each ability is probed once: the roles `system` and `tool`, tool schemas, two user messages in a row. What the template
cannot render is moved into messages that it can. A template that shows no plain text of user and assistant is refused.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from functools import cached_property
from itertools import groupby
from typing import Any

from agent_r1_core.chat.deadline import within
from agent_r1_core.chat.text import without_thinking
from agent_r1_core.contracts.tool_format import ToolCall, ToolFormat
from agent_r1_core.errors import ModelError, first_line
from agent_r1_core.trajectory import Message

_PROBE = "Kq7probe"
_USER: Message = {"role": "user", "content": "hello"}
_SYSTEM: Message = {"role": "system", "content": _PROBE}
_ACTION: Message = {"role": "assistant", "content": _PROBE}
_RESULT: Message = {"role": "tool", "name": "lookup", "content": _PROBE}
_TOOL_SCHEMA = {
    "type": "function",
    "function": {"name": "Kq7tool", "description": "A tool.", "parameters": {"type": "object", "properties": {}}},
}
_CALL = ToolCall("Kq7tool", {"text": "hello"})

_SECONDS = 5.0
"""Time for one rendering, which usually takes a thousandth of a second."""

_QUICK_SECONDS = 0.02


class ChatTemplate:
    """Renders a conversation."""

    def __init__(self, raw: Any, name: str) -> None:
        self._raw = raw
        self._name = name
        self._too_slow = False
        self._last_seconds = 0.0
        self._problem = ""
        """What the last probe failed with."""
        if not getattr(raw, "chat_template", None):
            raise ModelError(
                f"{name} has no chat template; use an instruct model, or add chat_template.jinja to its folder"
            )
        talk: list[Message] = [{"role": "user", "content": _PROBE}, _ACTION, _USER]
        shown = [self._try(talk, tools).casefold() for tools in ([], [_TOOL_SCHEMA])]
        if self._problem and not any(shown):
            raise ModelError(
                f"the chat template of {name} fails where user and assistant speak in turn ({self._problem}); mend the "
                "template, or set model.name to another model"
            )
        if all(text.count(_PROBE.casefold()) != 2 for text in shown):
            raise ModelError(
                f"the chat template of {name} does not show what user and assistant say in plain text, as some for "
                "images; set model.name to a model for text, or put a chat_template.jinja for text into its folder"
            )
        asked, told = (self._try([_USER], generation_prompt=prompt) for prompt in (True, False))
        said = self._try([_USER, _ACTION], generation_prompt=False).removeprefix(asked).partition(_PROBE)[0].strip()
        if asked == told and said:
            raise ModelError(
                f"the chat template of {name} writes {said!r} before what an assistant says, but not where "
                "add_generation_prompt asks for it; mend the template"
            )

    def render(
        self,
        messages: Sequence[Message],
        schemas: Sequence[dict[str, Any]] = (),
        tools_text: str = "",
        generation_prompt: bool = True,
    ) -> str:
        """The conversation as text; `tools_text` joins the system message where the template gets or shows no schemas.

        Raises:
            ModelError: the template refuses the conversation, or takes too long.
        """
        adapted = list(messages)
        shown = list(schemas) if self.shows_tools else []
        if not shown:
            adapted = _with_system(adapted, tools_text)
        if not self.has_tool_role:
            adapted = _joined(adapted, "tool", "\n", "<tool_response>\n{}\n</tool_response>")
        if not self.has_system_role:
            adapted = _system_as_user(adapted)
        if not self.repeats_user:
            adapted = _joined(adapted, "user", "\n\n")
        try:
            return self._render(adapted, shown, generation_prompt)
        except ModelError:
            raise
        except Exception as error:
            roles = ", ".join(message["role"] for message in adapted)
            raise ModelError(
                f"the chat template of {self._name} refuses a conversation of the roles {roles} ({first_line(error)}); "
                "use another template or environment"
            ) from error

    @property
    def is_quick(self) -> bool:
        """Whether the last rendering took so little time that the next need not leave the event loop."""
        return self._last_seconds < _QUICK_SECONDS

    def closing_text(self) -> str:
        """What the template writes after an assistant's message."""
        return self._try([_USER, _ACTION], generation_prompt=False).partition(_PROBE)[2]

    def next_text(self, message: Message) -> str:
        """What the template writes after an assistant's message that another message follows."""
        return self._try([_USER, _ACTION, message]).partition(_PROBE)[2]

    def opening_text(self) -> str:
        """What the template writes between the generation prompt and an assistant's message, without empty thoughts."""
        prompt, (repeated, found, _) = self._try([_USER]), self._try([_USER, _ACTION], (), False).partition(_PROBE)
        return without_thinking(repeated[len(prompt) :]) if found and repeated.startswith(prompt) else ""

    def agrees_with(self, tool_format: ToolFormat) -> bool:
        """Whether the format reads the calls that the template writes, so that both mean the same syntax; also of a
        template that writes none."""
        return not self._written_calls or any(_CALL in tool_format.parse(one).calls for one in self._written_calls)

    @cached_property
    def has_system_role(self) -> bool:
        """Whether a system message is rendered."""
        return _PROBE in self._try([_SYSTEM, _USER])

    @cached_property
    def has_tool_role(self) -> bool:
        """Whether a tool's message is rendered: after a second action as after the first, and with the next action as
        with the generation prompt, where a user's is. Where actions have no `tool_calls`, some templates lose count."""
        pieces = self._try([*self._begun, *[_ACTION, _RESULT] * 2]).split(_PROBE)
        steady = len(pieces) == 5 and pieces[1] == pieces[3]
        return steady and self._goes_on_after(_RESULT) == self._goes_on_after({**_RESULT, "role": "user"})

    @cached_property
    def shows_tools(self) -> bool:
        """Whether tool schemas are rendered, without a system message and beside one."""
        alone = self._try([_USER], [_TOOL_SCHEMA])
        beside = self._try([_SYSTEM, _USER], [_TOOL_SCHEMA]) if self.has_system_role else alone + _PROBE
        return _CALL.name in alone and _CALL.name in beside and _PROBE in beside

    @cached_property
    def repeats_user(self) -> bool:
        """Whether a user may speak twice in a row."""
        return _PROBE in self._try([_USER, {"role": "user", "content": _PROBE}])

    @cached_property
    def _begun(self) -> list[Message]:
        """How conversations begin; some templates count differently beside a system message."""
        return [{"role": "system", "content": "hello"}, _USER] if self.has_system_role else [_USER]

    def _goes_on_after(self, message: Message) -> list[str]:
        """How the text after this message differs before the next action and before the request for one."""
        asked = self._try([*self._begun, _ACTION, message])
        done = self._try([*self._begun, _ACTION, message, _ACTION, _USER]).rpartition(_PROBE)[0]
        ends = ["".join(re.split("</?think>", text.rpartition(_PROBE)[2])).rstrip() for text in (asked, done)]
        alike = [one == other for one, other in zip(*ends, strict=False)]
        common = [*alike, False].index(False)
        return [end[common:] for end in ends]

    @cached_property
    def _written_calls(self) -> list[str]:
        """A conversation that ends with the probe's call as the template writes it, without a description of tools.
        Some templates want the arguments as an object, some as its text."""
        written = []
        for arguments in (_CALL.arguments, json.dumps(_CALL.arguments)):
            call = {"type": "function", "id": "Kq7call01", "function": {"name": _CALL.name, "arguments": arguments}}
            action: Any = {"role": "assistant", "content": "", "tool_calls": [call]}
            written.append(self._try([_USER, action], generation_prompt=False))
        return [text for text in written if _CALL.name in text]

    def _render(self, messages: list[Message], schemas: list[dict[str, Any]], generation_prompt: bool) -> str:
        """Render within `_SECONDS`; a template that took longer once is not tried again."""
        options = {"tools": schemas or None, "tokenize": False, "add_generation_prompt": generation_prompt}
        begun = time.perf_counter()
        try:
            if not self._too_slow:
                return str(within(_SECONDS, lambda: self._raw.apply_chat_template(messages, **options)))
        except TimeoutError:
            self._too_slow = True
        finally:
            self._last_seconds = time.perf_counter() - begun
        raise ModelError(
            f"the chat template of {self._name} did not end within {_SECONDS:g} seconds; use another model, or mend "
            "the template"
        )

    def _try(
        self, messages: list[Message], schemas: Sequence[dict[str, Any]] = (), generation_prompt: bool = True
    ) -> str:
        """The rendering of a probe; empty if the template refuses it."""
        try:
            return self._render(messages, list(schemas), generation_prompt)
        except ModelError:
            raise
        except Exception as error:
            self._problem = f"{type(error).__name__}: {first_line(error)}"
            return ""


def _with_system(messages: list[Message], text: str) -> list[Message]:
    """The messages with `text` at the end of the system message."""
    if messages and messages[0]["role"] == "system":
        joined = "\n\n".join(part for part in (messages[0]["content"], text) if part)
        return [{"role": "system", "content": joined}, *messages[1:]]
    return [{"role": "system", "content": text}, *messages] if text else messages


def _system_as_user(messages: list[Message]) -> list[Message]:
    """The messages with the system message's text before that of the first user message."""
    system = "\n\n".join(message["content"] for message in messages if message["role"] == "system")
    others = [message for message in messages if message["role"] != "system"]
    if not system:
        return others
    if others and others[0]["role"] == "user":
        return [{"role": "user", "content": f"{system}\n\n{others[0]['content']}"}, *others[1:]]
    return [{"role": "user", "content": system}, *others]


def _joined(messages: list[Message], role: str, between: str, form: str = "{}") -> list[Message]:
    """The messages with consecutive ones of this role, each in this form, joined into one of the user."""
    adapted: list[Message] = []
    for found, run in groupby(messages, key=lambda message: message["role"]):
        if found == role:
            text = between.join(form.format(message["content"]) for message in run)
            adapted.append({"role": "user", "content": text})
        else:
            adapted.extend(run)
    return adapted
