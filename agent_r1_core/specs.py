"""Specs: how a plugin declares its components, by name and lazy target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, ClassVar


@dataclass(frozen=True)
class Preset:
    """A further name of a component, with some options set: `Preset("dr_grpo", {"normalise_std": False})`."""

    name: str
    config: Mapping[str, Any]
    summary: str = ""


@dataclass(frozen=True)
class ComponentSpec:
    """Names a component; its target is imported on first use."""

    kind: ClassVar[str] = ""

    name: str
    """Lower case, digits, `_` and `+`: what recipes say."""
    target: str
    """`package.module:Class`; for a tool also a function under `@tool`."""
    summary: str
    """One line for `agent-r1 plugins list`."""
    aliases: tuple[str, ...] = ()
    presets: tuple[Preset, ...] = field(default=())


class ToolSpec(ComponentSpec):
    kind = "tool"


class EnvSpec(ComponentSpec):
    kind = "env"


class RewardSpec(ComponentSpec):
    kind = "reward"


class ScoreSpec(ComponentSpec):
    kind = "score"


class AlgorithmSpec(ComponentSpec):
    kind = "algorithm"


class TaskSpec(ComponentSpec):
    kind = "tasks"


class TrackerSpec(ComponentSpec):
    kind = "tracker"


class EngineSpec(ComponentSpec):
    kind = "engine"


class ToolFormatSpec(ComponentSpec):
    kind = "tool_format"


class ContextSpec(ComponentSpec):
    kind = "context"


class CommandSpec(ComponentSpec):
    """Declares a command of `agent-r1`; its target is a function, which Typer reads.

    The name is what is typed, one word or a group and a word (`wiki build`), with `-`, too. There are no aliases and
    presets.
    """

    kind = "command"


@dataclass(frozen=True)
class SiteSpec(ComponentSpec):
    """Declares a site, where the workers of a run are; its target is a function that opens one (`OpenSite`).

    There are no aliases and presets.
    """

    kind = "site"

    needs: tuple[str, ...] = ()
    """Packages that it imports when it opens, by the names of their modules."""
    install: str = ""
    """The command that installs them, for messages."""

    def unavailable(self) -> str | None:
        """Which of its packages this machine lacks and what to do; None: it has all of them."""
        lacking = [name for name in self.needs if find_spec(name) is None]
        what = f"run: {self.install}" if self.install else "install what is missing"
        verb = "is" if len(lacking) == 1 else "are"
        return f"needs {' and '.join(lacking)}, which {verb} not installed; {what}" if lacking else None
