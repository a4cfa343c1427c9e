"""The places of component blocks in a run configuration, and the kind of component that each names."""

from __future__ import annotations

from typing import Any

from agent_r1_core.contracts.blocks import ComponentBlock, RewardBlock, ScoreBlock, TasksBlock, ToolBlock

BLOCKS: dict[tuple[str, ...], str] = {
    ("tasks", "train"): "tasks",
    ("tasks", "eval"): "tasks",
    ("env",): "env",
    ("context",): "context",
    ("algorithm",): "algorithm",
    ("engine",): "engine",
}
"""Single blocks."""

OPTION_BLOCKS: dict[tuple[str, ...], str] = {("env", "format"): "tool_format"}
"""Blocks that are an option of another component, if its `Config` declares them so."""

SETS: tuple[tuple[str, ...], ...] = (("tasks", "train"), ("tasks", "eval"))
"""The places that hold one block, or a mapping of several by name."""

BLOCK_LISTS: dict[str, str] = {"tools": "tool", "rewards": "reward", "scores": "score", "trackers": "tracker"}
"""Lists of blocks."""

BLOCK_MODELS: dict[str, type[ComponentBlock]] = {
    "tasks": TasksBlock,
    "tool": ToolBlock,
    "reward": RewardBlock,
    "score": ScoreBlock,
}
"""Kinds whose blocks have keys of their own; other blocks have only a name and the component's options."""


def block_keys(kind: str) -> tuple[str, ...]:
    """Keys that a block of this kind has besides its component's options."""
    return BLOCK_MODELS.get(kind, ComponentBlock).own_keys


def shared_options(kind: str) -> set[str]:
    """What all components of a kind have: the keys of their blocks but `name`, and the options of their base class."""
    from agent_r1_core.plugins import KINDS

    return {*block_keys(kind), *KINDS[kind].base().Config.model_fields} - {"name"}


def holds_sets(value: Any) -> bool:
    """Whether a value at such a place is a mapping of named sources: it has no `name` of its own, and holds blocks."""
    return (
        isinstance(value, dict)
        and not isinstance(value.get("name"), str)
        and any(isinstance(entry, dict) for entry in value.values())
    )


def spelled_out(value: Any, key: tuple[str | int, ...]) -> Any:
    """The value for `key`, with components that are given by name alone turned into blocks."""

    def block(entry: Any) -> Any:
        return {"name": entry} if isinstance(entry, str) else entry

    if key in SETS and holds_sets(value):
        return type(value)({name: block(entry) for name, entry in value.items()})
    if len(key) == 1 and key[0] in BLOCK_LISTS and isinstance(value, list):
        return [block(entry) for entry in value]
    # Below such a place, text may also be an option of the one source there.
    return block(value) if block_kind(key) is not None and key[:-1] not in SETS else value


def block_kind(key: tuple[str | int, ...]) -> str | None:
    """The kind of component that the block at `key` names; None if no block belongs there."""
    if len(key) == 3 and key[:2] in SETS:
        return "tasks"
    if len(key) == 2 and isinstance(key[1], int):
        return BLOCK_LISTS.get(str(key[0]))
    return (BLOCKS | OPTION_BLOCKS).get(key)  # type: ignore[arg-type]
