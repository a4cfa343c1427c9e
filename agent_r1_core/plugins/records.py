"""Records of discovery: one per plugin found, one per name of a component."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_r1_core.contracts.component import Component
    from agent_r1_core.specs import ComponentSpec, Preset


class PluginStatus(StrEnum):
    """What became of a plugin."""

    OK = "ok"
    FAILED = "failed"
    """It cannot be imported, or its hooks break the rules; `reason` says which."""
    INCOMPATIBLE = "incompatible"
    """Its module was written for another plugin API, or does not say for which one."""
    CONFLICTING = "conflicting"
    """Another plugin has the same name; it was not imported."""
    DISABLED = "disabled"
    """Switched off by the user; it was not imported."""


@dataclass(frozen=True)
class ComponentRecord:
    """One name of a component."""

    kind: str
    name: str
    plugin: str
    spec: ComponentSpec
    preset: Preset | None = None
    """Set where the name is a preset's."""
    alias_of: str | None = None
    """The component's own name, if this is an alias."""

    @property
    def qualified(self) -> str:
        """`plugin/name`, which is never ambiguous."""
        return f"{self.plugin}/{self.name}"

    @property
    def canonical(self) -> str:
        """The name of an instance, and of its logs: an alias becomes the component's name, a preset keeps its own."""
        return self.alias_of or self.name

    @property
    def summary(self) -> str:
        """One line for lists."""
        return (self.preset.summary if self.preset else "") or self.spec.summary

    def to_json(self) -> dict[str, Any]:
        """For plugins.json and `--json`."""
        return {
            "kind": self.kind,
            "name": self.name,
            "plugin": self.plugin,
            "qualified": self.qualified,
            "target": self.spec.target,
            "summary": self.summary,
            "alias_of": self.alias_of,
            "preset_of": self.spec.name if self.preset else None,
            "preset": dict(self.preset.config) if self.preset else None,
        }


@dataclass(frozen=True)
class PluginRecord:
    """One plugin that was found, loaded or not."""

    name: str
    distribution: str | None
    """None: a local file."""
    version: str | None
    value: str
    """The entry point's value, or the absolute path of a local file."""
    status: PluginStatus
    reason: str = ""
    """One sentence; empty when the status is ok."""
    api: int | None = None
    """`AGENT_R1_PLUGIN_API` of its module, if it was read."""
    components: tuple[ComponentRecord, ...] = ()
    file_hash: str | None = None
    """SHA-256 of a local file."""
    built_in: bool = False
    """Whether it belongs to agent-r1."""
    module: Any = field(default=None, repr=False, compare=False)
    """The imported plugin module or object; None for a plugin of another distribution, which another process read."""

    @property
    def origin(self) -> str:
        """Where it comes from, for people: `agent-r1 0.1.0`, or a path."""
        return f"{self.distribution} {self.version}" if self.distribution else self.value

    @property
    def is_expected(self) -> bool:
        """Whether it is built in or named by the user, and not merely installed."""
        return self.built_in or self.distribution is None

    def to_json(self) -> dict[str, Any]:
        """For plugins.json and `--json`."""
        return {
            "name": self.name,
            "distribution": self.distribution,
            "version": self.version,
            "value": self.value,
            "status": str(self.status),
            "reason": self.reason,
            "api": self.api,
            "file_hash": self.file_hash,
            "components": [component.to_json() for component in self.components],
        }


@dataclass(frozen=True)
class LoadedComponent:
    """A component whose target was imported."""

    record: ComponentRecord
    cls: type[Component]
    preset_config: dict[str, Any]
    """Options that the preset sets; empty if the name is not a preset's."""


@dataclass(frozen=True)
class Findings:
    """What a check of a plugin found."""

    problems: list[str]
    """What is wrong with it."""
    unavailable: list[str]
    """Which components of a sound plugin this machine cannot run, and why."""
