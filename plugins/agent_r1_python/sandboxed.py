"""What the tools of this plugin share: one box for each episode, and how an answer or its absence is told."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from agent_r1_core import ComponentConfig, Metric, Tool, ToolContext, ToolError, ToolResources
from agent_r1_core.sandbox import UNSAFE, Backend, Bounds, Box, BoxEnded, BoxTimeout, EpisodeBox, find_backend

_LOG = logging.getLogger(__name__)
_MARGIN = 0.5
"""Seconds before the time-out of the tool's call at which the sandbox is killed, so that the model hears of it."""
_START = 60.0
"""Seconds that a sandbox may take to start, where the tool's call has no time-out."""


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
    guest: ClassVar[str]
    """The file beside this one that runs in the sandbox."""
    needs_folder: ClassVar[bool] = False
    """Whether the guest writes files."""
    lost: ClassVar[str]
    """What the model is told of a sandbox that is gone."""
    metrics: ClassVar = (
        Metric("failed", "calls whose code raised, or whose command failed", better="lower"),
        Metric("lost", "calls after which the state of the episode's sandbox was gone", better="lower"),
    )

    def __init__(self, config: ComponentConfig | None = None) -> None:
        super().__init__(config)
        self._backend: Backend | None = None
        self._program = Path(__file__).with_name(self.guest).read_text()
        self._boxes: set[EpisodeBox] = set()
        self._key = f"sandbox {id(self)}"

    def bounds(self) -> Bounds:
        return Bounds(memory=self.config.memory, disk=self.config.disk)

    def open(self, resources: ToolResources) -> None:
        """Find a sandbox that works here; a ConfigError where there is none."""
        if getattr(self.config, "unsafe", False):
            self._backend = UNSAFE
            _LOG.warning(
                "tool %s runs without a sandbox (unsafe: true): the model's code can do what you can", self.name
            )
        else:
            self._backend = find_backend(self.config.sandbox, self.needs_folder)

    def describe(self) -> dict[str, Any] | None:
        """Which sandbox holds the program."""
        return {"sandbox": self._backend.name} if self._backend is not None else None

    def ask(self, request: dict[str, Any], context: ToolContext) -> str:
        """The guest's answer to a request; a ToolError where there is none."""
        text, dropped = self._answer(request, context)
        cut = f"\n[{dropped} more characters]" if dropped else ""
        return text.rstrip("\n")[: self.config.output] + cut or "(no output)"

    def _answer(self, request: dict[str, Any], context: ToolContext) -> tuple[str, int]:
        box = context.state.setdefault(self._key, EpisodeBox(self._start))
        self._boxes.add(box)
        context.metrics["lost"] = 0.0
        left = min(context.deadline - time.monotonic() - _MARGIN, _START)
        begun = time.monotonic()
        try:
            box.exchange(json.dumps({"most": 0}).encode(), left, 1 << 10)  # it has started
            left = min(self.config.seconds, left - (time.monotonic() - begun))
            data = json.dumps({"most": self.config.output, **request}).encode()
            answer = json.loads(box.exchange(data, left, (1 << 14) + 12 * self.config.output))
            context.metrics["failed"] = float(bool(answer["failed"]))
            return str(answer["text"]), int(answer["dropped"])
        except BoxTimeout:
            problem = f"it took longer than {max(0.0, left):.3g} seconds and was stopped"
        except BoxEnded as error:
            problem = f"it ended ({error})"
        except (ValueError, LookupError, TypeError):
            problem = "it sent no answer"
            box.lose()
        context.metrics["lost"] = 1.0
        raise ToolError(f"{problem}; {self.lost}")

    def release(self, context: ToolContext) -> None:
        """Kill the episode's sandbox."""
        box = context.state.get(self._key)  # it stays, so that a call that was given up starts no other
        if box is not None:
            box.close()
            self._boxes.discard(box)

    def close(self) -> None:
        """Kill what is left."""
        for box in list(self._boxes):
            box.close()
        self._boxes.clear()

    def _start(self) -> Box:
        if self._backend is None:
            raise ToolError("the tool is not open")
        return Box(self._backend, self._program, self.bounds())
