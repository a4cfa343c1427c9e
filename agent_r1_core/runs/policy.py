"""RunPolicy: one of a run's policies, with its step and how it was chosen."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class RunPolicy:
    """One policy of a run."""

    folder: Path
    """A plain Hugging Face folder."""
    kind: str
    """`best checkpoint`, `final policy`, `newest checkpoint` or `checkpoint`."""
    step: int
    """The training step after which it was written."""
    chosen_by: str | None = None
    """The metric that chose it; None if nothing was compared."""
    among: int = 1
    """How many checkpoints competed."""

    def to_json(self) -> dict[str, Any]:
        """Plain data, for reports."""
        return {**asdict(self), "folder": str(self.folder)}

    def describe(self, run: Path) -> str:
        """`best checkpoint of runs/default-1, step 20, chosen by eval/exact_match among 3`."""
        choice = f", chosen by {self.chosen_by}" if self.chosen_by else ""
        choice += f" among {self.among}" if self.among > 1 else ""
        shown = run.relative_to(Path.cwd()) if run.is_relative_to(Path.cwd()) else run
        return f"{self.kind} of {shown}, step {self.step}{choice}"
