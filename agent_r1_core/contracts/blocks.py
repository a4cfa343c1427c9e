"""Component blocks: parts of a run configuration that name a component, `{name: wiki_search, top_k: 1, timeout: 10}`.

A block is flat in a recipe. Here the keys common to all blocks of a kind are fields, and the component's own options
are in `config`: an instance of the component's `Config` once a recipe is resolved.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field, SkipValidation, model_serializer, model_validator

from agent_r1_core.contracts.algorithm import AlgorithmConfig
from agent_r1_core.contracts.component import ComponentConfig, Section
from agent_r1_core.contracts.engine import EngineConfig
from agent_r1_core.contracts.env import EnvConfig
from agent_r1_core.contracts.reward import SCORE_TIMEOUT
from agent_r1_core.contracts.tool import CALL_TIMEOUT, ToolLimits


class WrittenOptions(ComponentConfig):
    """Options as somebody wrote them, before the component's own `Config` has validated them."""

    model_config = ConfigDict(extra="allow")


def _written(options: dict[str, Any] | None = None) -> Any:
    """Typed `Any`, because it stands in for the component's own `Config` until a recipe is resolved."""
    return WrittenOptions(**(options or {}))


class ComponentBlock(Section):
    """A component by name, with its options."""

    own_keys: ClassVar[tuple[str, ...]] = ("name",)
    """Keys of the block itself; all others are the component's options."""

    name: str = Field(min_length=1)
    """`name` or `plugin/name`."""
    config: SkipValidation[ComponentConfig] = Field(default_factory=_written)
    """The component's own options; complete, with every default, after resolving."""

    @model_validator(mode="before")
    @classmethod
    def _from_flat(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"name": value}
        if not isinstance(value, dict):
            return value
        block = {key: item for key, item in value.items() if key in cls.own_keys}
        options = {key: item for key, item in value.items() if key not in cls.own_keys}
        return {**block, "config": WrittenOptions(**options)}

    @model_serializer
    def _to_flat(self) -> Any:
        block = {key: getattr(self, key) for key in type(self).own_keys}
        return {"name": self.name, **self.config.model_dump(mode="json"), **block}


class TasksBlock(ComponentBlock):
    """A task source, and its share where it is one of several training sets."""

    own_keys: ClassVar[tuple[str, ...]] = ("name", "weight")

    weight: float = Field(default=1.0, gt=0)
    """Of one of several training sets: how many of its tasks come for each one of a set of weight 1."""


class EnvBlock(ComponentBlock):
    config: SkipValidation[EnvConfig] = Field(default_factory=_written)

    @property
    def tool_format(self) -> ToolFormatBlock | None:
        """The tool format that the environment's option `format` names; None where it has no such option."""
        chosen = getattr(self.config, "format", None)
        return chosen if isinstance(chosen, ToolFormatBlock) else None


class ToolFormatBlock(ComponentBlock):
    """A tool format, named by the option `format` of an environment: `hermes`, or a block with options."""

    @model_serializer
    def _to_flat(self) -> Any:
        options = self.config.model_dump(mode="json")
        return {"name": self.name, **options} if options else self.name


class AlgorithmBlock(ComponentBlock):
    config: SkipValidation[AlgorithmConfig] = Field(default_factory=_written)


class EngineBlock(ComponentBlock):
    config: SkipValidation[EngineConfig] = Field(default_factory=_written)


class ToolBlock(ComponentBlock):
    """A tool, and how its calls are run."""

    own_keys: ClassVar[tuple[str, ...]] = ("name", "timeout", "isolation", "limits", "reward_weight", "reward_cap")

    timeout: float = Field(default=CALL_TIMEOUT, gt=0)
    """Seconds before a call is given up; the model then reads an error."""
    isolation: Literal["auto", "thread", "process"] = "auto"
    """`thread`: in the training process; `process`: in a process of its own, which is killed at the deadline and can
    neither crash nor change the training; `auto`: as the tool declares, which is `thread` for most."""
    limits: ToolLimits = ToolLimits()
    """What each process of the tool may take, with `isolation: process`: `memory` and `file_size` in GiB, and
    `open_files`."""
    reward_weight: float = 1.0
    """Multiplies the rewards that the tool gives its calls, if it gives any; 0 only logs them."""
    reward_cap: float | None = Field(default=None, gt=0)
    """The most that they may add up to in an episode, unweighted, up or down; later calls get what is left."""


class RewardBlock(ComponentBlock):
    """A reward, and its share in the total."""

    own_keys: ClassVar[tuple[str, ...]] = ("name", "weight", "cap", "timeout")

    weight: float = 1.0
    """Multiplies the score in the total; 0 only logs it."""
    cap: float | None = Field(default=None, gt=0)
    """The most that a process reward may add up to in an episode, unweighted, up or down; later turns get what is left.
    null: as the reward declares, which is without a bound for most."""
    timeout: float = Field(default=SCORE_TIMEOUT, gt=0)
    """Seconds before a score is given up and its episode fails; raise it for slow judges."""


class ScoreBlock(ComponentBlock):
    """A score of evaluations."""

    own_keys: ClassVar[tuple[str, ...]] = ("name", "timeout")

    timeout: float = Field(default=SCORE_TIMEOUT, gt=0)
    """Seconds before an episode's score is given up, which the episode then lacks; raise it for slow judges."""
