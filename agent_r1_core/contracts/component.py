"""The shape that every component shares: a `Config` that pydantic validates, and a constructor that takes it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict

from agent_r1_core.contracts.metric import Metric

LocalPath = Annotated[str, AfterValidator(lambda path: str(Path(os.path.expanduser(path)).absolute()))]
"""An option that names a file or folder: kept absolute, so that a run can be resumed from anywhere."""


class ComponentConfig(BaseModel):
    """Base of a component's options: unknown keys are refused (LAW 8), values are immutable.

    A docstring under a field is its documentation in `agent-r1 plugins show`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    movable: ClassVar[frozenset[str]] = frozenset()
    """Options that only say where something is, such as the address of a service: a resumed run may change them."""


class Component:
    """Base of Tool, ToolEnv, RewardFn, Algorithm, TaskSource, Tracker, Engine and ToolFormat.

    A subclass may define `class Config(ComponentConfig)`; an instance gets it as `self.config`.
    Construction is cheap and opens nothing.
    """

    Config: ClassVar[type[ComponentConfig]] = ComponentConfig

    name: str = ""
    """The component's name; set from its spec when a plugin offers it."""

    metrics: ClassVar[tuple[Metric, ...]] = ()
    """The metrics that it reports besides those of its kind, declared under bare names."""

    def __init__(self, config: ComponentConfig | None = None) -> None:
        self.config: Any = self.Config() if config is None else config

    @classmethod
    def idle_options(cls, config: Any) -> dict[str, str]:
        """Options that have no effect under this configuration: name -> why.

        It is an error to set such an option in a recipe (LAW 8); a default may be without effect.
        """
        return {}

    @classmethod
    def unavailable(cls, config: Any) -> str | None:
        """Why this machine cannot run the component with these options (a missing package, for example) and what to do.

        None where it can. Called whenever a recipe is about to be used, so keep it cheap: `importlib.util.find_spec`
        instead of an import.
        """
        return None
