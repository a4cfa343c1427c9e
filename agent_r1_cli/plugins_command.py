"""`agent-r1 plugins list` and `doctor`: show what is installed, and what is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent_r1_cli.completion import kinds
from agent_r1_cli.output import print_json, print_table, say
from agent_r1_cli.plugin_options import AsJson, DisabledPlugins, PluginFiles, find_plugins

if TYPE_CHECKING:
    from agent_r1_core.plugins import ComponentRecord, PluginRecord, Registry

KindOption = Annotated[
    str | None,
    typer.Option("--kind", metavar="KIND", help="Only this kind, e.g. tool or reward.", autocompletion=kinds),
]


def list_plugins(
    kind: KindOption = None,
    as_json: AsJson = False,
    plugin: PluginFiles = None,
    disable_plugin: DisabledPlugins = None,
) -> None:
    """List components: tools, rewards, algorithms and so on.

    \b
    agent-r1 plugins list                   everything that is installed
    agent-r1 plugins list --kind algorithm  one kind of component
    agent-r1 plugins list -p my_tool.py     with a local file
    """
    _check_kind(kind)
    registry = find_plugins(plugin, disable_plugin)
    components = registry.components(kind)
    if as_json:
        print_json({"plugins": _plugins_json(registry), "components": [record.to_json() for record in components]})
        return
    rows = [(record.kind, record.name, record.plugin, _about(record)) for record in components]
    print_table(("KIND", "NAME", "PLUGIN", "SUMMARY"), rows)
    for record in registry.plugins:
        if record.status != "ok":
            say(f"not loaded: {_line(record)}")


def doctor(as_json: AsJson = False, plugin: PluginFiles = None, disable_plugin: DisabledPlugins = None) -> None:
    """Check every plugin.

    Imports each component and names what is wrong with it; the exit code is 1 if anything is.
    """
    registry = find_plugins(plugin, disable_plugin, anew=True)
    reports = [(record, _problems(registry, record)) for record in registry.plugins]
    missing = {record.name: _unavailable(registry, record) for record, problems in reports if not problems}
    healthy = not any(problems for _, problems in reports)
    if as_json:
        answers = [
            _without_components(record) | {"problems": problems, "unavailable": missing.get(record.name, [])}
            for record, problems in reports
        ]
        print_json({"ok": healthy, "plugins": answers})
    else:
        rows = [row for record, problems in reports for row in _rows(record, problems, missing.get(record.name, []))]
        print_table(("PLUGIN", "FROM", "STATUS", "FINDING"), rows)
    say("every plugin is in order" if healthy else "something is wrong; the findings say what to do")
    if not healthy:
        raise typer.Exit(1)


def _problems(registry: Registry, plugin: PluginRecord) -> list[str]:
    """The problems of a plugin; being disabled is none."""
    from agent_r1_core.errors import AmbiguousComponent
    from agent_r1_core.plugins import PluginStatus, check_registered

    if plugin.status == PluginStatus.DISABLED:
        return []
    if plugin.status != PluginStatus.OK:
        return [plugin.reason]
    problems = []
    for record in plugin.components:
        problems += [f"{record.kind} {record.name!r}: {problem}" for problem in check_registered(registry, record)]
        try:
            registry.find(record.kind, record.name)
        except AmbiguousComponent as error:
            problems.append(str(error))
    return problems


def _unavailable(registry: Registry, plugin: PluginRecord) -> list[str]:
    """The components of a sound plugin that this machine cannot run."""
    from agent_r1_core.plugins import check_available

    reasons = [(record, check_available(registry, record)) for record in plugin.components if not record.alias_of]
    return [f"{record.kind} {record.name!r} cannot be used here: {why}" for record, why in reasons if why]


def _rows(plugin: PluginRecord, problems: list[str], unavailable: list[str]) -> list[tuple[str, str, str, str]]:
    status = "wrong" if plugin.status == "ok" and problems else str(plugin.status)
    count = len(plugin.components)
    findings = problems or unavailable or [plugin.reason or f"{count} name{'' if count == 1 else 's'} checked"]
    return [(plugin.name, plugin.origin, status, finding) for finding in findings]


def _check_kind(kind: str | None) -> None:
    from agent_r1_core.plugins import KINDS, did_you_mean

    if kind is not None and kind not in KINDS:
        hint = did_you_mean(kind, KINDS)
        raise typer.BadParameter(f"no kind is called {kind!r}{hint} (kinds: {', '.join(KINDS)})", param_hint="--kind")


def _about(record: ComponentRecord) -> str:
    if record.alias_of:
        return f"alias of {record.alias_of}"
    return f"{record.spec.name} preset: {record.summary}" if record.preset else record.summary


def _line(plugin: PluginRecord) -> str:
    return f"{plugin.name} ({plugin.origin}) is {plugin.status}: {plugin.reason}"


def _plugins_json(registry: Registry) -> list[dict[str, Any]]:
    return [_without_components(plugin) for plugin in registry.plugins]


def _without_components(plugin: PluginRecord) -> dict[str, Any]:
    return {key: value for key, value in plugin.to_json().items() if key != "components"}
