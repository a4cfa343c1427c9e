"""Tool: an executor. It performs one action and returns the raw outcome, which the environment interprets.

A tool is a class with a pydantic `Arguments` model, or a plain function under `@tool`. Sync or async.
"""

from __future__ import annotations

import inspect
import random
import re
from collections.abc import Awaitable, Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache, partial
from numbers import Real
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_type_hints, overload

from pydantic import BaseModel, ConfigDict, Field, create_model

from agent_r1_core.contracts.component import Component, Section

if TYPE_CHECKING:
    from agent_r1_core.trajectory import Task

CALL_TIMEOUT = 10.0
"""Seconds for one call, unless the recipe sets another time-out."""

Isolation = Literal["thread", "process"]
"""Where calls run: in threads of the training process, or in processes of the tool's own."""


class ToolLimits(Section):
    """What each process of a tool of `isolation: process` may take; the system refuses it more."""

    memory: float = Field(default=8.0, gt=0)
    """GiB of data, without the files that it maps."""
    open_files: int = Field(default=1024, ge=64)
    """Files and connections open at once."""
    file_size: float = Field(default=4.0, gt=0)
    """GiB of each file that it writes."""


@dataclass
class ToolContext:
    """What a tool may know of the episode that it serves; the model never sees it.

    With `isolation: process`, `rng` and `state` travel to the process and back, as JSON; an episode's calls of one tool
    then run one after the other, so that each finds the state that the last one left.
    """

    episode: str
    """Id of the episode, unique within a rollout."""
    turn: int
    task: Task
    """The task without answers and metadata: no tool knows what the rewards know (LAW 12)."""
    rng: random.Random
    """Seeded by run, task, sample, turn and call (LAW 11)."""
    state: dict[str, Any] = field(default_factory=dict)
    """Lives as long as the episode; its tools share it, other episodes never do."""
    deadline: float = float("inf")
    """`time.monotonic()` at which the call is given up."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Numbers that the tool records about this call, by the names that it declares in `Tool.metrics`; their means over
    calls are logged as `tools/<tool>/<name>`. The monitor `tools_away` watches `away`: 1 where the service behind the
    tool did not answer, else 0."""
    rewards: list[float] = field(default_factory=list)
    """What `reward` was given."""

    def reward(self, value: float) -> None:
        """Give this call a process reward; several add up.

        It reaches the last action token of the turn. Their sum must be within the tool's `reward_range`: if it is not,
        the call fails. A call that fails or is given up earns nothing, but one that raises `ToolError` keeps its
        reward, so that a tool can also punish.

        Raises:
            TypeError: the value is not a number.
        """
        if not isinstance(value, Real):
            raise TypeError(f"context.reward() got {value!r:.80}, which is not a number")
        self.rewards.append(float(value))


class ToolArguments(BaseModel):
    """Base of a tool's arguments: unknown arguments are refused, so that a malformed call becomes an observation.

    A docstring under a field is what the model is told about the argument.
    """

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Tool(Component):
    """Executes one action.

    `run` gets validated arguments and the context, and returns text or anything JSON-able. If it returns None, the
    model reads "(no result)". It raises `ToolError` to tell the model, in one sentence, why there is no result; any
    other exception becomes an error observation too (LAW 9). `open` is called once per process before the first call,
    `close` at the end, but not in a process that was killed at a deadline.

    In the training process `open`, each call and `close` run in different threads, and calls at once. What serves only
    the thread that made it, such as an SQLite connection, is made in `run`; or the tool has `isolation = "process"`:
    then `open`, all calls and `close` run in one thread of each process, one after the other.
    """

    description: ClassVar[str] = ""
    """What the model is told; the class docstring's first paragraph where empty."""
    Arguments: ClassVar[type[BaseModel]] = ToolArguments
    isolation: ClassVar[Isolation] = "thread"
    """Where its calls run, unless the recipe says where. A thread is fast and can be debugged, but shares its process
    with the training; a process of its own (`"process"`) is killed at a call's deadline, and can neither end nor change
    the training. For a tool made by `@tool`, set the attribute: `search.isolation = "process"`."""
    reward_range: ClassVar[tuple[float, float] | None] = None
    """The lowest and the highest reward of one call, if it gives any by `context.reward(value)`; None: it gives none.
    For a tool made by `@tool`: `@tool(reward_range=(0.0, 1.0))`."""

    def open(self, resources: ToolResources) -> None:
        """Load heavy resources (an index, a connection); `agent_r1_core.working` shows how far that is."""

    def check_data(self) -> None:
        """Raise what `open` would raise about the tool's own files, as far as that shows at once: read the first record
        of a file, and download nothing. `agent-r1 train --dry-run` calls it.
        """

    def run(self, arguments: Any, context: ToolContext) -> Any:
        """Perform the action; may be `async def`."""
        raise TypeError(f"tool {type(self).__name__} defines no run(arguments, context); add one")

    def release(self, context: ToolContext) -> Awaitable[None] | None:
        """Release what the tool holds for an episode: called once when an episode that called it is over, failed and
        cancelled ones included, within the time-out of a call. The context has the episode's id and `state`.

        A tool that defines it gets the calls of one episode one after the other, in their order; a synchronous `run`
        that was given up may still be running. Not offered with `isolation: process`, where any process may get a call.
        """
        return None

    def close(self) -> None:
        """Release what `open` took."""

    def other_corpora(self) -> Sequence[str]:
        """Names of corpora that `open` reads in addition to those of the current tasks. A tool of `isolation: process`
        receives no further ones; any other tool may load each corpus."""
        return ()

    def describe(self) -> dict[str, Any] | None:
        """Facts about the opened tool for reports, JSON-able: for example what a search covers, and how much of it."""
        return None

    def schema(self) -> dict[str, Any]:
        """The function schema that chat templates take (OpenAI style)."""
        text = self.description or _first_paragraph(type(self))
        parameters = deepcopy(_parameters(self.Arguments))
        return {"type": "function", "function": {"name": self.name, "description": text, "parameters": parameters}}


