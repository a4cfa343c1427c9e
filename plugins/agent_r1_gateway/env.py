"""The environment `program`: a user's own program plays the episode; what it asks the model becomes turns.

The program asks the gateway. A request whose messages continue an action goes on behind it, with the very ids; any
other begins a segment. The program's end is the end of the episode.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from pydantic import Field, field_validator

from agent_r1_core import (
    Action,
    CallRecord,
    ComponentConfig,
    EnvConfig,
    EnvServices,
    EpisodeError,
    Observation,
    RequestOptions,
    Step,
    Task,
    ToolEnv,
    ToolFormatBlock,
)
from agent_r1_gateway.forward import Elsewhere
from agent_r1_gateway.history import History, Place
from agent_r1_gateway.line import Asked, Line
from agent_r1_gateway.program import Function, Process, Program, Result, function_named
from agent_r1_gateway.server import Gateway, shared_gateway
from agent_r1_gateway.speech import Thinking, messages_of, reply_of
from agent_r1_gateway.wire import ChatRequest
from agent_r1_gateway.worker import WorkerFunction

_MOST_UNTRAINED = 200
_OURS = ("policy", "untrained")
"""What the policy answers."""


class ProgramConfig(EnvConfig):
    """Options of `program`; give either `command` or `function`."""

    command: list[str] | None = None
    """The program and its arguments; in one of them `{prompt}` becomes the task's text, and `{task}` the task as JSON,
    which also comes on stdin and in the file AGENT_R1_TASK. It runs in a temporary folder: give absolute paths."""
    function: str | None = None
    """`package.module:function`, sync or async; it gets an `Episode` and returns the result."""
    workers: int = Field(default=1, ge=0)
    """Processes that play the function; 0: threads of the training process, which is easy to debug, and slower where
    there are several cores."""
    format: ToolFormatBlock = ToolFormatBlock(name="native")
    """How the model writes calls of the tools that requests bring: a tool format by name, or `{name: ..., option:
    value}`."""
    thinking: Thinking = "separate"
    """`separate`: reasoning goes into the API's own field; a program that drops it from its history begins a segment
    with every request. `text`: it stays in the text, which every client keeps."""
    answers: bool = False
    """Whether the program gets the task's answers and metadata, to grade itself."""
    models: dict[str, str] = Field(default={})
    """What becomes of requests, by the name of the model that they ask for, which may hold `*`: `policy`; `untrained`,
    which the policy answers and which leaves no turn; or the base address of another server, to which they are passed
    on. The first that fits holds; other names are the policy's."""
    models_key: str | None = None
    """The environment variable with the key for those addresses."""
    untrained: list[str] = Field(default=[])
    """Regular expressions. A request whose system prompt or last message contains one, such as a title for a display,
    is answered by the policy and leaves no turn."""
    environment: dict[str, str] = Field(default={})
    """Further environment variables of a command."""
    max_turns: int = Field(default=20, ge=1)
    """Requests that are answered; the next one truncates the episode."""
    max_tokens: int = Field(default=4096, ge=1)
    """Longest context of the policy in tokens, as in every environment; each segment has this budget."""
    max_output_characters: int = Field(default=4000, ge=1)
    """Most characters kept of what a command prints between two requests."""

    @field_validator("untrained")
    @classmethod
    def _are_patterns(cls, given: list[str]) -> list[str]:
        for pattern in given:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
        return given

    @field_validator("models")
    @classmethod
    def _are_rules(cls, given: dict[str, str]) -> dict[str, str]:
        for name, rule in given.items():
            if rule not in _OURS and not rule.startswith(("http://", "https://")):
                raise ValueError(
                    f"{name}: {rule!r} is neither policy nor untrained nor an address that begins with http"
                )
        return given


@dataclass(frozen=True)
class _Ended:
    """The program is over."""

    result: Result | Exception


