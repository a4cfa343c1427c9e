"""Finds recipes by path, or by name in the folder that ships with the package."""

from __future__ import annotations

import os
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
    """The names of the recipes in these folders."""
    return sorted({path.stem for folder in folders for path in folder.glob("*.yaml")})


def find_recipe(recipe: str | Path, folders: Sequence[Path] | None = None, relative_to: Path | None = None) -> Path:
    """The file of a recipe.

    Text with a path separator or a YAML suffix is a path (relative to `relative_to`, else to the current folder);
    anything else is a name in `folders`.

    Raises:
        ConfigError: there is no such file or name.
    """
    folders = recipe_folders() if folders is None else folders
    text = str(recipe)
    names = recipe_names(folders)
    if isinstance(recipe, Path) or "/" in text or "\\" in text or text.endswith(SUFFIXES):
        path = (relative_to or Path.cwd()) / os.path.expanduser(text)
        if not path.is_file():
            known = f", or one of the recipes {', '.join(names)}" if names else ""
            raise ConfigError(f"there is no recipe and no run at {path}; give the path of a YAML file or a run{known}")
        return path
    for folder in folders:
        if (folder / f"{text}.yaml").is_file():
            return folder / f"{text}.yaml"
    close = nearest(text, names)
    hint = f"did you mean {close}? The" if close else "the"
    raise ConfigError(f"there is no recipe named '{text}'; {hint} recipes are {', '.join(names) or 'none'}")
