"""`agent-r1 new KIND NAME`: writes an installable plugin project with a working example.

Templates are plain files with placeholders like `{{name}}`, also in file names.
"""

from __future__ import annotations

import keyword
import re
from pathlib import Path
from typing import Annotated

import typer

from agent_r1_cli.output import say, show
from agent_r1_core import __version__
from agent_r1_core.errors import ConfigError

KINDS = ("tool", "env", "agent", "reward", "algorithm", "tasks", "context", "command")
"""Kinds that have a template; an agent is an environment of its own."""

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")

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
    from agent_r1_core.nearest import did_you_mean

    if kind not in KINDS:
        hint = did_you_mean(kind, KINDS)
        raise typer.BadParameter(f"there is no template for {kind!r}{hint} (kinds: {', '.join(KINDS)})")
    check_name(name)
    component = "env" if kind == "agent" else kind
    _refuse_taken(component, name)
    target = folder or Path(project_name(name))
    for path in write_project(kind, name, target):
        show(str(path))
    show_it = f"agent-r1 plugins show {name} --kind {component}"
    say(f"next: cd {target} && pip install -e . pytest && python -m pytest && {show_it}")


def _refuse_taken(kind: str, name: str) -> None:
    """Refuse a name that would hide the new plugin or make its component ambiguous."""
    from agent_r1_core.plugins import Registry

    registry = Registry.discover()
    for plugin in registry.plugins:
        if plugin.name == name:
            raise ConfigError(f"a plugin called {name!r} is installed ({plugin.origin}); choose another name")
    for record in registry.components(kind):
        if record.name == name:
            raise ConfigError(f"plugin {record.plugin!r} offers a {kind} called {name!r}; choose another name")


def check_name(name: str) -> None:
    """Refuse a name that is not valid for a component and in the name of a Python module.

    Raises:
        ConfigError: the name is not valid; the text suggests a similar one if possible.
    """
    if _NAME.fullmatch(name) and not keyword.iskeyword(name):
        return
    words = re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())
    better = "_".join(words)
    hint = f"; how about {better}?" if _NAME.fullmatch(better) and not keyword.iskeyword(better) else ""
    raise ConfigError(f"{name!r} cannot name a component; use lower case words joined by _, such as word_count{hint}")


def write_project(kind: str, name: str, folder: Path) -> list[Path]:
    """Write the project into a new folder; returns its files.

    Raises:
        ConfigError: the folder exists, or cannot be written.
    """
    if folder.exists():
        raise ConfigError(f"{folder} exists already; choose another folder with --dir, or remove it")
    values = placeholders(kind, name)
    written = []
    for source, relative in _template_files(kind):
        target = folder / _fill(relative.as_posix(), values)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(_fill(source.read_text(encoding="utf-8"), values), encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"{target} cannot be written ({error.strerror}); choose another folder with --dir"
            ) from error
        written.append(target)
    return sorted(written)


def placeholders(kind: str, name: str) -> dict[str, str]:
    """The value of each placeholder; the package's suffix avoids clashes with modules of the same name."""
    return {
        "kind": kind,
        "name": name,
        "class": "".join(word.capitalize() for word in name.split("_")),
        "package": f"{name}_plugin",
        "project": project_name(name),
        "version": __version__,
    }


def project_name(name: str) -> str:
    return f"agent-r1-{name.replace('_', '-')}"


def template_folder() -> Path:
    """The folder of the templates: in the installed package, else in the checkout."""
    here = Path(__file__).resolve().parent
    installed = here / "_templates"
    return installed if installed.is_dir() else here.parent / "templates"


def _template_files(kind: str) -> list[tuple[Path, Path]]:
    """The template files for a kind, with their paths in a project."""
    templates = []
    for part in ("common", kind):
        root = template_folder() / part
        files = (path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        templates += [(path, path.relative_to(root)) for path in sorted(files)]
    return templates


def _fill(text: str, values: dict[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda match: values[match.group(1)], text)
