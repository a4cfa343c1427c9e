"""The command `{{name}}`: prints a metric of a run, step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agent_r1_core import ConfigError, Run


def {{name}}(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    metric: Annotated[str, typer.Option(help="What to print.")] = "reward/mean",
) -> None:
    """Print a metric of a run, step by step."""
    steps = Run.open(run).metrics()
    if not any(metric in step for step in steps):
        names = sorted({name for step in steps for name in step} - {"step"})
        raise ConfigError(f"{run} has no metric {metric!r}; it has {', '.join(names)}")
    for step in steps:
        if metric in step:
            print(f"{step['step']:6}  {step[metric]:.4f}")
