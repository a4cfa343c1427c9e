"""What the Tab key offers: recipes, runs, components, kinds and plugins. Imports no component, so it is quick."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from pathlib import Path

import typer

Offer = tuple[str, str]
"""A text to insert, and what it is."""

_COMPONENT_KEYS = {
    "algorithm": "algorithm",
    "context": "context",
    "engine": "engine",
    "env": "env",
    "env.format": "tool_format",
    "tasks.eval": "tasks",
    "tasks.train": "tasks",
}
"""Keys of a recipe whose value names a component, with the kind of it."""


def recipe_arguments(ctx: typer.Context, incomplete: str) -> list[Offer]:
    """For `[RECIPE] [KEY=VALUE]...`: recipes and runs first, then components for the keys that name one."""
    given = [str(word) for word in ctx.params.get("arguments") or ()]
    if given[-1:] == ["="]:  # bash splits words at `=`
        return _components(_COMPONENT_KEYS.get(given[-2], "")) if len(given) > 1 else []
    offers = [] if given else [*_recipes(), *_runs()]
    for key, kind in _COMPONENT_KEYS.items():
        if incomplete and f"{key}=".startswith(incomplete.partition("=")[0]):
            offers += [(f"{key}={name}", summary) for name, summary in _components(kind)]
    return offers


def models(incomplete: str) -> list[Offer]:
    """For `--model`: the bundled models, and runs."""
    return [("tiny", "bundled; searches"), ("tiny-worlds", "bundled; plays worlds"), *_runs()]


def places(incomplete: str) -> list[Offer]:
    """For `runs`: the folder of runs, those in it, and other folders."""
    offers = [("runs", "all runs"), *_runs()] if Path("runs").is_dir() else []
    known = {name for name, _ in offers}
    folders = (str(path) for path in Path().glob(f"{glob.escape(incomplete)}*") if path.is_dir())
    return [*offers, *((folder, "folder") for folder in sorted(folders) if folder not in known)]


def component_names(ctx: typer.Context, incomplete: str) -> list[Offer]:
    """For `plugins show`: the components, of one kind if `--kind` is given."""
    return _components(ctx.params.get("kind"))


def kinds(incomplete: str) -> list[str]:
    """For `--kind`."""
    from agent_r1_core.plugins import KINDS

    return list(KINDS)


def plugin_names(incomplete: str) -> list[Offer]:
    """For `--disable-plugin`."""
    from agent_r1_core.plugins import Registry

    return [(plugin.name, plugin.origin) for plugin in Registry.discover().plugins]


def _recipes() -> Iterator[Offer]:
    from agent_r1_core.config import recipe_folders, recipe_names

    return ((name, "recipe") for name in recipe_names(recipe_folders()))


def _runs() -> Iterator[Offer]:
    """Runs in the default place, `runs`."""
    return ((str(file.parent), "run") for file in sorted(Path("runs").glob("*/run.json")))


def _components(kind: str | None) -> list[Offer]:
    from agent_r1_core.plugins import KINDS, Registry

    if kind is not None and kind not in KINDS:
        return []
    return [(record.name, f"{record.kind}: {record.summary}") for record in Registry.discover().components(kind)]
