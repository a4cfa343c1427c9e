"""The environment `program`: a user's own program plays the episode; what it asks the model becomes turns.

The program asks the gateway. A request whose messages continue an action goes on behind it, with the very ids; any
other begins a segment. The program's end is the end of the episode.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import shlex
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agent_r1_core import (
    Action,
    CallRecord,
    ComponentConfig,
    EnvServices,
    EpisodeError,
    Observation,
    RequestOptions,
    Step,
    Task,
    ToolEnv,
)
from agent_r1_gateway.config import OURS, ProgramConfig
from agent_r1_gateway.forward import Elsewhere
from agent_r1_gateway.history import History, Place, Said
from agent_r1_gateway.line import Asked, Line
from agent_r1_gateway.process import Process
from agent_r1_gateway.program import Function, Program, Result, function_named, note_once, note_slip
from agent_r1_gateway.server import Gateway, shared_gateway
from agent_r1_gateway.speech import messages_of, reply_of
from agent_r1_gateway.wire import ChatRequest
from agent_r1_gateway.worker import WorkerFunction

_MOST_UNTRAINED = 200


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
        self._coming: deque[Asked | _Ended] = deque()
        """What has happened and whose turn has not come."""
        self._announced = 0
        """How many of them `ahead` has told."""
        self._news = asyncio.Event()
        """Something has happened, or a client has left."""
        self._history = History()
        self._said = Said()
        self._places: dict[int, Place] = {}
        """Where requests go on that have been shown or announced, by their number."""
        self._asked: Asked | None = None
        self._turns = 0
        self._earned = 0.0
        self._rewarded = False
        self._left_out: list[dict[str, Any]] = []
        """Requests since the last turn that left none; that turn shows them, or the first one."""
        self._untrained = 0
        """How many there were in a row."""
        self._passed_on = 0
        """Requests that went to other models."""

    @classmethod
    def uses_tools(cls) -> bool:
        """The program brings its own tools."""
        return False

    @classmethod
    def programs(cls, config: ProgramConfig) -> dict[str, str]:
        """The command or the function, unless an installed plugin names it as its own; what a command finds in its
        environment; and where requests go, with which key of the user's."""
        sent = [f"{name}={rule}" for name, rule in config.models.items() if rule not in OURS]
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
        """A sentence if there is no program, or none that would be found, or no key for the models elsewhere."""
        sent = any(rule not in OURS for rule in config.models.values())
        if sent and config.models_key and not os.environ.get(config.models_key):
            return f"env.models_key names the environment variable {config.models_key}, which is not set; set it"
        if config.command:
            script = config.script()
            return script and (
                f"env.command names {script}, but the program runs in an empty folder; give its absolute path"
            )
        if config.function:
            whole = all(config.function.partition(":"))
            return None if whole else f"env.function is {config.function!r}; give module:function"
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
        self._line = line = Line(
            lambda asked: later(self._happened, asked),
            lambda value: later(self._earn, value),
            lambda asked: later(self._news.set),
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
            later(self._happened, _Ended(result))

        await self._program.start(self._told(task), self._gateway.address, line.key, ended)
        first = await self._next("asked the model for nothing")
        if isinstance(first, _Ended):
            early = (
                f"the program ended before it asked the policy: {self._passed_on} of its requests went to other models "
                "(env.models)"
                if self._passed_on
                else "the program ended before it asked the model; see whether it used its base address"
            )
            raise self._failure(first.result if isinstance(first.result, Exception) else EpisodeError(early))
        return self._show(first)

    async def step(self, action: Action) -> Step:
        """Answer the program's request with the action, and wait for its next one or its end."""
        asked = self._asked
        if asked is None or self._line is None:
            raise EpisodeError("environment program got an action that nobody asked for")
        place = self._places.pop(asked.number)
        if not action.abandoned and self._gateway is not None:
            await self._gateway.look()
        calls, left = list[CallRecord](), action.abandoned or asked.listeners == 0
        withdrawn = left or self._is_untrained(asked.request)
        told = {"api": asked.api, "number": asked.number, "context": place.why, "retries": asked.retries}
        told |= {} if place.after is None else {"after": place.after}
        if left:
            asked.give_up()
            self._left_out.append(told | {"why": "its client left"})
        else:
            form = self.services.tool_format
            reply = reply_of(action, asked.request, form, self.services.decode, self.config.thinking)
            self._said.add(reply, action)
            if withdrawn:
                self._left_out.append(told | {"why": "untrained", "reply": action.text})
            else:
                calls = [CallRecord(call.name, call.as_object) for call in reply.calls]
                self._history.add(asked.request, reply, self._turns)
                self._turns += 1
            asked.reply.set_result(reply)
            if action.cut and len(action.ids) < (asked.request.max_tokens or math.inf):
                limits = "engine.max_new_tokens, or env.max_tokens where an episode is full"
                note_once("cut", f"a reply to a program was cut at {len(action.ids)} tokens; raise {limits}")
        self._untrained = self._untrained + 1 if withdrawn else 0
        if self._untrained > _MOST_UNTRAINED:
            raise EpisodeError(f"the program asked {_MOST_UNTRAINED} times in a row for what is not trained")
        following = await self._next("neither asked the model again nor ended")
        told["retries"] = asked.retries
        if self._line.unrewarded:
            raise EpisodeError(f"a reward that the program reported was refused: {self._line.unrewarded}")
        info: dict[str, Any] = {} if withdrawn else {"request": told}
        if self._left_out and (withdrawn or self._turns == 1):
            info["left_out"] = list(self._left_out)
        if not withdrawn:
            self._left_out = []
        if self._program is not None and (output := self._program.output()):
            info["output"] = output
        earned, self._earned = (self._earned, 0.0) if self._turns else (0.0, self._earned)
        if isinstance(following, Asked):
            step = Step(self._show(following), reward=earned)
        else:
            step = self._end(following.result, earned, withdrawn)
        step.calls, step.info, step.withdrawn = calls, info | step.info, withdrawn
        return step

    async def abandoned(self) -> None:
        """Return once every client of the request has left."""
        while self._asked is None or self._asked.listeners:
            self._news.clear()
            await self._news.wait()

    async def ahead(self) -> Observation:
        """What the next request asks that waits already."""
        while True:
            while len(self._coming) <= self._announced:
                self._news.clear()
                await self._news.wait()
            following = self._coming[self._announced]
            self._announced += 1
            if isinstance(following, Asked):
                return self._observation(following)

    async def close(self) -> None:
        """End the program; what it still asks is refused."""
        if self._gateway is not None and self._line is not None:
            self._gateway.close(self._line, "the episode has ended; end, too")
        if self._program is not None:
            await self._program.stop()

    def _happened(self, what: Asked | _Ended) -> None:
        self._coming.append(what)
        self._news.set()

    async def _next(self, without: str) -> Asked | _Ended:
        """What comes next, in the order of arrival; `without` it, the program did this."""
        self.overdue = f"{self.config.named} {without}"
        while not self._coming:
            self._news.clear()
            await self._news.wait()
        self.overdue = ""
        self._announced = max(self._announced - 1, 0)
        return self._coming.popleft()

    def _show(self, asked: Asked) -> Observation:
        self._asked = asked
        return self._observation(asked)

    def _observation(self, asked: Asked) -> Observation:
        """What the policy reads for a request; it goes on from what had been answered when this was first asked."""
        request, number = asked.request, asked.number
        place = self._places[number] = self._places.get(number) or self._history.place(request)
        return Observation(
            messages_of(place.new, self.services.tool_format, self._said),
            new_context=place.after is None,
            continues=place.after,
            request=RequestOptions(list(request.tools), request.stop, request.max_tokens, number),
        )

    def _end(self, result: Result | Exception, earned: float, withdrawn: bool) -> Step:
        if isinstance(result, Exception):
            raise self._failure(result)
        if withdrawn and not self._turns:
            raise EpisodeError("the program left before it read a single reply")
        if result != Result() or not self._rewarded:
            note_slip(result)
        return Step(
            reward=earned + (result.reward or 0.0),
            terminated=True,
            answer=result.answer,
            success=result.success,
            info=dict(result.components),
        )

    def _failure(self, error: Exception) -> Exception:
        """The error, with what the gateway refused last: clients often keep that to themselves."""
        refused = self._line.refused if self._line is not None else ""
        return EpisodeError(f"{error}; the gateway refused its last request: {refused}") if refused else error

    def _is_untrained(self, request: ChatRequest) -> bool:
        """Whether the recipe leaves the request out of the trajectory."""
        if self.config.rule_for(request.model) == "untrained":
            return True
        texts = [message.text for message in (*request.messages[:1], request.messages[-1])]
        return any(re.search(pattern, text) for pattern in self.config.untrained for text in texts)

    def _elsewhere(self, model: str) -> Elsewhere | None:
        rule = self.config.rule_for(model)
        if rule in OURS:
            return None
        self._passed_on += 1
        return Elsewhere(rule, self.config.models_key)

    def _earn(self, reward: float) -> None:
        self._earned += reward
        self._rewarded = True

    def _told(self, task: Task) -> dict[str, Any]:
        prompt = task.prompt if isinstance(task.prompt, str) else [dict(message) for message in task.prompt]
        told = {"id": task.id, "prompt": prompt, "seed": task.seed}
        hidden = {"answers": list(task.answers), "metadata": dict(task.metadata)}
        return told | hidden if self.config.answers else told
