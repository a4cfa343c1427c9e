"""Imports the class that a spec's target names."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_r1_core.errors import ComponentLoadError, describe_error
from agent_r1_core.plugins.kinds import KINDS
from agent_r1_core.plugins.nearest import did_you_mean
from agent_r1_core.plugins.records import ComponentRecord, PluginRecord

if TYPE_CHECKING:
    from agent_r1_core.contracts.component import Component


def import_target(record: ComponentRecord, plugin: PluginRecord) -> type[Component]:
    """Import a component's class.

    Raises:
        ComponentLoadError: the module cannot be imported, lacks the name, or the name is not a class of the kind.
    """
    who = f"{record.kind} {record.qualified!r} ({plugin.origin})"
    module_name, _, path = record.spec.target.partition(":")
    value: Any = _module(module_name, plugin, who)
    for part in path.split("."):
        if not hasattr(value, part):
            hint = did_you_mean(part, dir(value))
            raise ComponentLoadError(f"{who} cannot be loaded: {record.spec.target!r} has no {part!r}{hint}")
        value = getattr(value, part)
    base = KINDS[record.kind].base()
    if inspect.isfunction(value) and record.kind == "tool":
        raise ComponentLoadError(f"{who} is a plain function; put @tool (from agent_r1_core) above {path}")
    if not (isinstance(value, type) and issubclass(value, base)):
        raise ComponentLoadError(f"{who} is not a {base.__name__}; make {path} a class that subclasses it")
    return value


def _module(name: str, plugin: PluginRecord, who: str) -> Any:
    """The module of a target; for a local file, an empty name or the file's own name means the file itself."""
    if plugin.distribution is None and name in ("", Path(plugin.value).stem):
        return plugin.module
    try:
        return import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        text = f"importing {name} raised {describe_error(error)}"
        raise ComponentLoadError(f"{who} cannot be loaded: {text}") from error
