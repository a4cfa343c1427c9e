"""All that an exact resume of a learner needs beside the policy's folder: tensors by name, kept, written and read.

A state goes through torch's distributed checkpoint (DCP). Every rank writes a safetensors file with its shards and
reads those that it needs, however many ranks wrote them. The files have the form of torch's
`HuggingFaceStorageWriter`, which would copy each file in memory twice and stop all Python threads for that. DCP's usual
form is none for a checkpoint of unknown origin: it has a pickle, which runs code.
"""

from __future__ import annotations

import copy
import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.distributed.checkpoint import CheckpointException, HuggingFaceStorageReader, StorageWriter, load, save
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from agent_r1_core.errors import ConfigError
from agent_r1_core.opening import check_folder, open_to_read

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.checkpoint import Metadata, SavePlan, SavePlanner

    from agent_r1_core.learning.critic import Critic
    from agent_r1_core.learning.entropy import EntropyBonus
    from agent_r1_core.learning.optimiser import Optimiser
    from agent_r1_core.learning.policy import Policy

_OF_CRITIC = ("critic", "critic_optimiser")
_SCHEMA = "schema"
"""A tensor of every state, so that one without any other has a file too."""


class LearnerState:
    """The tensors of policy, critic, their optimisers and the entropy bonus, under the name of the part; each rank has
    its share.

    Args:
        critic: None, like its optimiser, where the algorithm needs none.
    """

    def __init__(
        self,
        policy: Policy,
        optimiser: Optimiser,
        critic: Critic | None,
        critic_optimiser: Optimiser | None,
        entropy_bonus: EntropyBonus,
    ) -> None:
        self._parts: dict[str, Policy | Critic | Optimiser | EntropyBonus] = {
            "policy": policy,
            "optimiser": optimiser,
            "entropy_bonus": entropy_bonus,
        }
        self._left_out: tuple[str, ...] = ()
        if critic is not None and critic_optimiser is not None:
            self._parts |= {"critic": critic, "critic_optimiser": critic_optimiser}

    def of_policy(self) -> LearnerState:
        """The state without the critic's part, which it passes over where it reads one."""
        state = copy.copy(self)
        state._left_out = _OF_CRITIC
        state._parts = {part: holder for part, holder in self._parts.items() if part not in _OF_CRITIC}
        return state

    def tensors(self) -> dict[str, Tensor]:
        """The tensors themselves, by names such as `optimiser/model.norm.weight/exp_avg`."""
        parts = {part: holder.state_dict() for part, holder in self._parts.items()}
        return {f"{part}/{name}": tensor for part, state in parts.items() for name, tensor in state.items()}

    def room(self, names: Iterable[str]) -> dict[str, Tensor]:
        """Tensors into which a state with these names can be read, for `load`.

        Raises:
            ConfigError: the state is of an algorithm with other roles.
            ModelError: its adapters are of other LoRA options.
            KeyError: it is of another model.
        """
        parts = {part: self._parts[part].room(inner) for part, inner in self._by_part(names).items()}
        return {f"{part}/{name}": tensor for part, room in parts.items() for name, tensor in room.items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Put back what `tensors` gave, bit for bit; the optimiser's tensors become its own. Raises as `room`, or a
        RuntimeError where the state is of another model."""
        names = self._by_part(state)
        for part, holder in self._parts.items():
            holder.load_state_dict({name: state[f"{part}/{name}"] for name in names[part]})

    def _by_part(self, names: Iterable[str]) -> dict[str, list[str]]:
        """The names of a state without their first word, by that word."""
        split: dict[str, list[str]] = {part: [] for part in self._parts}
        for part, _, inner in (name.partition("/") for name in names):
            if part not in self._left_out:
                split.setdefault(part, []).append(inner)
        written, wanted = bool(split.get("critic")), "critic" in self._parts
        if written != wanted:
            raise ConfigError(
                f"the checkpoint was written {'with' if written else 'without'} a critic and this learner "
                f"has {'one' if wanted else 'none'}; resume with the algorithm of the run"
            )
        return split


def write_state(state: Mapping[str, Tensor], folder: Path, group: ProcessGroup | None = None) -> None:
    """Write a state into a new folder. All ranks of the group call this together; what one fails at, all raise.

    Args:
        state: on any device; the same names on every rank; DTensors are written by their shards, of other tensors one
            rank's.
        group: the ranks that hold it, on a CPU backend and used for nothing else meanwhile; None: this process alone.

    Raises:
        OSError, SafetensorError: writing fails.
    """
    with _dcp():
        save(
            {**state, _SCHEMA: torch.ones((), dtype=torch.int64)},
            storage_writer=_Writer(folder),
            process_group=group,
            no_dist=group is None,
        )


def read_state(folder: Path, room: Callable[[Iterable[str]], dict[str, Tensor]]) -> dict[str, Tensor]:
    """Read a state. Every rank does so by itself and reads its own shards only.

    Args:
        room: gives the tensors to read these names into, sharded as they are needed.

    Raises:
        Exception: a file is damaged, or holds tensors of other shapes; safetensors and torch raise almost anything.
    """
    check_folder(folder)
    names = HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata.keys()
    if _SCHEMA not in names:
        raise ValueError("there is no file of a trainer's state in it")
    state = room(name for name in names if name != _SCHEMA)
    with _dcp():
        load(dict(state), storage_reader=HuggingFaceStorageReader(str(folder)), no_dist=True)
    return state


class _Writer(StorageWriter):
    """Writes the tensors of a rank to one file, without a copy of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """A writer writes once."""

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """All ranks do the same."""

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        self._folder.mkdir(parents=True, exist_ok=True)
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        names = [f"shard-{k:05d}-of-{len(plans):05d}.safetensors" for k in range(1, len(plans) + 1)]
        return [replace(plan, storage_data=name) for plan, name in zip(plans, names, strict=True)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write a rank's shards; they are on disk when this returns."""
        shards: dict[str, Any] = {item.index.fqn: planner.resolve_data(item) for item in plan.items}
        tensors = {name: shard.cpu().contiguous() for name, shard in shards.items()}
        begins = {item.index.fqn: {"saved_offsets": list(item.index.offset or ())} for item in plan.items}
        if tensors:
            file = self._folder / plan.storage_data
            save_file(tensors, file, {"DCP_SHARDING_INFO": json.dumps(begins, sort_keys=True)})
            with open_to_read(file) as written:
                os.fsync(written.fileno())
        done: Future[list[WriteResult]] = Future()
        done.set_result([WriteResult(item.index, tensors[item.index.fqn].nbytes, None) for item in plan.items])
        return done

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """The files say of themselves what they hold."""

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return True  # torch does not ask a writer that has its place


@contextmanager
def _dcp() -> Iterator[None]:
    """Raise what a rank met instead of DCP's collection, which is not even an Exception; and let torch not warn that it
    takes a process without a group for a single one."""
    warnings.filterwarnings("ignore", message="torch.distributed is disabled, unavailable or uninitialized")
    try:
        yield
    except CheckpointException as error:
        raise next(iter(error.failures.values()))[0] from error
