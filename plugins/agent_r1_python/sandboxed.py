"""What the tools of this plugin share: one box for each episode, and how an answer or its absence is told."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, ClassVar, Literal

from pydantic import Field

from agent_r1_core import ComponentConfig, Metric, Tool, ToolContext, ToolError, ToolResources
from agent_r1_core.sandbox import UNSAFE, Backend, BoxEnded, BoxTimeout, find_backend

_LOG = logging.getLogger(__name__)
_MARGIN = 0.5
"""Seconds before the time-out of the tool's call at which the sandbox is killed, so that the model hears of it."""


class SandboxConfig(ComponentConfig):
    """Options of the tools that run in a sandbox."""

    seconds: float = Field(5.0, gt=0)
    """For one call, within the recipe's `timeout` of the tool; then the sandbox is killed, and its state is gone."""
    memory: int = Field(512, ge=64)
    """MiB of address space of each process."""
    disk: int = Field(16, ge=1)
    """MiB of files, which lie in memory."""
    output: int = Field(4000, ge=1)
    """Most characters of an answer; more are cut and counted."""
    sandbox: Literal["auto", "bubblewrap", "sandlock"] = "auto"
    """What holds the program; `auto`: the first that works on the machine, in this order."""


class SandboxedTool(Tool):
    """Has one sandbox for each episode, from its first call to its end; an episode's calls run one after the other."""

    Config = SandboxConfig
    needs_folder: ClassVar[bool] = False
    """Whether it writes files."""
    lost: ClassVar[str]
    """What the model is told of a sandbox that is gone."""
    metrics: ClassVar = (
        Metric("failed", "calls whose code raised, or whose command failed", better="lower"),
        Metric("lost", "calls after which the state of the episode's sandbox was gone", better="lower"),
    )

    def __init__(self, config: ComponentConfig | None = None) -> None:
        super().__init__(config)
        self._backend: Backend | None = None
        self._held: set[Any] = set()
        self._key = f"sandbox {id(self)}"

    def start(self, backend: Backend) -> Any:
        """The sandbox of an episode: something with `close()`."""
        raise TypeError(f"tool {type(self).__name__} defines no start(backend); add one")

    def call(self, held: Any, arguments: Any, seconds: Callable[[float], float]) -> tuple[str, bool]:
        """What the model reads, and whether its code failed; `seconds(most)` are left for it now."""
        raise TypeError(f"tool {type(self).__name__} defines no call(held, arguments, seconds); add one")

    def open(self, resources: ToolResources) -> None:
        """Find a sandbox that works here; a ConfigError where there is none."""
        if getattr(self.config, "unsafe", False):
            self._backend = UNSAFE
            _LOG.warning("tool %s has no sandbox (unsafe: true): the model's code can do what you can", self.name)
        else:
            self._backend = find_backend(self.config.sandbox, self.needs_folder)

    def describe(self) -> dict[str, Any] | None:
        """Which sandbox there is."""
        return {"sandbox": self._backend.name} if self._backend is not None else None

    def run(self, arguments: Any, context: ToolContext) -> str:
        """What it printed, and how it ended.

        Raises:
            ToolError: it took too long, or ended its sandbox.
        """
        if self._backend is None:
            raise ToolError(f"the tool {self.name} is not open")
        held = context.state.get(self._key) or context.state.setdefault(self._key, self.start(self._backend))
        self._held.add(held)
        seconds = 0.0

        def left(most: float) -> float:
            nonlocal seconds
            seconds = max(0.0, min(most, context.deadline - time.monotonic() - _MARGIN))
            return seconds

        context.metrics["lost"] = 0.0
        try:
            text, failed = self.call(held, arguments, left)
            context.metrics["failed"] = float(failed)
            return text
        except BoxTimeout:
            problem = f"it took longer than {seconds:.3g} seconds and was stopped"
        except BoxEnded as error:
            problem = f"it ended ({error})"
        context.metrics["lost"] = 1.0
        raise ToolError(f"{problem}; {self.lost}")

    def release(self, context: ToolContext) -> None:
        """Kill the episode's sandbox."""
        held = context.state.get(self._key)  # it stays, so that a call that was given up starts no other
        if held is not None:
            held.close()
            self._held.discard(held)

    def close(self) -> None:
        """Kill what is left."""
        for held in list(self._held):
            held.close()
        self._held.clear()
