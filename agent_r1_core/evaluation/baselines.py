"""Baselines to hold a trained agent against, and the agent with silenced tools.

A baseline is a policy made of an untrained model and a way to ask it. Engine, corpus, scorer and, where it calls tools,
environment and tools are those of the agent. Silenced tools show whether a policy uses its tools at all: one that
guesses scores the same without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from agent_r1_core.assembly.components import make_tools
from agent_r1_core.assembly.task_sets import tool_resources
from agent_r1_core.contracts.tasks import Passage
from agent_r1_core.contracts.tool import Tool, ToolContext, ToolResources
from agent_r1_core.errors import ConfigError
from agent_r1_core.trajectory import Message, Task, question
from agent_r1_core.work import working

if TYPE_CHECKING:
    from agent_r1_core.assembly.assembly import Assembly
    from agent_r1_core.config import ResolvedConfig

BaselineName = Literal["closed_book", "naive_rag", "base_tool_call", "react"]

REASON_AND_ACT = (
    "Alternate between reasoning and acting. In each turn, first write `Thought:` and say what you know, what is "
    "missing, and what to do next. Then act once: call a tool, or answer. The result of a call is your next "
    "observation; reason about it before you act again."
)
"""The prompt of `react` (Yao et al. 2023, arXiv 2210.03629), for tool calls in the agent's own format."""


@dataclass(frozen=True)
class Baseline:
    """How a baseline asks the untrained model."""

    name: BaselineName
    summary: str
    """What a reader of its scores must know."""
    uses_tools: bool = False
    searches: bool = False
    """Whether one search for the question's words comes before the model's turn."""

    def ask(self, task: Task, passages: str = "") -> Task:
        """The task as the model gets it, after the passages of its search as `passages_text` writes them; raises
        ValueError if there are some, and the task has no user message."""
        asked = replace(task, prompt=_with_passages(task.prompt, passages)) if self.searches else task
        if self.name == "react":
            asked = replace(asked, prompt=_with_instructions(asked.prompt, REASON_AND_ACT))
        return replace(asked, metadata={**task.metadata, "baseline": self.name})


BASELINES: dict[str, Baseline] = {
    baseline.name: baseline
    for baseline in (
        Baseline("closed_book", "the question alone, without tools"),
        Baseline(
            "naive_rag", "the question with the passages of one search for its words, without tools", searches=True
        ),
        Baseline("base_tool_call", "the untrained model with the agent's tools", uses_tools=True),
        Baseline("react", "the untrained model with the agent's tools and a reason-act prompt", uses_tools=True),
    )
}


def passages_text(found: str | Sequence[Passage]) -> str:
    """What a tool's `search(query)` gave as `Title\\nText`, a blank line between passages; a text is taken as it is."""
    if isinstance(found, str):
        return str.__str__(found)  # of an author's class, the text alone
    return "\n\n".join(f"{passage.title}\n{passage.text}" for passage in found)


async def search_and_ask(
    baseline: Baseline, resolved: ResolvedConfig, assembly: Assembly, name: str
) -> tuple[list[Task], dict[str, dict[str, Any]]]:
    """Each question with the passages that the recipe's search tool finds for its words, and what that tool says."""
    tools = make_tools(resolved, 1, in_process=True)
    await tools.start(tool_resources(resolved, assembly.sets, name, assembly.tokenizer.name))
    try:
        tool = next(iter(tools.tools.values()))
        search = getattr(tool, "search", None)
        if search is None:
            raise ConfigError(
                f"naive_rag needs a first tool that can search, but {tool.name} has no search(query); name one in tools"
            )
        asked, tasks = [], assembly.sets[name].tasks
        with working("searching for each question", len(tasks), unit="questions") as work:
            for task in tasks:
                passages = await tools.use(tool.name, partial(search, question(task.prompt)), passages_text)
                asked.append(baseline.ask(task, passages))
                work.advance()
        return asked, tools.describe()
    finally:
        await tools.close()


class SilentTool(Tool):
    """Replaces a tool: the same name, description and arguments, but always the same empty answer."""

    answer = "No passage found."

    def __init__(self, tool: Tool) -> None:
        super().__init__(tool.config)
        self.name = tool.name
        self._tool = tool
        self.Arguments = tool.Arguments  # type: ignore[misc]  # the arguments of this instance's tool

    def open(self, resources: ToolResources) -> None:
        """Open nothing: there is nothing to look up."""

    def run(self, arguments: Any, context: ToolContext) -> str:
        return self.answer

    def schema(self) -> dict[str, Any]:
        return self._tool.schema()


def _with_passages(prompt: str | Sequence[Message], block: str) -> str | list[Message]:
    """The prompt as `Title\\nText\\n\\n...\\n\\nQuestion`; of messages, the last one of a user becomes that."""
    if not block:
        return prompt if isinstance(prompt, str) else list(prompt)
    if isinstance(prompt, str):
        return f"{block}\n\n{prompt}"
    messages = list(prompt)
    for index in reversed(range(len(messages))):
        if messages[index].get("role") == "user":
            messages[index] = {**messages[index], "content": f"{block}\n\n{messages[index]['content']}"}
            return messages
    raise ValueError("the task's prompt has no user message to take the question from; add one")


def _with_instructions(prompt: str | Sequence[Message], text: str) -> list[Message]:
    """The prompt with a system message, which environments add to their own."""
    messages: list[Message] = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
    if messages and messages[0]["role"] == "system":
        text, messages = f"{messages[0]['content']}\n\n{text}", messages[1:]
    return [{"role": "system", "content": text}, *messages]
