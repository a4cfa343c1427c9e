"""Component blocks: the parts of a recipe that name a component, `{name: wiki_search, top_k: 1, timeout: 10}`.

A block is flat in a recipe. Here the keys that every block of its kind has stand as fields, and the component's own
options, which its `Config` validates, in `options`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_serializer, model_validator

from agent_r1_core.contracts.section import Section

BLOCKS: dict[tuple[str, ...], str] = {
    ("tasks", "train"): "tasks",
    ("tasks", "eval"): "tasks",
    ("env",): "env",
    ("algorithm",): "algorithm",
    ("engine",): "engine",
}
"""Where single blocks stand, and the kind of component that each names."""

BLOCK_LISTS: dict[str, str] = {"tools": "tool", "rewards": "reward", "trackers": "tracker"}
"""Where lists of blocks stand, and their kinds."""


class ComponentBlock(Section):
    """A component by name, with its options."""

    own_keys: ClassVar[tuple[str, ...]] = ("name",)
    """Keys of the block itself; all others are the component's options."""

    name: str = Field(min_length=1)
    """`name` or `plugin/name`."""
    options: dict[str, Any] = Field(default_factory=dict)
    """The component's own options; complete, with every default, after resolving."""

    @model_validator(mode="before")
    @classmethod
    def _from_flat(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"name": value}
        if not isinstance(value, dict):
            return value
        own = {key: item for key, item in value.items() if key in cls.own_keys}
        return {**own, "options": {key: item for key, item in value.items() if key not in cls.own_keys}}

    @model_serializer
    def _to_flat(self) -> dict[str, Any]:
        own = {key: getattr(self, key) for key in type(self).own_keys}
        return {"name": self.name, **self.options, **own}

    @property
    def component(self) -> dict[str, Any]:
        """What `Registry.create` takes: the name and the component's own options."""
        return {"name": self.name, **self.options}


class ToolBlock(ComponentBlock):
    """A tool, and how its calls are run."""

    own_keys: ClassVar[tuple[str, ...]] = ("name", "timeout", "isolation")

    timeout: float = Field(default=10.0, gt=0)
    """Seconds after which a call is given up; the model then reads an error."""
    isolation: Literal["thread", "process"] = "thread"
    """`process`: the tool runs where its deadline can kill it; for tools that may never release the interpreter."""


class RewardBlock(ComponentBlock):
    """A reward, and its share in the total."""

    own_keys: ClassVar[tuple[str, ...]] = ("name", "weight", "timeout")

    weight: float = 1.0
    """Multiplies the score in the total; 0 only logs it."""
    timeout: float = Field(default=60.0, gt=0)
    """Seconds after which a score is given up, and its episode fails: raise it for judges that take their time."""


BLOCK_MODELS: dict[str, type[ComponentBlock]] = {"tool": ToolBlock, "reward": RewardBlock}
"""Kinds whose blocks have keys of their own; the others are plain ComponentBlocks."""


def block_keys(kind: str) -> tuple[str, ...]:
    """Keys that a block of this kind has beside its component's options."""
    return BLOCK_MODELS.get(kind, ComponentBlock).own_keys


def block_kind(key: tuple[str | int, ...]) -> str | None:
    """The kind of component that the block at `key` names, or None where no block stands."""
    if len(key) == 2 and isinstance(key[1], int):
        return BLOCK_LISTS.get(str(key[0]))
    return BLOCKS.get(key)  # type: ignore[arg-type]