class ProgramEnv(ToolEnv):
    """Plays an episode through a program."""

    Config = ProgramConfig
    owns_context = True

    def __init__(self, config: ComponentConfig | None = None, services: EnvServices | None = None) -> None:
        super().__init__(config, services)
        self._gateway: Gateway | None = None
        self._line: Line | None = None
        self._program: Program | None = None
        self._happened: asyncio.Queue[Asked | _Ended] = asyncio.Queue()
        self._history = History()
        self._someone_left = asyncio.Event()
        self._asked: Asked | None = None
        self._place: Place | None = None
        self._turns = 0
        self._earned = 0.0
        self._left_out: list[dict[str, Any]] = []
        """Requests since the last turn that left none; that turn shows them, or the first one."""
        self._untrained = 0
        """How many there were in a row."""

    @classmethod
    def uses_tools(cls) -> bool:
        """The program brings its own tools."""
        return False

    @classmethod
    def programs(cls, config: ProgramConfig) -> dict[str, str]:
        """The command or the function, unless an installed plugin names it as its own; what a command finds in its
        environment; and where requests go, with which key of the user's."""
        sent = [f"{name}={rule}" for name, rule in config.models.items() if rule not in _OURS]
        key = [f"with the key in {config.models_key}"] if config.models_key else []
        named = {
            "command": shlex.join(config.command or ()),
            "function": config.function or "",
            "environment": shlex.join(f"{name}={value}" for name, value in config.environment.items()),
            "models": " ".join([*sent, *key]) if sent else "",
        }
        own = type(config).model_fields["function"].default
        return {option: f"{option} {text}" for option, text in named.items() if text and text != own}

    @classmethod
    def unavailable(cls, config: ProgramConfig) -> str | None:
        """A sentence if there is no program."""
        if config.command or config.function:
            return None
        return "environment program needs env.command, such as [python, /path/agent.py], or env.function, module:run"

    @classmethod
    def idle_options(cls, config: ProgramConfig) -> dict[str, str]:
        """What a command leaves without effect, and what a function does."""
        if config.command:
            return dict.fromkeys(("function", "workers"), "env.command plays the episodes")
        return dict.fromkeys(("environment", "max_output_characters"), "they are for env.command")

    def tool_schemas(self) -> list[dict[str, Any]]:
        """None: each request brings its own."""
        return []

    async def reset(self, task: Task) -> Observation:
        """Start the program, and wait for its first request."""
        loop, config = asyncio.get_running_loop(), self.config

        def later(what: Callable[..., None], *values: Any) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(what, *values)

        self._gateway = shared_gateway()
        happened = self._happened
        self._line = line = Line(
            lambda asked: later(happened.put_nowait, asked),
            lambda value: later(self._earn, value),
            lambda asked: later(self._someone_left.set),
            self._elsewhere,
        )
        self._gateway.open(line)
        if config.command is not None:
            self._program = Process(config.command, config.environment, config.max_output_characters)
        else:
            function = config.function
            self._program = (
                WorkerFunction(function, config.workers)
                if config.workers
                else Function(function_named(function), line.reward)
            )

        def ended(result: Result | Exception) -> None:
            later(happened.put_nowait, _Ended(result))

        await self._program.start(self._told(task), self._gateway.address, line.key, ended)
        first = await self._happened.get()
        if isinstance(first, _Ended):
            if isinstance(first.result, Exception):
                raise first.result
            raise EpisodeError("the program ended before it asked the model; see whether it used its base address")
        return self._observe(first)

    async def step(self, action: Action) -> Step:
        """Answer the program's request with the action, and wait for its next one or its end."""
        asked, place = self._asked, self._place
        if asked is None or place is None or self._line is None:
            raise EpisodeError("environment program got an action that nobody asked for")
        calls, left = list[CallRecord](), action.abandoned or asked.listeners == 0
        withdrawn = left or self._is_untrained(asked.request)
        told = {"api": asked.api, "number": asked.number, "context": place.why, "retries": asked.retries}
        told |= {} if place.after is None else {"after": place.after}
        if left:
            self._line.forget(asked)
            self._left_out.append(told | {"why": "its client left"})
        else:
            form = self.services.tool_format
            reply = reply_of(action, asked.request, form, self.services.decode, self.config.thinking)
            if withdrawn:
                self._left_out.append(told | {"why": "untrained", "reply": action.text})
            else:
                calls = [CallRecord(call.name, call.as_object) for call in reply.calls]
                self._history.add(asked.request, reply, self._turns)
                self._turns += 1
            asked.reply.set_result(reply)
        self._untrained = self._untrained + 1 if withdrawn else 0
        if self._untrained > _MOST_UNTRAINED:
            raise EpisodeError(f"the program asked {_MOST_UNTRAINED} times in a row for what is not trained")
        following = await self._happened.get()
        info: dict[str, Any] = {} if withdrawn else {"request": told}
        if self._left_out and (withdrawn or self._turns == 1):
            info["left_out"] = list(self._left_out)
        if not withdrawn:
            self._left_out = []
        if self._program is not None and (output := self._program.output()):
            info["output"] = output
        earned, self._earned = (self._earned, 0.0) if self._turns else (0.0, self._earned)
        if isinstance(following, Asked):
            step = Step(self._observe(following), reward=earned)
        else:
            step = self._end(following.result, earned, withdrawn)
        step.calls, step.info, step.withdrawn = calls, info | step.info, withdrawn
        return step

    async def abandoned(self) -> None:
        """Return once every client of the request has left."""
        while self._asked is None or self._asked.listeners:
            self._someone_left.clear()
            await self._someone_left.wait()

    async def close(self) -> None:
        """End the program; what it still asks is refused."""
        if self._gateway is not None and self._line is not None:
            self._gateway.close(self._line, "the episode has ended; end, too")
        if self._program is not None:
            await self._program.stop()

    def _observe(self, asked: Asked) -> Observation:
        self._asked, request = asked, asked.request
        self._place = place = self._history.place(request)
        return Observation(
            messages_of(place.new, self.services.tool_format),
            new_context=place.after is None,
            continues=place.after,
            request=RequestOptions(list(request.tools), request.stop, request.max_tokens),
        )

    def _end(self, result: Result | Exception, earned: float, withdrawn: bool) -> Step:
        if isinstance(result, Exception):
            raise result
        if withdrawn and not self._turns:
            raise EpisodeError("the program left before it read a single reply")
        return Step(
            reward=earned + result.reward,
            terminated=True,
            answer=result.answer,
            success=result.success,
            info=dict(result.components),
        )

    def _is_untrained(self, request: ChatRequest) -> bool:
        """Whether the recipe leaves the request out of the trajectory."""
        if self._rule(request.model) == "untrained":
            return True
        texts = [message.text for message in (*request.messages[:1], request.messages[-1])]
        return any(re.search(pattern, text) for pattern in self.config.untrained for text in texts)

    def _rule(self, model: str) -> str:
        """What the recipe says about requests for this model."""
        rules = self.config.models.items()
        return next((rule for pattern, rule in rules if fnmatchcase(model, pattern)), "policy")

    def _elsewhere(self, model: str) -> Elsewhere | None:
        rule = self._rule(model)
        return None if rule in _OURS else Elsewhere(rule, self.config.models_key)

    def _earn(self, reward: float) -> None:
        self._earned += reward

    def _told(self, task: Task) -> dict[str, Any]:
        prompt = task.prompt if isinstance(task.prompt, str) else [dict(message) for message in task.prompt]
        told = {"id": task.id, "prompt": prompt, "seed": task.seed}
        hidden = {"answers": list(task.answers), "metadata": dict(task.metadata)}
        return told | hidden if self.config.answers else told
