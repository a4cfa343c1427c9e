"""`agent-r1 plugins show NAME`: one component in full, with its options and the place of its source."""

from __future__ import annotations

import inspect
import json
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

import typer

from agent_r1_cli.completion import component_names
from agent_r1_cli.component_page import print_page
from agent_r1_cli.output import print_json
from agent_r1_cli.plugin_options import AsJson, DisabledPlugins, PluginFiles, find_plugins
from agent_r1_cli.plugins_command import KindOption, _check_kind

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from agent_r1_core.plugins import ComponentRecord, LoadedComponent, Registry

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="A component: `name` or `plugin/name`.", autocompletion=component_names),
]


def show(
    name: Name,
    kind: KindOption = None,
    as_json: AsJson = False,
    plugin: PluginFiles = None,
    disable_plugin: DisabledPlugins = None,
) -> None:
    """Show one component with all its options.

    \b
    agent-r1 plugins show grpo
    agent-r1 plugins show rewards/exact_match     if two plugins share a name
    agent-r1 plugins show multiply -p my_tool.py  a component of a local file
    """
    from agent_r1_core.plugins import KINDS

    _check_kind(kind)
    registry = find_plugins(plugin, disable_plugin)
    record = _find(registry, name, kind)
    if KINDS[record.kind].functions:
        answer = _facts(registry, record, registry.function(record.kind, record.qualified))
    else:
        answer = _describe(registry, registry.load(record.kind, record.qualified))
    if as_json:
        print_json(answer)
    else:
        print_page(answer)


def _find(registry: Registry, name: str, kind: str | None) -> ComponentRecord:
    """The component of that name, of any kind unless one is given."""
    from agent_r1_core.errors import AmbiguousComponent, UnknownComponent
    from agent_r1_core.nearest import did_you_mean

    if kind is not None:
        return registry.find(kind, name)
    records = [record for record in registry.components() if name in (record.name, record.qualified)]
    kinds = sorted({record.kind for record in records})
    if not records:
        names = {record.name for record in registry.components()}
        hint = did_you_mean(name, names) or "; `agent-r1 plugins list` lists all components"
        raise UnknownComponent(f"no component is called {name!r}{hint}{registry.not_loaded()}")
    if len(kinds) > 1:
        raise AmbiguousComponent(f"{name!r} is a component of several kinds; add --kind {' or --kind '.join(kinds)}")
    return registry.find(kinds[0], name)


def _describe(registry: Registry, loaded: LoadedComponent) -> dict[str, Any]:
    record = loaded.record
    answer = _facts(registry, record, loaded.cls) | {
        "aliases": list(record.spec.aliases),
        "presets": [
            {"name": preset.name, "summary": preset.summary, "config": dict(preset.config)}
            for preset in record.spec.presets
        ],
        "options": [_option(*named, loaded.preset_config) for named in loaded.cls.Config.model_fields.items()],
        "recipe_options": _recipe_options(record.kind),
        "metrics": _metrics(loaded),
    }
    if record.kind == "reward":
        answer |= {"scope": loaded.cls.scope, "range": list(loaded.cls.range), "cap": loaded.cls.cap}  # type: ignore[attr-defined]
    if record.kind == "env":
        answer |= {"uses_tools": loaded.cls.uses_tools()}  # type: ignore[attr-defined]
    if record.kind == "tool":
        from agent_r1_core.contracts.toolset import Toolset

        tool = loaded.cls.__new__(loaded.cls)
        tool.name = record.canonical
        bounds = loaded.cls.reward_range  # type: ignore[attr-defined]
        answer |= {"reward_range": bounds and list(bounds)}
        if not issubclass(loaded.cls, Toolset):
            answer |= {"schema_of_tool": tool.schema()}  # type: ignore[attr-defined]
    return answer


def _facts(registry: Registry, record: ComponentRecord, target: Any) -> dict[str, Any]:
    """What there is to say of every component and command."""
    plugin, (file, line) = registry.plugin_of(record), _source(target)
    return record.to_json() | {
        "plugin": plugin.name,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "plugin_source": plugin.value,
        "source": file,
        "line": line,
        "doc": inspect.cleandoc(target.__doc__ or ""),
    }


