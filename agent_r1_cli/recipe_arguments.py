"""What commands that run a recipe take: `[RECIPE] [KEY=VALUE ...]`."""

from __future__ import annotations

from typing import Annotated

import typer

Arguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RECIPE] [KEY=VALUE]...",
        help="A recipe's name or file (default: default), then keys of it to change.",
        show_default=False,
    ),
]


def split_arguments(arguments: list[str] | None) -> tuple[str | None, list[str]]:
    """The recipe, if one is named first, and the overrides.

    Raises:
        ConfigError: something that is neither stands among the overrides.
    """
    from agent_r1_core.errors import ConfigError

    given = list(arguments or ())
    recipe = given.pop(0) if given and "=" not in given[0] else None
    for text in given:
        if "=" not in text:
            raise ConfigError(f"argument {text!r} is no override; write KEY=VALUE, and the recipe before all of them")
    return recipe, given
