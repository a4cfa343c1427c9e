"""The environment `harbor`: the policy works on a task with the tool `shell`, and ends with a reply without a call.

Its files are then graded by the task's own tests, in a new sandbox or container that has the tests and that it never
saw. That happens too when its turns are over, but not when its context is full: such an episode earns nothing.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from agent_r1_core import (
    Action,
    CallRecord,
    ComponentConfig,
    EnvConfig,
    EnvServices,
    EpisodeError,
    Markup,
    Observation,
    Step,
    Task,
    ToolArguments,
    ToolCall,
    ToolEnv,
    ToolFormat,
    ToolFormatBlock,
    ToolResult,
)
from agent_r1_core.sandbox import Bounds, BoxEnded, BoxTimeout, File, Shell, find_backend
from agent_r1_harbor.folder import HarborTask, read_task
from agent_r1_harbor.grading import grade
from agent_r1_harbor.places import Container, Place
from agent_r1_harbor.source import find_container, programs


class HarborEnvConfig(EnvConfig):
    """Options of `harbor`."""

    max_turns: int = Field(20, ge=1)
    """Actions an episode may take; after the last one it is graded."""
    max_tokens: int = Field(8192, ge=1)
    """Longest context of the policy in tokens."""
    timeout: float = Field(1500.0, gt=0)
    """Seconds for one reset or step, grading included; the episode fails when it takes longer."""
    format: ToolFormatBlock = ToolFormatBlock(name="hermes")
    """How calls are written: a tool format by name, or `{name: ..., option: value}`."""
    system_prompt: str | None = None
    """null: a default that tells the model how to call the shell and how to end; empty: no system prompt."""
    seconds: float = Field(30.0, gt=0)
    """For one command, within the task's `agent.timeout_sec` for all of them."""
    memory: int = Field(1024, ge=64)
    """MiB of each process, and of a container, where the task does not say less."""
    disk: int = Field(64, ge=1)
    """MiB of files in each folder of a sandbox, where the task does not say less; they lie in memory."""
    processes: int = Field(64, ge=4)
    """Most at once."""
    output: int = Field(4000, ge=1)
    """Most bytes of a command's output that are shown."""
    container: str | None = None
    """The command for tasks that need an image, with docker's arguments; null: docker or podman, if one answers."""
    success_at: float = 1.0
    """The least reward that counts as success."""


class _Arguments(ToolArguments):
    command: str = Field(max_length=100_000, description="The command, e.g. ls -l")


SCHEMA: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "shell",
        "description": "Runs a shell command in the task's folder and returns what it prints. Files stay.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string", "description": "The command, e.g. ls -l"}},
            "required": ["command"],
            "additionalProperties": False,
        },
    },
}
END = "When the task is done, reply without a tool call."
_CUT = "the reply was cut off before its end; be shorter"


