"""The base of every section of a run configuration."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Part of a run configuration: unknown keys are refused (LAW 8), values are immutable.

    A docstring under a field is its documentation.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)
