"""The helper that has verifiers, in the Python that the recipe names: its dependencies conflict with ours."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from agent_r1_core import ComponentConfig, LocalPath
from agent_r1_core.helper import Helper


class PythonConfig(ComponentConfig):
    """Options of whatever asks verifiers."""

    movable: ClassVar = frozenset({"python", "path"})

    python: LocalPath = Field("envs/verifiers/bin/python", validate_default=True)
    """The Python of an environment with `verifiers` 0.4 or later and the task set."""
    path: LocalPath | None = None
    """A folder with further task sets as modules; null: only those that are installed."""
    seconds: float = Field(50.0, gt=0)
    """For loading the tasks."""


def programs(config: Any) -> dict[str, str]:
    """What it runs beyond the run."""
    return {"python": f"runs {config.python}, and in it the code of the task set"}


def unavailable(config: Any) -> str | None:
    """A sentence where there is no such Python."""
    if Path(config.python).exists():
        return None
    return (
        f"there is no {config.python}; run `python -m venv envs/verifiers && envs/verifiers/bin/pip install "
        "'verifiers>=0.4'`, or set python to one that has it"
    )


@functools.cache
def helper(python: str, path: str | None) -> Helper:
    """One for all that name the same Python."""
    command = [python, str(Path(__file__).with_name("helper") / "serve.py")]
    return Helper(command, {"PYTHONPATH": path} if path else {})
