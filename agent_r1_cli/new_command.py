"""`agent-r1 new KIND NAME`: writes an installable plugin project with a working example."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agent_r1_cli.output import say, show
from agent_r1_cli.scaffold import KINDS

KindArgument = Annotated[
    str, typer.Argument(metavar="KIND", help=f"One of {', '.join(KINDS)}.", autocompletion=lambda: list(KINDS))
]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Its name in recipes, e.g. word_count.")]
Folder = Annotated[
    Path | None,
    typer.Option("--dir", metavar="FOLDER", help="The folder to create (default: agent-r1-NAME).", show_default=False),
]


def new(kind: KindArgument, name: NameArgument, folder: Folder = None) -> None:
    """Write a plugin project with a working example.

    \b
    agent-r1 new tool word_count
    agent-r1 new reward brief --dir my-reward
    """
    from agent_r1_cli.scaffold import check_name, project_name, write_project
    from agent_r1_core.plugins import did_you_mean

    if kind not in KINDS:
        hint = did_you_mean(kind, KINDS)
        raise typer.BadParameter(f"there is no template for {kind!r}{hint} (kinds: {', '.join(KINDS)})")
    check_name(name)
    _refuse_taken(kind, name)
    target = folder or Path(project_name(name))
    for path in write_project(kind, name, target):
        show(str(path))
    say(f"next: cd {target} && pytest && pip install -e . && agent-r1 plugins show {name} --kind {kind}")


def _refuse_taken(kind: str, name: str) -> None:
    """Refuse a name that would hide the new plugin or make its component ambiguous."""
    from agent_r1_core.errors import ConfigError
    from agent_r1_core.plugins import Registry

    registry = Registry.discover()
    for plugin in registry.plugins:
        if plugin.name == name:
            raise ConfigError(f"a plugin called {name!r} is installed ({plugin.origin}); choose another name")
    for record in registry.components(kind):
        if record.name == name:
            raise ConfigError(f"plugin {record.plugin!r} offers a {kind} called {name!r}; choose another name")
