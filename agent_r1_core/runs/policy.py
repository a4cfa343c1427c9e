"""RunPolicy: one of a run's policies, with its step and how it was chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_r1_core.errors import RunError
from agent_r1_core.runs.replaced import aside

if TYPE_CHECKING:
    from agent_r1_core.runs.run_reader import RunReader


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

    @classmethod
    def of(cls, run: RunReader, damaged: Mapping[Path, str]) -> RunPolicy:
        """The policy that represents a run: the best checkpoint's, else the final one, else the newest.

        Args:
            damaged: folders of checkpoints that do not count, and what is wrong with them.

        Raises:
            RunError: the run has none.
        """
        checkpoints, best = run.checkpoints.all(), run.checkpoints.best(without=damaged)
        if best is not None:
            return cls(best.policy, "best checkpoint", best.step, best.metric, checkpoints[-1].competitors)
        if run.model.is_dir():
            return cls(run.model, "final policy", run.last_step())
        newest = next((item for item in reversed(checkpoints) if item.path not in damaged), None)
        if newest is None:
            raise RunError(_none(run, damaged))
        return cls(newest.policy, "newest checkpoint", newest.step)

    @classmethod
    def at(cls, run: RunReader, folder: Path) -> RunPolicy | None:
        """The policy of a run in `folder`; None if the folder holds none."""
        if folder == run.model.resolve():
            return cls(folder, "final policy", run.last_step())
        checkpoint = run.checkpoint_of(folder)
        return None if checkpoint is None else cls(folder, "checkpoint", checkpoint.step)

    def to_json(self) -> dict[str, Any]:
        """Plain data, for reports."""
        return {**asdict(self), "folder": str(self.folder)}

    def describe(self, run: Path) -> str:
        """`best checkpoint of runs/default-1, step 20, chosen by eval/exact_match among 3`."""
        choice = f", chosen by {self.chosen_by}" if self.chosen_by else ""
        choice += f" among {self.among}" if self.among > 1 else ""
        shown = run.relative_to(Path.cwd()) if run.is_relative_to(Path.cwd()) else run
        return f"{self.kind} of {shown}, step {self.step}{choice}"


def _none(run: RunReader, damaged: Mapping[Path, str]) -> str:
    """Why a run has no policy, and what to do."""
    reasons = run.checkpoints.damaged() | {path.name: reason for path, reason in damaged.items()}
    if reasons:
        listed = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        return f"run {run.path} holds no whole policy ({listed}); restore a checkpoint from a copy"
    old = f", or delete it and get back the run that it replaces ({aside(run.path).name}) with --resume"
    return (
        f"run {run.path} holds no policy yet; let it train until its first checkpoint"
        f"{old if aside(run.path).is_dir() else ''}"
    )
