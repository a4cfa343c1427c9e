"""Shows runs: `agent-r1 view` in a browser, `plot` and `show` in a notebook. It reads them as they are and never writes
them.

What draws is imported when it is asked for: this package stays light.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from agent_r1_core.runs.run_reader import RunReader
    from agent_r1_viewer.notebook import Inline

__all__ = ["plot", "show"]


def plot(run: RunReader | str | Path, *metrics: str, others: Sequence[RunReader | str | Path] = ()) -> Inline:
    """Curves of a run over its steps, inline in a notebook; in a terminal small ones with numbers.

        plot(run, "reward/mean", "eval/exact_match", others=["runs/ppo-1"])

    Args:
        run: a run, or its folder.
        metrics: names as in `run.metrics()`; none: the mean reward.
        others: runs whose curves are drawn over this one's.

    Raises:
        RunError: no run has such a metric, a folder is no run, or a file is damaged.
    """
    from agent_r1_viewer.notebook import curves

    return curves([_opened(one) for one in (run, *others)], metrics)


def show(
    run: RunReader | str | Path,
    step: int | None = None,
    group: int = 0,
    sample: int = 0,
    *,
    evaluation: str | None = None,
    set_name: str | None = None,
) -> Inline:
    """One episode, inline in a notebook: the conversation, and token by token; in a terminal its text.

        show(run, step=3, group=1, sample=2)
        show(run, evaluation="step_000100", sample=7)

    Args:
        run: a run, or its folder.
        step: None: the newest one.
        group: of the step, from 0.
        sample: of the group, from 0 (a sample that was dropped leaves a gap); with `evaluation`, of the episodes that
            its set keeps.
        evaluation: its name, as in `run.evaluations()`, instead of a step and a group.
        set_name: the evaluation set; None: the only one that keeps episodes.

    Raises:
        RunError: there is no such episode, the folder is no run, or the file is damaged.
    """
    from agent_r1_core.errors import RunError
    from agent_r1_viewer.notebook import show_episode, show_evaluated

    run = _opened(run)
    if evaluation is None and set_name is None:
        return show_episode(run, step, group, sample)
    if evaluation is None or step is not None or group:
        raise RunError("show either an episode of a step and a group, or one of an evaluation and its set")
    return show_evaluated(run, evaluation, set_name, sample)


def _opened(run: RunReader | str | Path) -> RunReader:
    from agent_r1_core.runs.run import Run
    from agent_r1_core.runs.run_reader import RunReader

    return run if isinstance(run, RunReader) else Run.open(run)
