"""Compares the plugins whose components a configuration uses with those in a run's plugins.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agent_r1_core.plugins.records import ComponentRecord, PluginRecord, PluginStatus

_COMPARED = {"distribution": "distribution", "version": "version", "file_hash": "file hash"}


def compare(used: Iterable[tuple[ComponentRecord, PluginRecord]], saved: Sequence[Mapping[str, Any]]) -> list[str]:
    """One sentence per plugin that differs; ignores plugins of which nothing is used."""
    then = {plugin["name"]: plugin for plugin in saved if plugin["status"] == PluginStatus.OK}
    sentences: dict[str, None] = {}
    for component, plugin in sorted(used, key=lambda pair: (pair[1].name, pair[0].kind, pair[0].name)):
        if plugin.name not in then:
            origin = _origin_then(component, then.values())
            sentences[
                f"{component.kind} {component.name!r} came from {origin} when the run began, and now comes from plugin "
                f"{plugin.name!r} ({plugin.origin})"
            ] = None
        elif difference := _difference(then[plugin.name], plugin.to_json()):
            sentences[f"plugin {plugin.name!r} has changed since the run began: {difference}"] = None
    return list(sentences)


def _origin_then(component: ComponentRecord, then: Iterable[Mapping[str, Any]]) -> str:
    for plugin in then:
        if any((item["kind"], item["name"]) == (component.kind, component.name) for item in plugin["components"]):
            origin = f"{plugin['distribution']} {plugin['version']}" if plugin["distribution"] else plugin["value"]
            return f"plugin {plugin['name']!r} ({origin})"
    return "no plugin"


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
