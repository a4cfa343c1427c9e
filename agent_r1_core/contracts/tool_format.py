"""ToolFormat: how a model writes tool calls, and how it is shown their results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent_r1_core.contracts.component import Component

if TYPE_CHECKING:
    from agent_r1_core.trajectory import Message


@dataclass(frozen=True)
class ToolCall:
    """One call that an action asks for."""

    name: str
    arguments: dict[str, Any]


@dataclass
class ParsedAction:
    """What a format reads in an action."""

    calls: list[ToolCall] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """One sentence per malformed call; the environment feeds them back to the model (LAW 8)."""
    text: str | None = None
    """What the action says beside its thinking and its calls; None: the format does not say."""


@dataclass(frozen=True)
class ToolResult:
    """The result of a call: text for the model, and whether it is an error."""

    name: str
    text: str
    error: bool = False
    seconds: float = field(default=0.0, compare=False)
    """How long the call took."""
    reward: float = field(default=0.0, compare=False)
    """What the tool gave the call; it reaches the turn's rewards whatever the environment does with the result."""
    metrics: Mapping[str, float] = field(default_factory=dict, compare=False)
    """What the tool recorded about the call, finite numbers alone."""


class ToolFormat(Component):
    """Reads calls in an action's text and writes results as messages."""

    stop_strings: tuple[str, ...] = ()
    """An action ends when its text contains one of these, or with the model's own end-of-turn token."""
    template_tools: bool = True
    """Whether the chat template gets tool schemas as `tools`; if not, `system_prompt` must describe them."""

    def system_prompt(self, schemas: Sequence[dict[str, Any]], answer: str) -> str:
        """The default system prompt: how to call and, in the sentence `answer`, how to give the final answer.

        Control tokens count in what is `Markup`, as `answer` is; descriptions of tools must stay plain text.
        """
        raise TypeError(f"tool format {type(self).__name__} defines no system_prompt(schemas, answer); add one")

    def attach(self, tokenizer: Any) -> None:
        """Learn the model's `agent_r1_core.chat.ChatTokenizer`, before the format reads or writes for this model."""

    def bind(self, schemas: Sequence[dict[str, Any]]) -> None:
        """Learn the tools before the first episode; needed by formats whose calls do not name a tool.

        Raises:
            ConfigError: the format cannot call these tools.
        """

    def describe_tools(self, schemas: Sequence[dict[str, Any]]) -> str:
        """The tools as text for the system message, used where a chat template ignores `tools`."""
        return "\n".join(["You may call these tools:", *(describe_schema(schema) for schema in schemas)])

    def parse(self, text: str) -> ParsedAction:
        """Find the calls in an action; malformed ones become errors, never exceptions."""
        raise TypeError(f"tool format {type(self).__name__} defines no parse(text); add one")

    def render_call(self, call: ToolCall) -> str:
        """The text a model would write for this call (for demonstrations, `play` and tests): `parse` inverts it."""
        raise TypeError(f"tool format {type(self).__name__} defines no render_call(call); add one")

    def render_action(self, text: str, calls: Sequence[ToolCall]) -> str:
        """The text of an action that says `text` and makes these calls (for demonstrations)."""
        said = text.removesuffix("\n") if calls else text
        return "\n".join(part for part in (said, *map(self.render_call, calls)) if part)

    def results(self, results: Sequence[ToolResult]) -> list[Message]:
        """The messages that show results to the model; tags that the format writes around a result are `Markup`."""
        return [{"role": "tool", "name": result.name, "content": result.text} for result in results]

    def read_results(self, message: Message) -> list[str]:
        """The texts of the results that a message of `results` shows, in order; of another message none (for keeping
        episodes as demonstrations). Where it reads none, episodes with calls cannot be kept."""
        return [message["content"]] if message["role"] == "tool" else []


def describe_schema(schema: dict[str, Any]) -> str:
    """One line of JSON for a function schema, for system prompts."""
    return json.dumps(schema["function"], ensure_ascii=False)
