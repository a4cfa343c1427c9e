"""Finds a recipe by path or name, and reads it and the recipe that it extends, as layers of plain values.

`extends: default` (a name, or a path relative to the file) puts a recipe on top of another one; each file's relative
paths count from its own folder. `sources` is the record that a run's `config.yaml` keeps of who set what: a file that
has it is complete, and its other values count as defaults.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_r1_core.config.draft import Source
from agent_r1_core.config.yaml_text import parse
from agent_r1_core.errors import ConfigError
from agent_r1_core.nearest import nearest_key
from agent_r1_core.opening import read_text
from agent_r1_core.plugins.validation import Key, key_text

_SUFFIXES = (".yaml", ".yml")
_LONGEST = 2**22
"""Bytes of a recipe; to parse so many takes seconds."""
_MOST_VALUES = 10_000
"""Values of one recipe. A run's `config.yaml`, which also says who set each, may have more."""


def recipe_folders() -> list[Path]:
    """The folders of recipes with names: in the installed command line, else in the checkout."""
    above = Path(__file__).resolve().parents[2]
    folders = [above / "agent_r1_cli" / "_recipes", above / "recipes"]
    return [folder for folder in folders if folder.is_dir()][:1]


def plugin_path(name: str, folder: Path) -> str:
    """The absolute path of a plugin file that is named relative to `folder`; there need be no such file."""
    path = folder / os.path.expanduser(name)  # as Path.expanduser, which raises where there is no such user
    try:
        return str(path.resolve())
    except ValueError:  # it holds a NUL, as no file's name does
        return str(path)


def recipe_names(folders: Sequence[Path]) -> list[str]:
    """The names of the recipes in these folders; those in a folder of theirs are called `folder/name`."""
    files = ((folder, path) for folder in folders for path in folder.rglob("*.yaml"))
    return sorted({path.relative_to(folder).with_suffix("").as_posix() for folder, path in files})


def find_recipe(recipe: str | Path, folders: Sequence[Path] | None = None, relative_to: Path | None = None) -> Path:
    """The file of a recipe.

    A name in `folders` comes first. Other text with a path separator, and all with a YAML suffix, is a path (relative
    to `relative_to`, else to the current folder).

    Raises:
        ConfigError: there is no such file or name.
    """
    folders = recipe_folders() if folders is None else folders
    text = str(recipe)
    names = recipe_names(folders)
    if not isinstance(recipe, Path) and text in names:
        return next(path for folder in folders if (path := folder / f"{text}.yaml").is_file())
    path = (relative_to or Path.cwd()) / os.path.expanduser(text)
    is_path = isinstance(recipe, Path) or "/" in text or "\\" in text or text.endswith(_SUFFIXES)
    if is_path and os.path.isfile(path):
        return path
    close = nearest_key(text, names)
    known = ", ".join([name for name in names if "/" not in name] or names) or "none"
    if is_path and (close is None or "/" not in close):
        beside = nearest_key(path.name, _recipes_beside(path))
        hint = f"did you mean {beside}? Give" if beside else "give"
        raise ConfigError(
            f"there is no recipe and no run at {path}; {hint} the path of a YAML file or a run, or one of the recipes "
            f"{known}"
        )
    if re.fullmatch(r"[a-z_]+(\.\w+)+", text):
        raise ConfigError(f"there is no recipe named '{text}'; to set an option, write {text}=VALUE")
    hint = f"did you mean {close}? The" if close else "the"
    raise ConfigError(f"there is no recipe named '{text}'; {hint} recipes are {known}")


def _recipes_beside(path: Path) -> list[str]:
    """The names of the YAML files in its folder; none where that cannot be read."""
    try:
        return [name for name in os.listdir(path.parent) if name.endswith(_SUFFIXES)]
    except (OSError, ValueError):
        return []


@dataclass(frozen=True)
class Layer:
    file: str
    folder: Path
    """Where the file is: its relative paths count from there."""
    values: dict[str, Any]
    lines: Mapping[Key, int]
    recorded: Mapping[str, str] | None = None
    """For a run's `config.yaml`: the keys that somebody set, with their sources."""
    shipped: bool = False
    """Whether the recipe ships with the package: its values are defaults, which may be idle."""

    def source(self, key: Key) -> Source:
        line = next((self.lines[key[:end]] for end in range(len(key), 0, -1) if key[:end] in self.lines), None)
        text = self.file if line is None else f"{self.file}, line {line}"
        if self.recorded is None:
            return Source(text, user=not self.shipped, folder=self.folder)
        above = (key_text(key[:end]) for end in range(len(key), 0, -1))
        origin = next((self.recorded[text] for text in above if text in self.recorded), None)
        return Source(text, user=origin is not None, origin=origin or "", folder=self.folder)


def read_layers(recipe: str | Path, folders: Sequence[Path] | None = None) -> list[Layer]:
    """The recipe and the recipes it extends, lowest layer first.

    Raises:
        ConfigError: a file is missing, is not a YAML mapping, or extends itself.
    """
    layers: list[Layer] = []
    seen: list[Path] = []
    above: Path | None = None
    extends: str | Path | None = recipe
    while extends is not None:
        path = find_recipe(extends, folders, above)
        if path.resolve() in seen:
            raise ConfigError(f"{_shown(path)} extends itself over {len(seen)} file(s); remove one 'extends'")
        seen.append(path.resolve())
        layer, extends = _read(path)
        layers.insert(0, layer)
        above = path.parent
    return layers


def _read(path: Path) -> tuple[Layer, str | None]:
    file = _shown(path)
    try:
        text = read_text(path, _LONGEST)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the recipe {file} cannot be read: {error}; give a UTF-8 text file") from None
    document = parse(text, file)
    values = document.value
    if values is None:
        raise ConfigError(f"{file} is empty; write keys and values into it, or name another recipe, such as default")
    if not isinstance(values, dict):
        raise ConfigError(f"{file} holds {type(values).__name__} instead of keys and values; see the recipe 'default'")
    extends, recorded = values.pop("extends", None), values.pop("sources", None)
    if recorded is None and len(document.lines) > _MOST_VALUES:
        raise ConfigError(f"{file} holds more than {_MOST_VALUES:,} values; keep long lists in a data set")
    if extends is not None and not isinstance(extends, str):
        raise ConfigError(f"extends ({file}) is {extends!r}; give the name or path of one recipe")
    if recorded is not None and not isinstance(recorded, dict):
        raise ConfigError(f"sources ({file}) is {recorded!r}; it belongs to a run's config.yaml: remove it")
    shipped = any(path.resolve().is_relative_to(folder) for folder in recipe_folders())
    return Layer(file, path.parent.resolve(), values, document.lines, recorded, shipped), extends


def _shown(path: Path) -> str:
    """The path relative to the current folder if it is inside it."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
