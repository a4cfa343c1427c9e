"""Turns candidates into records of what is loaded, and why the rest is not. One broken plugin stops nothing."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from agent_r1_core.errors import ConfigError, raised_at
from agent_r1_core.plugins.hooks import BrokenPlugin, IncompatiblePlugin, read_api, read_components
from agent_r1_core.plugins.nearest import did_you_mean
from agent_r1_core.plugins.records import PluginRecord, PluginStatus
from agent_r1_core.plugins.sources import Candidate, candidates


def discover(local_files: Sequence[Path | str], disabled: Collection[str]) -> list[PluginRecord]:
    """Find and read every plugin; if several have one name, the first is loaded and the others are shadowed.

    Args:
        local_files: Python files to load as plugins, named by their stem.
        disabled: plugins not to import, by name or `distribution/name`.

    Raises:
        ConfigError: a local file does not exist, or no plugin has a name that is to be disabled.
    """
    plugins = candidates(local_files)
    _check_disabled(plugins, disabled)
    records: list[PluginRecord] = []
    taken: dict[str, PluginRecord] = {}
    for candidate in plugins:
        record = _unread(candidate)
        if candidate.name in disabled or f"{candidate.distribution}/{candidate.name}" in disabled:
            record = replace(record, status=PluginStatus.DISABLED, reason="it was disabled by the user")
        elif candidate.name in taken:
            first = taken[candidate.name].origin
            reason = f"another plugin of that name comes first, from {first}; rename, uninstall or disable one of them"
            record = replace(record, status=PluginStatus.SHADOWED, reason=reason)
        else:
            record = taken[candidate.name] = _read(candidate, record)
        records.append(record)
    return records


def _unread(candidate: Candidate) -> PluginRecord:
    return PluginRecord(
        name=candidate.name,
        distribution=candidate.distribution or None,
        version=candidate.version,
        value=candidate.value,
        status=PluginStatus.OK,
        file_hash=candidate.file_hash,
    )


def _read(candidate: Candidate, record: PluginRecord) -> PluginRecord:
    """Import a plugin and read its hooks; what it prints goes to stderr, since stdout is the command's answer."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            module = candidate.load()
            record = replace(record, module=module)
            record = replace(record, api=read_api(module))
            components = read_components(module, candidate.name, local=candidate.entry_point is None)
    except IncompatiblePlugin as error:
        return replace(record, status=PluginStatus.INCOMPATIBLE, reason=str(error))
    except BrokenPlugin as error:
        return replace(record, status=PluginStatus.FAILED, reason=str(error))
    except (Exception, SystemExit) as error:
        reason = f"importing {candidate.value} raised {type(error).__name__}: {error}{raised_at(error)}"
        return replace(record, status=PluginStatus.FAILED, reason=reason)
    return replace(record, components=components)


def _check_disabled(plugins: Sequence[Candidate], disabled: Collection[str]) -> None:
    known = {plugin.name for plugin in plugins}
    known |= {f"{plugin.distribution}/{plugin.name}" for plugin in plugins if plugin.distribution}
    for name in sorted(set(disabled) - known):
        raise ConfigError(f"no plugin called {name!r} can be disabled{did_you_mean(name, known)}")