class Harbor(ToolEnv):
    """One task, in a sandbox of its own, or in a container where it needs an image."""

    Config = HarborEnvConfig

    def __init__(self, config: ComponentConfig | None = None, services: EnvServices | None = None) -> None:
        super().__init__(config, services)
        self._task: HarborTask
        self._place: Place | None = None
        self._closed = False
        self._turns = 0
        self._spent = 0.0
        if self.services.tool_format is not None:
            self.services.tool_format.bind([SCHEMA])

    @classmethod
    def programs(cls, config: Any) -> dict[str, str]:
        return programs(config)

    @classmethod
    def uses_tools(cls) -> bool:
        """Its shell is its own."""
        return False

    def tool_schemas(self) -> list[dict[str, Any]]:
        """The shell's, if the format passes schemas to the chat template."""
        return [SCHEMA] if self._format().template_tools else []

    def instructions(self) -> str:
        """How to call the shell, and how to end."""
        return self._format().system_prompt([SCHEMA], Markup(END))

    def reset(self, task: Task) -> Observation:
        """The instruction; the files of `environment/` lie in the working folder, unless an image has them."""
        self._task = read_task(Path(task.metadata["folder"]))
        self._begin()
        prompt = self.config.system_prompt
        system = self.instructions() if prompt is None else Markup(prompt)
        first = [{"role": "system", "content": system}] if system else []
        return Observation([*first, {"role": "user", "content": self._task.instruction}])

    def step(self, action: Action) -> Step:
        """Run the action's commands one after the other, or grade."""
        self._turns += 1
        parsed, begun = self._format().parse(action.whole), time.perf_counter()
        errors = [*parsed.errors, *([_CUT] if action.cut and not (parsed.calls or parsed.errors) else [])]
        done = not parsed.calls and not errors
        results = [self._run(call) for call in parsed.calls]
        seconds = time.perf_counter() - begun
        results_shown = [*results, *(ToolResult("error", f"Error: {error}.", error=True) for error in errors)]
        reward = self._grade() if done or self._turns >= self.config.max_turns else None
        return Step(
            Observation() if done else Observation(self._format().results(results_shown)),
            reward=reward or 0.0,
            terminated=done,
            success=None if reward is None else reward >= self.config.success_at,
            calls=[
                CallRecord(call.name, call.arguments, result.text[:200] if result.error else None, result.seconds)
                for call, result in zip(parsed.calls, results, strict=True)
            ],
            errors=errors,
            tool_seconds=seconds,
        )

    def close(self) -> None:
        """End the sandbox or container, and start no other."""
        self._closed = True
        if self._place is not None:
            self._place.close()

    def _format(self) -> ToolFormat:
        if self.services.tool_format is None:
            raise EpisodeError("environment harbor got no tool format; pass one in its services")
        return self.services.tool_format

    def _run(self, call: ToolCall) -> ToolResult:
        begun = time.perf_counter()
        try:
            if call.name != "shell":
                raise ValueError(f"there is no tool {call.name[:40]!r}; the tool is shell")
            text, error = self._command(_Arguments.model_validate(call.arguments).command), False
        except ValidationError:
            text, error = "Error: shell takes one argument, command, a text.", True
        except ValueError as wrong:
            text, error = f"Error: {wrong}.", True
        return ToolResult(call.name[:40], text, error=error, seconds=time.perf_counter() - begun)

    def _command(self, command: str) -> str:
        left = self._task.agent_seconds - self._spent
        if self._place is None or left <= 0:
            raise ValueError("the time for this task is over; reply without a tool call")
        begun = time.monotonic()
        try:
            return str(
                self._place.run(command, min(self.config.seconds, left), self.config.output, self._task.environment)
            )
        except (BoxEnded, BoxTimeout) as error:
            self._place.close()
            self._begin()
            raise ValueError(f"the command ended its sandbox ({error}); the files are as in the beginning") from error
        finally:
            self._spent += time.monotonic() - begun

    def _grade(self) -> float:
        files: dict[str, File] = {}
        if self._place is not None:
            place, self._place = self._place, None
            try:
                files = place.take(self._task.workdir)
            except (BoxEnded, BoxTimeout):
                pass  # the agent ended its sandbox, and its files with it
            finally:
                place.close()
        return grade(self._task, files, self._open)

    def _open(self) -> Place:
        config, task = self.config, self._task
        memory = min(config.memory, task.memory or config.memory)
        if not task.needs_image:
            folders = (task.workdir, "/tmp", "/tests", "/logs")
            disk = min(config.disk, task.disk or config.disk)
            return Shell(find_backend(writable=True), Bounds(memory, disk, config.processes, folders=folders))
        container = find_container(config.container)
        if container is None:
            raise EpisodeError(f"the task {task.folder} needs an image, and no docker or podman answers here")
        return Container(container, task, memory, config.processes)

    def _begin(self) -> None:
        """Open the agent's place, with the files that the task gives it."""
        self._place = place = self._open()
        if self._closed:  # by another thread, which may have seen no place
            self.close()
            raise EpisodeError("the episode is over")
        if isinstance(place, Container):
            self._task = replace(self._task, workdir=place.workdir)
        files = self._task.files("environment")
        if files and not self._task.builds:
            place.put(self._task.workdir, files)
