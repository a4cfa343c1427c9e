"""Records of discovery, one per plugin found and one per name of a component, and how they differ from a run's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_r1_core.contracts.component import Component
    from agent_r1_core.specs import ComponentSpec, Preset


class PluginStatus(StrEnum):
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
        return (self.preset.summary if self.preset else "") or self.spec.summary

    def to_json(self) -> dict[str, Any]:
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
    name: str
    distribution: str | None
    """None: a local file."""
    version: str | None
    value: str
    """The entry point's value, or the absolute path of a local file."""
    status: PluginStatus
    reason: str = ""
    """One sentence; empty when the status is ok."""
    raised: bool = False
    """Whether its import raised; installing what it misses may mend that without changing the plugin."""
    api: int | None = None
    """`AGENT_R1_PLUGIN_API` of its module, if it was read."""
    components: tuple[ComponentRecord, ...] = ()
    file_hash: str | None = None
    """SHA-256 of a local file."""
    built_in: bool = False
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
    record: ComponentRecord
    cls: type[Component]
    preset_config: dict[str, Any]
    """Options that the preset sets; empty if the name is not a preset's."""


@dataclass(frozen=True)
class Findings:
    problems: list[str]
    unavailable: list[str]
    """Which components of a sound plugin cannot be used on this machine with their default options, and why."""


_COMPARED = {"distribution": "distribution", "version": "version", "file_hash": "file hash"}


def compare(used: Iterable[tuple[ComponentRecord, PluginRecord]], saved: Sequence[Mapping[str, Any]]) -> list[str]:
    """One sentence per plugin that differs; ignores plugins of which nothing is used."""
    then = {plugin["name"]: plugin for plugin in saved if plugin["status"] == PluginStatus.OK}
    sentences: dict[str, None] = {}
    for component, plugin in sorted(used, key=lambda pair: (pair[1].name, pair[0].kind, pair[0].name)):
        if plugin.name not in then:
            origin = recorded_origin(component.kind, component.name, then.values()) or "no plugin"
            sentences[
                f"{component.kind} {component.name!r} came from {origin} when the run began, and now comes from plugin "
                f"{plugin.name!r} ({plugin.origin})"
            ] = None
        elif difference := _difference(then[plugin.name], plugin.to_json()):
            sentences[f"plugin {plugin.name!r} has changed since the run began: {difference}"] = None
    return list(sentences)


def recorded_origin(kind: str, name: str, recorded: Iterable[Mapping[str, Any]]) -> str | None:
    """Which of the plugins that a run recorded had a component, and where it came from; None: none of them."""
    for plugin in recorded:
        if any((item["kind"], item["name"]) == (kind, name) for item in plugin["components"]):
            origin = f"{plugin['distribution']} {plugin['version']}" if plugin["distribution"] else plugin["value"]
            return f"plugin {plugin['name']!r} ({origin})"
    return None


def _difference(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    changes = [
        f"{title} {then.get(key)} became {now.get(key)}"
        for key, title in _COMPARED.items()
        if then.get(key) != now.get(key)
    ]
    before, after = (
        {(component["kind"], component["name"]) for component in plugin["components"]} for plugin in (then, now)
    )
    changes += [f"{kind} {name!r} is gone" for kind, name in sorted(before - after)]
    changes += [f"{kind} {name!r} is new" for kind, name in sorted(after - before)]
    return ", ".join(changes)
