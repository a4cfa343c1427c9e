"""The options of every command that looks for plugins."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent_r1_cli.completion import plugin_names

if TYPE_CHECKING:
    from agent_r1_core.plugins import Registry

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
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def find_plugins(files: list[Path] | None, disabled: list[str] | None) -> Registry:
    """Discover plugins as the options say.

    Raises:
        ConfigError: a file or name does not exist.
    """
    from agent_r1_core.plugins import Registry

    return Registry.discover(files or (), disabled or ())
