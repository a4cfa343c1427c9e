"""A state that some ranks wrote is read by any other number of ranks, bit for bit."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch import distributed as dist
from torch.distributed.checkpoint import HuggingFaceStorageReader, load
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from agent_r1_core.contracts.algorithm import AlgorithmConfig
from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.learning.entropy import EntropyBonus
from agent_r1_core.learning.optimiser import OF_POLICY, Optimiser
from agent_r1_core.learning.state import LearnerState, read_state, write_state


class Net(nn.Module):
    """Sizes that no number of ranks divides, fewer rows than ranks, and a weight that never has a gradient."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.body, self.head, self.unused = nn.Linear(3, 5), nn.Linear(5, 1), nn.Linear(2, 2)

    def room(self, names: Any) -> dict[str, Tensor]:
        return {name: torch.empty_like(one) for name, one in self.state_dict().items()}


class Trained:
    """A network and its optimiser, sharded over the ranks if there are several."""

    def __init__(self, seed: int, ranks: int) -> None:
        self.net: Any = Net(seed)
        if ranks > 1:
            fully_shard(self.net, mesh=init_device_mesh("cpu", (ranks,)))
        self.optimiser = Optimiser(self.net.named_parameters(), 1e-2, TrainingConfig(), OF_POLICY)
        self.state = LearnerState(self.net, self.optimiser, None, None, EntropyBonus(AlgorithmConfig()))

    def learn(self, steps: int) -> None:
        """Take steps along gradients that are the same on any number of ranks."""
        generator = torch.Generator().manual_seed(7)
        for _ in range(steps):
            for name, parameter in self.net.named_parameters():
                full, own = torch.randn(parameter.shape, generator=generator), parameter.data
                if isinstance(own, DTensor):
                    full = distribute_tensor(full, own.device_mesh, own.placements)
                parameter.grad = None if name.startswith("unused") else full
            self.optimiser.adamw.step()

    def whole(self) -> dict[str, Tensor]:
        tensors = self.state.tensors().items()
        return {name: one.full_tensor() if isinstance(one, DTensor) else one.detach().clone() for name, one in tensors}


def _rank(work: Callable[[int], object], rank: int, ranks: int, meeting: Path) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    work(rank)
    dist.destroy_process_group()


def in_ranks(ranks: int, work: Callable[[int], object], tmp_path: Path) -> None:
    """Do the work in so many processes that know of each other; each is given its rank."""
    context, meeting = multiprocessing.get_context("fork"), tmp_path / f"meeting-{len(os.listdir(tmp_path))}"
    processes = [context.Process(target=_rank, args=(work, rank, ranks, meeting)) for rank in range(ranks)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        process.kill()
    assert [process.exitcode for process in processes] == [0] * ranks


@pytest.mark.slow
def test_a_state_is_read_by_any_number_of_ranks_bit_for_bit(tmp_path: Path) -> None:
    alone = Trained(0, ranks=1)
    alone.learn(3)
    expected = alone.whole()
    assert not any("unused" in name for name in expected if name.startswith("optimiser/"))
    assert len(expected) == 6 + 4 * 3, "weights, and the moments and steps of those that have a gradient"
    folders = [tmp_path / "of-one", tmp_path / "of-two"]
    write_state(alone.state.tensors(), folders[0])

    def write(rank: int) -> None:
        pair = Trained(0, ranks=2)
        pair.learn(3)
        write_state(pair.state.tensors(), folders[1], dist.group.WORLD)

    in_ranks(2, write, tmp_path)
    assert sorted(one.name for one in folders[1].iterdir()) == [f"shard-0000{k}-of-00002.safetensors" for k in (1, 2)]

    def check(ranks: int) -> None:
        for folder in folders:
            trained = Trained(1, ranks)
            trained.learn(1)  # what was there before is replaced
            trained.state.load(read_state(folder, trained.state.room))
            found = trained.whole()
            assert found.keys() == expected.keys()
            assert all(torch.equal(found[name], one) for name, one in expected.items())

    check(1)
    for ranks in (2, 4):
        in_ranks(ranks, lambda _, ranks=ranks: check(ranks), tmp_path)


def test_what_one_rank_cannot_write_all_ranks_raise(tmp_path: Path) -> None:
    (tmp_path / "state" / "shard-00002-of-00002.safetensors").mkdir(parents=True)

    def write(rank: int) -> None:
        with pytest.raises(SafetensorError, match="Is a directory"):
            write_state(Trained(0, ranks=2).state.tensors(), tmp_path / "state", dist.group.WORLD)

    in_ranks(2, write, tmp_path)


def test_the_files_are_those_of_torchs_own_safetensors_form_and_there_is_one_at_least(tmp_path: Path) -> None:
    state = {"a/b": torch.randn(2, 3), "a/step": torch.tensor(4.0)}
    write_state(state, tmp_path / "state")
    found = {name: torch.empty_like(one) for name, one in state.items()}
    load(found, storage_reader=HuggingFaceStorageReader(str(tmp_path / "state")), no_dist=True)
    assert all(torch.equal(found[name], one) for name, one in state.items())
    write_state({}, tmp_path / "empty")
    assert read_state(tmp_path / "empty", lambda names: dict.fromkeys(names, torch.empty(()))) == {}
    (tmp_path / "none").mkdir()
    with pytest.raises(ValueError, match="no file of a trainer's state"):
        read_state(tmp_path / "none", lambda names: {})
