"""Turns candidates into records of what is loaded, and why the rest is not. One broken plugin stops nothing.

Built-in plugins and local files are imported here, those of other distributions in processes of their own. Where
several plugins have one name, a built-in one is loaded, else a local file; two others are both left out.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from agent_r1_core.errors import ConfigError
from agent_r1_core.nearest import did_you_mean
from agent_r1_core.plugins.reading import read
from agent_r1_core.plugins.records import PluginRecord, PluginStatus
from agent_r1_core.plugins.sources import Candidate, candidates

Admit = Callable[[Sequence[Candidate]], None]
"""Raises if one of these local files may not run."""


def discover(
    local_files: Sequence[Path | str],
    disabled: Collection[str],
    admit: Admit = lambda files: None,
    anew: bool = False,
) -> list[PluginRecord]:
    """Find and read every plugin; arguments and errors are those of `Registry.discover`."""
    plugins = candidates(local_files)
    _check_disabled(plugins, disabled)
    off = [one for one in plugins if one.name in disabled or f"{one.distribution}/{one.name}" in disabled]
    records = {plugin: plugin.record(PluginStatus.DISABLED, "it was disabled by the user") for plugin in off}
    records |= _conflicts([plugin for plugin in plugins if plugin not in off])
    loaded = [plugin for plugin in plugins if plugin not in records]
    admit([plugin for plugin in loaded if plugin.is_local])
    records |= _read(loaded, anew)
    return [records[plugin] for plugin in plugins]


def _read(plugins: Sequence[Candidate], anew: bool) -> Mapping[Candidate, PluginRecord]:
    ours = [plugin for plugin in plugins if plugin.is_built_in or plugin.is_local]
    others = [plugin for plugin in plugins if plugin not in ours]
    with contextlib.redirect_stdout(sys.stderr):  # stdout is the command's answer
        records = {plugin: read(plugin) for plugin in ours}
    if others:
        from agent_r1_core.plugins.elsewhere import read_elsewhere

        records |= read_elsewhere(others, anew)
    return records


def _conflicts(plugins: Sequence[Candidate]) -> dict[Candidate, PluginRecord]:
    """The plugins that are not loaded because another one has their name."""
    conflicts = {}
    for plugin in plugins:
        rivals = [other for other in plugins if other.name == plugin.name and other != plugin]
        stronger = [other for other in rivals if _strength(other) >= _strength(plugin)]
        if stronger:
            names = " and ".join(other.origin for other in rivals)
            reason = f"a plugin of the same name comes from {names}; rename, uninstall or disable one of them"
            conflicts[plugin] = plugin.record(PluginStatus.CONFLICTING, reason)
    return conflicts


def _strength(plugin: Candidate) -> int:
    """A built-in plugin is never replaced; a local file was asked for, an installed plugin only lies there."""
    return 2 if plugin.is_built_in else 1 if plugin.is_local else 0


def _check_disabled(plugins: Sequence[Candidate], disabled: Collection[str]) -> None:
    known = {plugin.name for plugin in plugins}
    known |= {f"{plugin.distribution}/{plugin.name}" for plugin in plugins if plugin.distribution}
    for name in sorted(set(disabled) - known):
        raise ConfigError(f"no plugin called {name!r} can be disabled{did_you_mean(name, known)}")
