"""The twelve kinds of component, each with its hook, spec and base class."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from agent_r1_core import specs

if TYPE_CHECKING:
    from agent_r1_core.contracts.component import Component


@dataclass(frozen=True)
class Kind:
    """What the loader knows of a kind."""

    name: str
    hook: str
    spec: type[specs.ComponentSpec]
    home: str
    """`module:Class` of the contract, imported when a component is; empty: its components are functions."""

    @property
    def functions(self) -> bool:
        """Whether components of this kind are functions."""
        return not self.home

    def base(self) -> type[Component]:
        """The class that components of this kind subclass (imports it)."""
        module, _, name = self.home.partition(":")
        return getattr(import_module(f"agent_r1_core.contracts.{module}"), name)


_ALL = (
    Kind("tool", "register_tools", specs.ToolSpec, "tool:Tool"),
    Kind("env", "register_envs", specs.EnvSpec, "env:ToolEnv"),
    Kind("reward", "register_rewards", specs.RewardSpec, "reward:RewardFn"),
    Kind("score", "register_scores", specs.ScoreSpec, "score:ScoreFn"),
    Kind("algorithm", "register_algorithms", specs.AlgorithmSpec, "algorithm:Algorithm"),
    Kind("tasks", "register_tasks", specs.TaskSpec, "tasks:TaskSource"),
    Kind("tracker", "register_trackers", specs.TrackerSpec, "tracker:Tracker"),
    Kind("engine", "register_engines", specs.EngineSpec, "engine:Engine"),
    Kind("tool_format", "register_tool_formats", specs.ToolFormatSpec, "tool_format:ToolFormat"),
    Kind("context", "register_contexts", specs.ContextSpec, "context:ContextStrategy"),
    Kind("command", "register_commands", specs.CommandSpec, ""),
    Kind("site", "register_sites", specs.SiteSpec, ""),
)

KINDS: dict[str, Kind] = {kind.name: kind for kind in _ALL}
"""Every kind by name, in the order in which lists show them."""

HOOKS: dict[str, Kind] = {kind.hook: kind for kind in _ALL}
"""Every kind by the name of its hook."""
