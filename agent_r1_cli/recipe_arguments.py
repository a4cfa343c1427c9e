"""The arguments of commands that run a recipe: `[RECIPE] [KEY=VALUE ...]`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent_r1_cli.completion import models, recipe_arguments

if TYPE_CHECKING:
    from agent_r1_core.config import ResolvedConfig
    from agent_r1_core.plugins.trust import Trust

Arguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RECIPE] [KEY=VALUE]...",
        help="A recipe's name or file, or a run (default: default), then keys to change.",
        show_default=False,
        autocompletion=recipe_arguments,
    ),
]
ModelName = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="MODEL",
        help="A run, a Hugging Face folder, a GGUF file, a hub name, or `tiny`.",
        autocompletion=models,
    ),
]


def split_arguments(arguments: list[str] | None) -> tuple[str | None, list[str]]:
    """The recipe, if one is named first, and the overrides.

    Raises:
        ConfigError: an argument after the first is not an override.
    """
    given = list(arguments or ())
    recipe = given.pop(0) if given and "=" not in given[0] else None
    check_overrides(given, ", and the recipe first")
    return recipe, given


def check_overrides(arguments: Sequence[str], more: str = "") -> None:
    """Raise a ConfigError at the first argument that is not an override; `more` says what else the command takes."""
    from agent_r1_core.errors import ConfigError

    stray = next((text for text in arguments if "=" not in text), None)
    if stray is not None:
        form = f"KEY=VALUE, in quotes where it has spaces{more}"
        raise ConfigError(f"argument {stray!r} is not an override; write {form}")


def resolve_for_model(
    arguments: list[str] | None,
    model: str | None,
    plugin: list[Path] | None = None,
    disabled: list[str] | None = None,
    trust: Trust | None = None,
    greedy: bool = True,
    untrained: bool = False,
) -> ResolvedConfig:
    """The configuration for playing a model: the named recipe, else that of the model's run, else the default.

    A run given as the recipe means that run's policy on its own recipe; with `untrained`, the model that it began with.
    """
    from agent_r1_core.config.overrides import text_override
    from agent_r1_core.runs.run import Run
    from agent_r1_core.training.api import resolve

    recipe, overrides = split_arguments(arguments)
    named = any(text.partition("=")[0].strip() == "model.name" for text in overrides)
    if model is None and not named and not untrained and recipe is not None and Run.is_run(recipe):
        model = recipe
    elif recipe is None and model is not None and Run.is_run(model):
        recipe = model
    if model is not None:
        overrides = [text_override("model.name", model), *overrides]
    if not greedy:
        overrides = ["evaluation.greedy=false", *overrides]
    return resolve(recipe, overrides, plugins=plugin or (), disabled=disabled or (), training=False, trust=trust)
