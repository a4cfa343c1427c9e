"""Where component blocks stand in a run configuration, and the kind of component that each names."""

from __future__ import annotations

from agent_r1_core.contracts.blocks import ComponentBlock, RewardBlock, ToolBlock

BLOCKS: dict[tuple[str, ...], str] = {
    ("tasks", "train"): "tasks",
    ("tasks", "eval"): "tasks",
    ("env",): "env",
    ("algorithm",): "algorithm",
    ("engine",): "engine",
}
"""Single blocks."""

OPTION_BLOCKS: dict[tuple[str, ...], str] = {("env", "format"): "tool_format"}
"""Blocks that are an option of another component, where its `Config` says so."""

BLOCK_LISTS: dict[str, str] = {"tools": "tool", "rewards": "reward", "trackers": "tracker"}
"""Lists of blocks."""

BLOCK_MODELS: dict[str, type[ComponentBlock]] = {"tool": ToolBlock, "reward": RewardBlock}
"""Kinds whose blocks have keys of their own; the others have a name and the component's options."""


def block_keys(kind: str) -> tuple[str, ...]:
    """Keys that a block of this kind has beside its component's options."""
    return BLOCK_MODELS.get(kind, ComponentBlock).own_keys


def block_kind(key: tuple[str | int, ...]) -> str | None:
    """The kind of component that the block at `key` names, or None where no block stands."""
    if len(key) == 2 and isinstance(key[1], int):
        return BLOCK_LISTS.get(str(key[0]))
    return (BLOCKS | OPTION_BLOCKS).get(key)  # type: ignore[arg-type]
