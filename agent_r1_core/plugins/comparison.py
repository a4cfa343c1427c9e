"""Compares the plugins of this environment with those in a run's plugins.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent_r1_core.plugins.records import PluginRecord, PluginStatus

_COMPARED = {"status": "status", "distribution": "distribution", "version": "version", "file_hash": "file hash"}


def compare(plugins: Sequence[PluginRecord], saved: Sequence[Mapping[str, Any]]) -> list[str]:
    """One sentence per plugin that differs; ignores plugins that are loaded neither here nor in the run."""
    now = _by_name(plugin.to_json() for plugin in plugins)
    then = _by_name(saved)
    sentences = []
    for name in sorted(now.keys() | then.keys()):
        if name not in now:
            sentences.append(f"plugin {name!r} of the run ({_origin(then[name])}) is not loaded here; install it")
        elif name not in then:
            origin = f"{name!r} ({_origin(now[name])})"
            sentences.append(f"plugin {origin} is loaded here and was not when the run began; -P {name} leaves it out")
        elif difference := _difference(then[name], now[name]):
            sentences.append(f"plugin {name!r} has changed since the run began: {difference}")
    return sentences


def _by_name(plugins: Any) -> dict[str, Mapping[str, Any]]:
    return {plugin["name"]: plugin for plugin in plugins if plugin["status"] == PluginStatus.OK}


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


def _origin(plugin: Mapping[str, Any]) -> str:
    return f"{plugin['distribution']} {plugin['version']}" if plugin["distribution"] else str(plugin["value"])
