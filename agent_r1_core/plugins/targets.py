"""Imports what a spec's target names: the class of a component, or a function, as of a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable
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
    value, who, path = _value(record, plugin), _who(record, plugin), record.spec.target.partition(":")[2]
    base = KINDS[record.kind].base()
    if inspect.isfunction(value) and record.kind == "tool":
        raise ComponentLoadError(f"{who} is a plain function; put @tool (from agent_r1_core) above {path}")
    if not (isinstance(value, type) and issubclass(value, base)):
        raise ComponentLoadError(f"{who} is not a {base.__name__}; make {path} a class that subclasses it")
    return value


def import_function(record: ComponentRecord, plugin: PluginRecord) -> Callable[..., Any]:
    """Import a component that is a function.

    Raises:
        ComponentLoadError: the module cannot be imported, lacks the name, or the name is no function.
    """
    value: Any = _value(record, plugin)
    if not inspect.isfunction(value):
        raise ComponentLoadError(f"{_who(record, plugin)} is not a function; name a function of the module")
    return value


def _who(record: ComponentRecord, plugin: PluginRecord) -> str:
    return f"{record.kind} {record.qualified!r} ({plugin.origin})"


def _value(record: ComponentRecord, plugin: PluginRecord) -> Any:
    who = _who(record, plugin)
    module, _, path = record.spec.target.partition(":")
    value: Any = _module(module, plugin, who)
    for part in path.split("."):
        if not hasattr(value, part):
            hint = did_you_mean(part, dir(value))
            raise ComponentLoadError(f"{who} cannot be loaded: {record.spec.target!r} has no {part!r}{hint}")
        value = getattr(value, part)
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
