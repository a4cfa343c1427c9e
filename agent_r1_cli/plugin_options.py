"""The options of every command that looks for plugins."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent_r1_cli.completion import plugin_names

if TYPE_CHECKING:
    from agent_r1_cli.display import TrainDisplay
    from agent_r1_core.plugins import Registry
    from agent_r1_core.plugins.trust import Trust

PluginFiles = Annotated[
    list[Path] | None,
    typer.Option("--plugin", "-p", metavar="FILE", help="A Python file to load as a plugin; may be repeated."),
]
DisabledPlugins = Annotated[
    list[str] | None,
    typer.Option(
        "--disable-plugin",
        "-P",
        metavar="NAME",
        help="A plugin not to load; may be repeated.",
        autocompletion=plugin_names,
    ),
]
TrustFiles = Annotated[
    bool, typer.Option("--trust", help="Run the plugin files and programs that recipe or run name, without asking.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def trust_as(said: bool, display: TrainDisplay) -> Trust:
    """Trust all plugin files if the user says so, else ask on a terminal."""
    from agent_r1_core.plugins.trust import Trust

    return Trust(named=said, confirm=display.confirm if sys.stdin.isatty() and sys.stderr.isatty() else None)


def find_plugins(files: list[Path] | None, disabled: list[str] | None, anew: bool = False) -> Registry:
    """Discover plugins as the options say; `anew` imports even those whose components are remembered.

    Raises:
        ConfigError: a file or name does not exist.
    """
    from agent_r1_core.plugins import Registry

    return Registry.discover(files or (), disabled or (), anew=anew)
