"""`agent-r1 plugins list` and `doctor`: show what is installed, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent_r1_cli.completion import kinds
from agent_r1_cli.output import print_json, print_table, say
from agent_r1_cli.plugin_options import AsJson, DisabledPlugins, PluginFiles, find_plugins

if TYPE_CHECKING:
    from agent_r1_core.plugins import ComponentRecord, PluginRecord, Registry
    from agent_r1_core.plugins.records import Findings

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
        plugins = [_without_components(record) for record in registry.plugins]
        print_json({"plugins": plugins, "components": [record.to_json() for record in components]})
        return
    rows = [(record.kind, record.name, record.plugin, _about(record)) for record in components]
    print_table(("KIND", "NAME", "PLUGIN", "SUMMARY"), rows)
    for record in registry.plugins:
        if record.status != "ok":
            say(f"not loaded: {record.name} ({record.origin}) is {record.status}: {record.reason}")


def doctor(
    ctx: typer.Context,
    as_json: AsJson = False,
    plugin: PluginFiles = None,
    disable_plugin: DisabledPlugins = None,
) -> None:
    """Check every plugin.

    Imports each component and names what is wrong with it; the exit code is 1 if anything is. A plugin is limited where
    one of its components cannot be used here with its default options.
    """
    registry = find_plugins(plugin, disable_plugin, anew=True)
    own = ctx.find_root().command.commands  # type: ignore[attr-defined]
    reports = list(zip(registry.plugins, _examined(registry, own), strict=True))
    healthy = not any(findings.problems for _, findings in reports)
    if as_json:
        answers = [_without_components(record) | vars(findings) for record, findings in reports]
        print_json({"ok": healthy, "plugins": answers})
    else:
        rows = [row for record, findings in reports for row in _rows(record, findings)]
        print_table(("PLUGIN", "FROM", "STATUS", "FINDING"), rows)
    say("every plugin is in order" if healthy else "something is wrong; the findings say what to do")
    if not healthy:
        raise typer.Exit(1)


def _examined(registry: Registry, own: Container[str]) -> list[Findings]:
    """What is wrong with each plugin; those of other distributions are checked in processes of their own."""
    from agent_r1_core.plugins.checks import check_plugin
    from agent_r1_core.plugins.elsewhere import check_elsewhere
    from agent_r1_core.plugins.records import Findings
    from agent_r1_core.work import WorkDisplay, working

    others = [record for record in registry.plugins if record.status == "ok" and not record.is_expected]
    reports = []
    with WorkDisplay(), working("checking plugins", len(registry.plugins), unit="plugins") as work:
        elsewhere = iter(check_elsewhere(others))
        for record in registry.plugins:
            if record.status != "ok":
                reports.append(Findings([] if record.status == "disabled" else [record.reason], []))
            else:
                findings = check_plugin(registry, record) if record.is_expected else next(elsewhere)
                reports.append(Findings([*findings.problems, *_hidden(registry, record, own)], findings.unavailable))
            work.advance()
    return reports


def _hidden(registry: Registry, plugin: PluginRecord, own: Container[str]) -> list[str]:
    """The names that other plugins, or agent-r1's own commands, have as well."""
    from agent_r1_core.errors import AmbiguousComponent

    sentences = []
    for record in plugin.components:
        if record.kind == "command" and record.name.partition(" ")[0] in own:
            sentences.append(f"command {record.name!r} cannot be called: agent-r1 has one of its own; rename it")
        try:
            registry.find(record.kind, record.name)
        except AmbiguousComponent as error:
            sentences.append(str(error))
    return sentences


def _rows(plugin: PluginRecord, findings: Findings) -> list[tuple[str, str, str, str]]:
    status = str(plugin.status)
    if status == "ok" and (findings.problems or findings.unavailable):
        status = "wrong" if findings.problems else "limited"
    count = len(plugin.components)
    texts = findings.problems or findings.unavailable
    texts = texts or [plugin.reason or f"{count} name{'' if count == 1 else 's'} checked"]
    return [(plugin.name, plugin.origin, status, text) for text in texts]


def _check_kind(kind: str | None) -> None:
    from agent_r1_core.nearest import did_you_mean
    from agent_r1_core.plugins import KINDS

    if kind is not None and kind not in KINDS:
        hint = did_you_mean(kind, KINDS)
        raise typer.BadParameter(f"no kind is called {kind!r}{hint} (kinds: {', '.join(KINDS)})", param_hint="--kind")


def _about(record: ComponentRecord) -> str:
    if record.alias_of:
        return f"alias of {record.alias_of}"
    return f"{record.spec.name} preset: {record.summary}" if record.preset else record.summary


def _without_components(plugin: PluginRecord) -> dict[str, Any]:
    return {key: value for key, value in plugin.to_json().items() if key != "components"}
