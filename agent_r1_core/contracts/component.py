"""The shape that every component shares: a `Config` that pydantic validates, and a constructor that takes it.

The other sections of a run configuration have a base of their own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationInfo

from agent_r1_core.contracts.metric import Metric

RUN_NAME = r"[A-Za-z0-9][A-Za-z0-9._+-]*"
"""A regular expression: the form of a run's name, which also names its folder; none is `..` or looks like an option."""


def located(path: str, info: ValidationInfo) -> Path:
    """The absolute path that an option names: relative to the recipe that gives it, else to the current folder."""
    folder = (info.context or {}).get("folders", {}).get(info.field_name) or Path.cwd()
    return Path(folder, os.path.expanduser(path)).absolute()  # as Path.expanduser, which raises without such a user


def _absolute(path: str, info: ValidationInfo) -> str:
    return str(located(path, info))


class _Read:
    """Marks an option whose file or folder must be there."""


LocalPath = Annotated[str, AfterValidator(_absolute)]
"""An option that names a file or folder: kept absolute, so that a run can be resumed from anywhere."""

DataPath = Annotated[str, AfterValidator(_absolute), _Read()]
"""As `LocalPath`, of a file or folder that is read: `agent-r1 train --dry-run` says where it is missing."""


class ComponentConfig(BaseModel):
    """Base of a component's options: unknown keys are refused (LAW 8), values are immutable.

    A docstring under a field is its documentation in `agent-r1 plugins show`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    movable: ClassVar[frozenset[str]] = frozenset()
    """Options that only say where something is, such as the address of a service: a resumed run may change them."""

    @classmethod
    def data_paths(cls) -> list[str]:
        """The options that are, or may be, a `DataPath`."""
        return [name for name, field in cls.model_fields.items() if _is_read(field.annotation, field.metadata)]


class Section(BaseModel):
    """Part of a run configuration: unknown keys are refused (LAW 8), values are immutable.

    A docstring under a field is its documentation.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)


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
    def programs(cls, config: Any) -> dict[str, str]:
        """What options make it do beyond the run, such as start a command: option -> what, in one line.

        A recipe or a run that was made elsewhere may name that, so it needs the permission that plugin files need.
        """
        return {}

    @classmethod
    def unavailable(cls, config: Any) -> str | None:
        """Why this machine cannot run the component with these options (a missing package, for example) and what to do.

        None where it can. Called whenever a recipe is about to be used, so keep it cheap: `importlib.util.find_spec`
        instead of an import.
        """
        return None


def _is_read(annotation: Any, metadata: Iterable[Any] = ()) -> bool:
    inner = get_args(annotation)
    return any(isinstance(one, _Read) for one in (*metadata, *inner)) or any(map(_is_read, inner))
