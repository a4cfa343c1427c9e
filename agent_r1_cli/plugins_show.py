"""`agent-r1 plugins show NAME`: one component in full, with its options and where its source stands."""

from __future__ import annotations

import inspect
import json
import types
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent_r1_cli.completion import component_names
from agent_r1_cli.output import print_json, print_table
from agent_r1_cli.plugin_options import AsJson, DisabledPlugins, PluginFiles, find_plugins
from agent_r1_cli.plugins_command import KindOption, _check_kind

if TYPE_CHECKING:
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
    agent-r1 plugins show rewards/exact_match     where two plugins share a name
    agent-r1 plugins show multiply -p my_tool.py  a component of a file of yours
    """
    _check_kind(kind)
    registry = find_plugins(plugin, disable_plugin)
    record = _find(registry, name, kind)
    answer = _describe(registry, registry.load(record.kind, record.qualified))
    if as_json:
        print_json(answer)
    else:
        _print(answer)


def _find(registry: Registry, name: str, kind: str | None) -> ComponentRecord:
    """The component of that name, whatever its kind."""
    from agent_r1_core.errors import AmbiguousComponent, UnknownComponent
    from agent_r1_core.plugins import did_you_mean

    if kind is not None:
        return registry.find(kind, name)
    records = [record for record in registry.components() if name in (record.name, record.qualified)]
    kinds = sorted({record.kind for record in records})
    if not records:
        names = {record.name for record in registry.components()}
        hint = did_you_mean(name, names) or "; `agent-r1 plugins list` shows what there is"
        raise UnknownComponent(f"no component is called {name!r}{hint}{registry.not_loaded()}")
    if len(kinds) > 1:
        raise AmbiguousComponent(f"{name!r} is a component of several kinds; say --kind {' or --kind '.join(kinds)}")
    return registry.find(kinds[0], name)


def _describe(registry: Registry, loaded: LoadedComponent) -> dict[str, Any]:
    record, plugin = loaded.record, registry.plugin_of(loaded.record)
    file, line = _source(loaded.cls)
    answer = record.to_json() | {
        "plugin": plugin.name,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "plugin_source": plugin.value,
        "source": file,
        "line": line,
        "aliases": list(record.spec.aliases),
        "presets": [
            {"name": preset.name, "summary": preset.summary, "config": dict(preset.config)}
            for preset in record.spec.presets
        ],
        "doc": inspect.cleandoc(loaded.cls.__doc__ or ""),
        "options": _options(loaded),
    }
    if record.kind == "reward":
        answer |= {"scope": loaded.cls.scope, "range": list(loaded.cls.range)}  # type: ignore[attr-defined]
    if record.kind == "tool":
        tool = loaded.cls.__new__(loaded.cls)
        tool.name = record.canonical
        answer |= {"schema_of_tool": tool.schema()}  # type: ignore[attr-defined]
    return answer


def _source(cls: type) -> tuple[str | None, int | None]:
    """File and first line of a component; of a function tool, those of its function."""
    target = getattr(cls, "function", cls)
    try:
        return inspect.getsourcefile(target), inspect.getsourcelines(target)[1]
    except (OSError, TypeError):
        return None, None


def _options(loaded: LoadedComponent) -> list[dict[str, Any]]:
    """One entry per option; the defaults are those under the preset."""
    options = []
    for name, field in loaded.cls.Config.model_fields.items():
        required = field.is_required() and name not in loaded.preset_config
        default = loaded.preset_config.get(name, None if required else field.get_default(call_default_factory=True))
        options.append(
            {
                "name": name,
                "type": _type_name(field.annotation),
                "required": required,
                "default": _plain(default),
                "doc": " ".join((field.description or "").split()),
            }
        )
    return options


def _type_name(annotation: Any) -> str:
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return "null" if annotation is type(None) else annotation.__name__
    return str(annotation).replace("typing.", "").replace("NoneType", "null").replace("None", "null")


def _plain(value: Any) -> Any:
    """A default as JSON knows it."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return json.loads(json.dumps(value, default=str))


def _print(answer: dict[str, Any]) -> None:
    where = f"{answer['distribution']} {answer['version']}" if answer["distribution"] else answer["plugin_source"]
    facts = {
        "component": f"{answer['kind']} {answer['qualified']}",
        "summary": answer["summary"],
        "plugin": f"{answer['plugin']} ({where})",
        "target": answer["target"],
        "source": f"{answer['source']}:{answer['line']}" if answer["source"] else "",
        "alias of": answer["alias_of"] or "",
        "preset of": f"{answer['preset_of']}, with {json.dumps(answer['preset'])}" if answer["preset_of"] else "",
        "aliases": ", ".join(answer["aliases"]),
        "scores": f"the {answer['scope']}, from {answer['range'][0]} to {answer['range'][1]}"
        if "scope" in answer
        else "",
    }
    for title, text in facts.items():
        if text:
            print(f"{title + ':':<11}{text}")
    print(f"\n{answer['doc']}\n" if answer["doc"] else "")
    if answer["options"]:
        rows = [
            (o["name"], o["type"], "required" if o["required"] else json.dumps(o["default"]), o["doc"])
            for o in answer["options"]
        ]
        print_table(("OPTION", "TYPE", "DEFAULT", "MEANING"), rows)
    else:
        print("It has no options.")
    if answer["presets"]:
        print()
        presets = [(p["name"], json.dumps(p["config"]), p["summary"]) for p in answer["presets"]]
        print_table(("PRESET", "OPTIONS", "SUMMARY"), presets)
    if "schema_of_tool" in answer:
        print("\nTool schema, as the model is told:")
        print(json.dumps(answer["schema_of_tool"], indent=2, ensure_ascii=False))