@dataclass
class ToolResources:
    """What a tool may use when it opens."""

    cache_dir: str
    """A folder for indexes and the like, shared by runs."""
    corpora: dict[str, Callable[[], Any]] = field(default_factory=dict)
    """Corpora of the run's task sources by name: `train`, and `eval` or the names of several evaluation sets. A call
    loads one: an iterable of Passage, or None where the source has none."""
    own: str | None = None
    """Name of the corpus that belongs to the current tasks; None: all of them do."""
    tokenizer: str | None = None
    """The folder that holds the policy's tokenizer, for tools that count tokens; None: no policy is at hand."""

    @property
    def own_corpora(self) -> list[str]:
        """Names of the corpora that belong to the current tasks."""
        return sorted(self.corpora) if self.own is None else [self.own]


def _first_paragraph(cls: type[Tool]) -> str:
    """The first paragraph of the nearest docstring among the subclasses of Tool, whose own tells a model nothing."""
    subclasses = cls.__mro__[: cls.__mro__.index(Tool)]
    doc = next((base.__doc__ for base in subclasses if base.__doc__), "")
    return inspect.cleandoc(doc).split("\n\n")[0]


@cache
def _parameters(arguments: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a tool's arguments; every episode asks for it."""
    parameters: dict[str, Any] = without_titles(arguments.model_json_schema())
    parameters.pop("description", None)
    return parameters


def without_titles(schema: Any) -> Any:
    """The schema without pydantic's titles, for shorter prompts."""
    if isinstance(schema, dict):
        titled = isinstance(schema.get("title"), str)
        return {key: without_titles(value) for key, value in schema.items() if not (key == "title" and titled)}
    if isinstance(schema, list):
        return [without_titles(value) for value in schema]
    return schema


class FunctionTool(Tool):
    """A tool made from a function by `@tool`; what an async function returns is awaited like any awaitable."""

    function: ClassVar[Callable[..., Any]]
    takes_context: ClassVar[bool] = False

    def run(self, arguments: BaseModel, context: ToolContext) -> Any:
        """Call the function with its arguments by name."""
        values = {key: getattr(arguments, key) for key in type(arguments).model_fields}
        if self.takes_context:
            values["context"] = context
        return type(self).function(**values)


@overload
def tool(function: Callable[..., Any], /) -> type[FunctionTool]: ...


@overload
def tool(*, reward_range: tuple[float, float] | None = None) -> Callable[[Callable[..., Any]], type[FunctionTool]]: ...


def tool(function: Callable[..., Any] | None = None, /, *, reward_range: tuple[float, float] | None = None) -> Any:
    """Make a tool from a function: arguments from its signature, whose `Annotated` bounds hold, descriptions from its
    docstring (Google style): its first paragraph, and of each argument what `Args` says.

    A parameter named `context` gets the ToolContext and is hidden from the model.

    Args:
        function: with `@tool` alone.
        reward_range: the lowest and the highest reward of one call, for a tool that gives rewards.

    Raises:
        TypeError: a parameter has no annotation, or takes *args or **kwargs; or there is a `reward_range`, but no
            `context` to give rewards with.
    """
    if function is None:
        return partial(tool, reward_range=reward_range)
    hints = get_type_hints(function, include_extras=True)
    descriptions = _argument_docs(inspect.getdoc(function) or "")
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "context":
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or name not in hints:
            raise TypeError(f"parameter {name!r} of tool {function.__name__} needs a name and an annotation; add them")
        default = ... if parameter.default is parameter.empty else parameter.default
        hint = hints[name]
        described = Annotated[hint, Field(description=descriptions[name])] if name in descriptions else hint
        fields[name] = (described, default)
    takes_context = "context" in inspect.signature(function).parameters
    if reward_range is not None and not takes_context:
        raise TypeError(f"tool {function.__name__} has a reward_range; add a parameter `context` and call its reward()")
    # It has no source, for which pydantic would search through every frame and module.
    arguments = create_model(
        "Arguments", __base__=ToolArguments, __cls_kwargs__={"use_attribute_docstrings": False}, **fields
    )
    text = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")
    return type(
        function.__name__,
        (FunctionTool,),
        {
            "__module__": function.__module__,
            "__doc__": function.__doc__,
            "name": function.__name__,
            "description": text,
            "Arguments": arguments,
            "function": staticmethod(function),
            "takes_context": takes_context,
            "reward_range": reward_range,
        },
    )


def _argument_docs(docstring: str) -> dict[str, str]:
    """The texts of the docstring's Args section by name; a line that is indented further goes on with its text."""
    section = re.search(r"^(?:Args|Arguments):\n((?:[ \t]+.*\n?|\n)+)", docstring, re.MULTILINE)
    lines = [line.expandtabs() for line in section[1].splitlines() if line.strip()] if section else []
    found, name = dict[str, list[str]](), ""
    for line in lines:
        text = line.strip()
        begins = len(line) - len(line.lstrip()) <= len(lines[0]) - len(lines[0].lstrip())
        if begins and (match := re.match(r"(\w+)(?:\s*\([^)]*\))?:\s*(.*)", text)):
            name, text = match.groups()
            found[name] = []
        if name:
            found[name].append(text)
    return {name: " ".join(filter(None, texts)) for name, texts in found.items()}
