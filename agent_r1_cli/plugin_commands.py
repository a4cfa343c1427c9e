"""Commands of plugins, beside those of agent-r1 itself, which they never replace.

They are looked for where commands are listed, or where a word is none of agent-r1's own. What plugins offer is
remembered until a folder of `sys.path`, or a file that declares a plugin, changes: `--help` then imports no plugin.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import typer
from typer.core import TyperGroup

from agent_r1_cli.guard import guarded, tell
from agent_r1_cli.help_text import SETTINGS, Command
from agent_r1_core import __version__
from agent_r1_core.errors import AgentR1Error, RunError
from agent_r1_core.folders import cache_dir, disabled_plugins
from agent_r1_core.opening import read_json


class Commands(TyperGroup):
    """agent-r1's own commands, then those of plugins."""

    def list_commands(self, ctx: Any) -> list[str]:
        own = super().list_commands(ctx)
        return [*own, *sorted({name.partition(" ")[0] for name in offered()} - set(own))]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        own = super().get_command(ctx, cmd_name)
        return own if own is not None else _of_plugins(cmd_name)


class PluginCommand(Command):
    """A command whose function is imported when it is called, not when it is listed."""

    def __init__(self, full: str, about: Mapping[str, str]) -> None:
        super().__init__(full.rpartition(" ")[2], callback=None, help=about["summary"], rich_markup_mode=None)
        self._full = full

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        try:
            function = _registry().function("command", self._full)
        except AgentR1Error as error:
            raise typer.Exit(tell(error)) from None
        app = typer.Typer(
            add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, context_settings=SETTINGS
        )
        app.command(self.name, cls=Command)(guarded(function))
        return typer.main.get_command(app).make_context(info_name, args, parent, **extra)


def _of_plugins(word: str) -> Any:
    """The command or the group of that name; None: no plugin has one."""
    names = offered()
    if word in names:
        return PluginCommand(word, names[word])
    inside = {name: about for name, about in names.items() if name.startswith(f"{word} ")}
    if not inside:
        return None
    plugins = sorted({about["plugin"] for about in inside.values()})
    return TyperGroup(
        name=word,
        commands=[PluginCommand(name, about) for name, about in inside.items()],
        help=f"Commands of the plugin{'' if len(plugins) == 1 else 's'} {' and '.join(plugins)}.",
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings=SETTINGS,
    )


def offered() -> dict[str, dict[str, str]]:
    """The names of all commands of plugins, each with its `summary` and `plugin`.

    Remembered only if every plugin was read and its files were found, since a change would not be noticed else.

    Raises:
        typer.Exit: plugins cannot be looked for; a sentence has said why.
    """
    file = cache_dir() / "commands.json"
    with suppress(OSError, ValueError, LookupError, TypeError, AgentR1Error):
        saved = read_json(file)
        if saved["of"] == _identity() and all(_changed(path) == time for path, time in saved["files"].items()):
            return dict(saved["commands"])
    from agent_r1_core.plugins.elsewhere import files_of
    from agent_r1_core.runs.files import write_json

    try:
        registry = _registry()
    except AgentR1Error as error:
        raise typer.Exit(tell(error)) from None
    records = registry.components("command")
    commands = {record.name: {"summary": record.summary, "plugin": record.plugin} for record in records}
    places = [files_of(plugin.value) for plugin in registry.plugins]
    files = {path: _changed(path) for paths in places for path in paths}
    if not all(places) or any(plugin.status == "failed" for plugin in registry.plugins):
        return commands
    with suppress(OSError, RunError):  # without a cache, plugins are read every time
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, {"of": _identity(), "files": files, "commands": commands})
    return commands


def _identity() -> list[Any]:
    """What decides which plugins there are, apart from their files."""
    here = ("", os.getcwd(), os.path.dirname(sys.argv[0]))  # where nothing is installed, and much is written
    places = [[path, _changed(path)] for path in sys.path if path not in here]
    return [__version__, sys.version, sorted(disabled_plugins()), *places]


def _changed(path: str) -> int:
    """When a file or folder last changed, in nanoseconds; 0: it is not there."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _registry() -> Any:
    from agent_r1_core.plugins import Registry

    return Registry.discover()