def _source(cls: Any) -> tuple[str | None, int | None]:
    """File and first line of a component; for a function tool, of its function."""
    target = getattr(cls, "function", cls)
    try:
        return inspect.getsourcefile(inspect.unwrap(target)), inspect.getsourcelines(inspect.unwrap(target))[1]
    except (OSError, TypeError):
        return None, None


def _recipe_options(kind: str) -> list[dict[str, Any]]:
    """The options that a recipe may set for every component of a kind, such as a reward's weight."""
    from agent_r1_core.contracts.blocks import ComponentBlock, RewardBlock, ScoreBlock, ToolBlock

    blocks: dict[str, type[ComponentBlock]] = {"reward": RewardBlock, "score": ScoreBlock, "tool": ToolBlock}
    if kind not in blocks:
        return []
    return [_option(key, blocks[kind].model_fields[key], {}) for key in blocks[kind].own_keys if key != "name"]


def _option(name: str, field: FieldInfo, preset: Mapping[str, Any]) -> dict[str, Any]:
    required = field.is_required() and name not in preset
    default = preset.get(name, None if required else field.get_default(call_default_factory=True))
    return {
        "name": name,
        "type": type_in_words(field.annotation, field.metadata),
        "required": required,
        "default": _plain(default),
        "doc": " ".join((field.description or "").split()),
    }


def _metrics(loaded: LoadedComponent) -> list[dict[str, Any]]:
    """The metrics that a component declares, under the names that a run reports."""
    from agent_r1_core.metrics.catalogue import Catalogue

    core = set(Catalogue())
    catalogue = Catalogue.with_components([(loaded.record.kind, loaded.record.canonical, loaded.cls)])
    return [metric.to_json() for metric in catalogue if metric not in core]


def _plain(value: Any) -> Any:
    """A default as JSON data."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return json.loads(json.dumps(value, default=str))


_PLAIN = {
    bool: "true, false",
    int: "whole number",
    float: "number",
    str: "text",
    Path: "path",
    types.NoneType: "null",
}


def type_in_words(annotation: Any, metadata: Iterable[Any] = ()) -> str:
    """The type of an option, with its bounds."""
    from pydantic import BaseModel

    from agent_r1_core.contracts.blocks import ComponentBlock
    from agent_r1_core.contracts.component import DataPath, LocalPath

    if annotation in (DataPath, LocalPath):
        return "path"
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return type_in_words(inner[0], (*inner[1:], *metadata))
    if origin in (Union, types.UnionType):
        words = [type_in_words(each, metadata) for each in inner]
        return (", or " if any("," in each for each in words) else " or ").join(words)  # `one of a, b, or null`
    if origin is Literal:
        return f"one of {', '.join(str(each) for each in inner)}"
    if _is(origin or annotation, Mapping):
        return "mapping"
    if _is(origin or annotation, Sequence) and annotation is not str:
        return f"list, each {type_in_words(inner[0])}" if inner else "list"
    if _is(annotation, ComponentBlock):
        return "name, or mapping with name and options"
    if _is(annotation, BaseModel):
        return "mapping"
    if annotation in (int, float):
        return ", ".join([_PLAIN[annotation], *_bounds(metadata)])
    return _PLAIN.get(annotation, "anything")


def _is(annotation: Any, base: type) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, base)


def _bounds(metadata: Iterable[Any]) -> list[str]:
    """`above 0`, `at least 1`, `from 1 to 100`."""
    limits = {
        name: getattr(each, name) for each in metadata for name in ("gt", "ge", "lt", "le") if hasattr(each, name)
    }
    if {"ge", "le"} <= limits.keys():
        return [f"from {limits['ge']} to {limits['le']}"]
    words = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
    return [f"{words[name]} {limits[name]}" for name in words if limits.get(name) is not None]
