"""The file of conversations that `rollout --keep-successes` writes and `play --keep` appends to."""

from __future__ import annotations

from typing import Annotated

import typer

from agent_r1_cli.output import say

SuccessAt = Annotated[
    float | None,
    typer.Option(
        "--success-at",
        metavar="RETURN",
        help="Least return of a success; without it, what the environment calls one, else 1.",
    ),
]


def refuse_alone(option: str, given: object, beside: str) -> None:
    """Refuse an option that does nothing without another."""
    if given is not None:
        raise typer.BadParameter(f"it says what {beside} keeps; give {beside} too", param_hint=option)


def warn_of_systems(lines: list[str]) -> None:
    """Say so where conversations have system messages of their own."""
    from agent_r1_core.rollout.demonstration import task_of

    prompts = [prompt for prompt in (task_of(line).prompt for line in lines) if not isinstance(prompt, str)]
    if any(message["role"] == "system" for prompt in prompts for message in prompt):
        say("the tasks have system messages of their own; read the file with system: true")
