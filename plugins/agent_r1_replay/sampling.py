"""Plays a recorded step again: from the checkpoint before it, with its tasks, seeds and rewards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_r1_core.assembly.components import make_rewards
from agent_r1_core.contracts.token_numbers import TokenNumbers
from agent_r1_core.errors import RunError
from agent_r1_core.learning.selection import Selection
from agent_r1_core.runs.trajectory_row import row_of, trajectory_of
from agent_r1_core.training.api import site_of
from agent_r1_core.training.resume import assemble_behind
from agent_r1_core.training.supply import Supply
from agent_r1_core.work.running import run_async

if TYPE_CHECKING:
    from agent_r1_core.assembly.assembly import Assembly
    from agent_r1_core.config import ResolvedConfig
    from agent_r1_core.evaluation.listener import Listener
    from agent_r1_core.runs.checkpoint import Checkpoint
    from agent_r1_core.runs.run import Run
    from agent_r1_core.trajectory import Trajectory


def sampled_again(
    run: Run, resolved: ResolvedConfig, checkpoint: Checkpoint | None, step: int, listener: Listener
) -> list[Trajectory]:
    """The trajectories of a step, sampled anew, as its file would hold them: group by group, then baselines.

    All of them are played, since the bits of one may depend on those that are computed beside it.

    Args:
        checkpoint: that of the step before; None for the first step.

    Raises:
        RunError: the run is not deterministic.
        AgentR1Error: a component of the run is not available.
    """
    if not resolved.config.deterministic:
        raise RunError(
            f"run {run.path} was trained without deterministic=true, so its episodes cannot be sampled again bit for "
            "bit; derive its updates from the record instead, with --update, or train with deterministic=true"
        )
    with site_of(resolved, listener.note, listener.note) as site:
        assembly = assemble_behind(run, resolved, checkpoint, step - 1, site, listener.note)
        return run_async(_played(assembly, step, listener))


async def _played(assembly: Assembly, step: int, listener: Listener) -> list[Trajectory]:
    config = assembly.resolved.config
    selection = Selection(assembly.resolved.make("algorithm", config.algorithm), config.training)
    rewards = make_rewards(assembly.resolved)
    supply = Supply(assembly, selection, listener, assembly.task_order, step - 1, rewards)
    try:
        await assembly.start(version=step - 1)
        rollout = (await supply.take(step)).rollout
        played = [*rollout.trajectories, *rollout.baselines]
        return [trajectory_of(row_of(step, one, TokenNumbers())) for one in played]
    finally:
        await supply.close()
        await assembly.close()
