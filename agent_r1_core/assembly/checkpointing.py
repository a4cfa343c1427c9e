"""Saves and loads what a training run keeps: checkpoints, and the final policy."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from agent_r1_core.errors import AgentR1Error, RunError, first_line, message_of
from agent_r1_core.opening import read_json
from agent_r1_core.runs.checkpoint import TASK_ORDER, Checkpoint
from agent_r1_core.runs.files import write_json

if TYPE_CHECKING:
    from agent_r1_core.assembly.roles import LearnerRole
    from agent_r1_core.assembly.task_order import Order
    from agent_r1_core.config.models import CheckpointConfig
    from agent_r1_core.learning.learner import Learner
    from agent_r1_core.runs.run import Run


async def save_checkpoint(
    learner: LearnerRole,
    order: Order,
    run: Run,
    step: int,
    settings: CheckpointConfig,
    best: str | None,
    metrics: Mapping[str, float],
    basis: str = "",
    interim: bool = False,
) -> None:
    """Begin to write the checkpoint of a step, whole or not at all; the metric `best` decides which checkpoint is best.

    It is written by `run.checkpoint_writer`; wait for that one first, also before the learner learns on where
    `settings.background` is false. The policy is written in float32, so that a resumed run continues exactly (LAW 10).

    Args:
        order: the place in the order of tasks behind the step.
        basis, interim: as in `Checkpoints.save`; the first is what `best` rests on in `metrics`.

    Raises:
        RunError: the checkpoint before it could not be written.
    """
    captured, place = await learner.capture(copy=settings.background), order.state()

    def write(folder: Path) -> None:
        with disk_errors(folder):
            captured.write(folder)
        run.model_files.complete(folder / "policy")
        write_json(folder / TASK_ORDER, place)

    value = metrics.get(best) if best else None
    run.checkpoint_writer.start(step, write, keep=settings.keep, metric=best, value=value, basis=basis, interim=interim)


def save_model(learner: LearnerRole, run: Run) -> None:
    """Write the final policy, a plain Hugging Face folder, whole or not at all.

    Raises:
        RunError: writing fails (disk full, read-only).
    """

    def write(folder: Path) -> None:
        with disk_errors(folder):
            learner.save_policy(folder)
        run.model_files.complete(folder)

    run.write_model(write)


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn the errors that torch and safetensors raise on a full disk into an OSError."""
    from safetensors import SafetensorError

    try:
        yield
    except (RuntimeError, SafetensorError) as error:
        free = shutil.disk_usage(path.parent).free
        raise OSError(f"{error}; {free / 2**20:.0f} MiB are free there") from error


def load_trainer_state(learner: Learner, checkpoint: Checkpoint, critic_anew: bool = False) -> None:
    """Restore the state of the optimiser, the critic and the adapters; each rank of a learner does so by itself.

    Args:
        critic_anew: leave the critic, if there is one, as it begins, whatever the checkpoint has.

    Raises:
        RunError: a file cannot be read, or does not hold the state of this learner.
    """
    from agent_r1_core.learning.state import read_state

    try:
        state = learner.state.of_policy() if critic_anew else learner.state
        state.load(read_state(checkpoint.trainer, state.room))
    except AgentR1Error:
        raise
    except Exception as error:  # what somebody else wrote makes torch raise almost anything
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise RunError(
            f"checkpoint {checkpoint.path} cannot be read ({reason}); delete it to resume from the previous one"
        ) from error


def load_task_order(order: Order, checkpoint: Checkpoint) -> Order:
    """The place in the order of tasks behind a checkpoint.

    Raises:
        RunError: the file cannot be read, or is of another number of tasks.
    """
    try:
        return order.at(read_json(checkpoint.task_order))
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise RunError(
            f"{checkpoint.task_order} does not say where the run stands in its tasks ({message_of(error)}); give the "
            "run the data that it was trained on, or delete the checkpoint to resume from the previous one"
        ) from error
