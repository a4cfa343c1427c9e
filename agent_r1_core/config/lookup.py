"""Finds recipes by path, or by name in the folder that ships with the package."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from agent_r1_core.config.keys import nearest
from agent_r1_core.errors import ConfigError

SUFFIXES = (".yaml", ".yml")


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


def is_shipped(path: Path) -> bool:
    """Whether the file of a recipe ships with the package."""
    return any(path.resolve().is_relative_to(folder) for folder in recipe_folders())


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
    is_path = isinstance(recipe, Path) or "/" in text or "\\" in text or text.endswith(SUFFIXES)
    if is_path and path.is_file():
        return path
    close = nearest(text, names)
    known = ", ".join(names) or "none"
    if is_path and (close is None or "/" not in close):
        raise ConfigError(
            f"there is no recipe and no run at {path}; give the path of a YAML file or a run, or one of the recipes "
            f"{known}"
        )
    if re.fullmatch(r"[a-z_]+(\.\w+)+", text):
        raise ConfigError(f"there is no recipe named '{text}'; to set an option, write {text}=VALUE")
    hint = f"did you mean {close}? The" if close else "the"
    raise ConfigError(f"there is no recipe named '{text}'; {hint} recipes are {known}")
