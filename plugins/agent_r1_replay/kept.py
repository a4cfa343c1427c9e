"""Keeps derived updates beside a run's steps, where the viewer looks for them: `replays/step_000002.parquet`, in the
format of trajectories, and `replays/step_000002.json`, which names what was changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent_r1_core.contracts.json_text import to_json
from agent_r1_core.errors import RunError
from agent_r1_core.opening import check_inside
from agent_r1_core.runs.files import write_text
from agent_r1_core.runs.trajectory_file import write_trajectories

if TYPE_CHECKING:
    from agent_r1_core.runs.run import Run
    from agent_r1_replay.alternative import Alternative


def keep(run: Run, changed: Sequence[str], alternatives: Iterable[Alternative]) -> Path:
    """Write the trajectories of each step with what the derived update knew of their tokens, in place of what another
    replay kept of it.

    Returns:
        The folder.

    Raises:
        RunError: writing fails, or the folder is a link out of the run.
    """
    folder = run.path / "replays"
    try:
        check_inside(folder, run.path)
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise RunError(f"{folder} cannot be made ({error}); allow writing there, or leave --keep out") from error
    for one in alternatives:
        file = folder / run.trajectory_file(one.step).name
        write_trajectories(file, one.step, one.trajectories, one.known)
        write_text(file.with_suffix(".json"), to_json({"changed": list(changed)}))
    return folder
