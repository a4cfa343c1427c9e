"""The format of Search-R1 (arXiv 2503.09516): `<search>` text `</search>`, answered in `<information>` tags.

A call does not name a tool, so all calls go to one tool, through one text argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_r1_core import ComponentConfig, ConfigError, Markup, Message, ParsedAction, ToolCall, ToolFormat, ToolResult
from agent_r1_core.chat import split_tagged, without_thinking


class SearchTagsConfig(ComponentConfig):
    """Options of `search_tags`."""

    tool: str | None = None
    """The tool to call; null: the recipe's only one."""
    argument: str | None = None
    """The tool's argument that gets the text; null: the first that takes text."""


class SearchTags(ToolFormat):
    """Text calls in `<search>` tags."""

    Config = SearchTagsConfig
    stop_strings = ("</search>", "</answer>")
    template_tools = False

    def __init__(self, config: ComponentConfig | None = None) -> None:
        super().__init__(config)
        self._tool: str = self.config.tool or "search"
        self._argument: str = self.config.argument or "query"

    def bind(self, schemas: Sequence[dict[str, Any]]) -> None:
        """Find the tool to call and its argument.

        Raises:
            ConfigError: there are several tools to choose from, or none that takes text.
        """
        if not schemas:
            return
        functions = {schema["function"]["name"]: schema["function"] for schema in schemas}
        names = ", ".join(functions)
        if self.config.tool is None and len(functions) > 1:
            raise ConfigError(
                f"tool format search_tags calls one tool, but the tools are {names}; leave one, or use hermes"
            )
        name = self.config.tool or next(iter(functions))
        if name not in functions:
            raise ConfigError(f"tool format search_tags is set to call {name!r}, but the tools are {names}; name one")
        properties = functions[name]["parameters"].get("properties", {})
        arguments = [key for key, schema in properties.items() if _takes_text(schema)]
        wanted = self.config.argument
        if not arguments or (wanted is not None and wanted not in arguments):
            what = f"argument {wanted!r}" if wanted is not None else "argument"
            raise ConfigError(f"tool {name} has no {what} that takes text; tool format search_tags needs one")
        self._tool, self._argument = name, wanted or arguments[0]

    def system_prompt(self, schemas: Sequence[dict[str, Any]], answer: str) -> str:
        """How to search and how to answer."""
        if not schemas:
            return answer
        return (
            Markup(
                "Answer the question. Think first inside <think> and </think> every time you get new information. "
                "When you lack some knowledge, search for it by <search>your query</search>; the results are returned "
                "between <information> and </information>. You may search as many times as you want. "
            )
            + answer
        )

    def parse(self, text: str) -> ParsedAction:
        """The searches in order, and a sentence for each malformed one."""
        queries, rest = split_tagged(without_thinking(text, "search"), "search")
        parsed = ParsedAction(text=rest.strip())
        for query in map(str.strip, queries):
            if query:
                parsed.calls.append(ToolCall(self._tool, {self._argument: query}))
            else:
                parsed.errors.append(Markup("a search is empty; write <search>your query</search>"))
        if "<search>" in rest:
            parsed.errors.append(Markup("a search is not closed; end it with </search>"))
        elif "</search>" in rest:
            parsed.errors.append(Markup("a search is not opened; begin it with <search>"))
        return parsed

    def render_call(self, call: ToolCall) -> str:
        """The text of the call's argument in tags."""
        value = call.arguments.get(self._argument, next(iter(call.arguments.values()), ""))
        return f"<search>{value}</search>"

    def results(self, results: Sequence[ToolResult]) -> list[Message]:
        """One user message with a block per result."""
        if not results:
            return []
        blocks = [Markup("<information>") + result.text + Markup("</information>") for result in results]
        return [{"role": "user", "content": Markup("\n").join(blocks)}]

    def read_results(self, message: Message) -> list[str]:
        """The contents of the blocks."""
        content, opening, closing = str(message["content"]), "<information>", "</information>"
        if message["role"] != "user" or not (content.startswith(opening) and content.endswith(closing)):
            return []
        return content[len(opening) : -len(closing)].split(f"{closing}\n{opening}")


def _takes_text(schema: dict[str, Any]) -> bool:
    options = schema.get("anyOf", [schema])
    return any(option.get("type") == "string" for option in options)
