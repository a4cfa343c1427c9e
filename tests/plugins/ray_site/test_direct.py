"""Weights that rollout workers read out of the learner workers' memory: layout, buffers, and who is lost meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import ray
import torch
from agent_r1_ray.cluster import connected
from agent_r1_ray.crew import Crew
from agent_r1_ray.direct import Published, Rows, Share, Slots, Weights, whole_shapes
from agent_r1_ray.jobs import WorkerLost
from agent_r1_ray.learner import RayLearner
from agent_r1_ray.remote import placed
from agent_r1_ray.rollout_worker import RayWorker
from one_number import ROWS, Rank, Reader
from small_run import Notes, fingerprint, run_once
from test_on_ray import TWO_OF_EACH
from torch import Tensor

from agent_r1_core.config.models import DistributedConfig
from agent_r1_core.errors import ConfigError, LearnerLost
from agent_r1_core.testing import tiny_model_folder


def shares_of(weights: Mapping[str, Tensor], ranks: int) -> list[Share]:
    """The layouts of ranks that hold as many rows as FSDP2 gives them."""
    layouts: list[list[Rows]] = [[] for _ in range(ranks)]
    for name, whole in weights.items():
        first = 0
        for layout, rows in zip(layouts, whole.chunk(ranks), strict=False):
            layout.append(Rows(name, tuple(whole.shape), first, len(rows)))
            first += len(rows)
    return [Share(layout, "float32", None) for layout in layouts]


def test_rows_of_all_ranks_make_whole_weights() -> None:
    """Also of weights that not every rank has a row of."""
    made = {"matrix": torch.randn(7, 3), "bias": torch.randn(5), "stack": torch.randn(2, 2, 4)}
    shares = shares_of(made, 3)
    weights = Weights(lambda sizes, dtype: [torch.full((size,), torch.nan) for size in sizes])
    weights.make(shares)
    for share in shares:
        for rows, target in zip(share.layout, weights.targets(share), strict=True):
            assert target.is_contiguous()
            target.copy_(made[rows.name][rows.first : rows.first + rows.count])
    assert list(whole_shapes(shares)) == list(made), "an engine may read them in the model's order"
    for name, tensor in made.items():
        whole = torch.cat([found for share in shares for found in of(weights, share, name)])
        assert torch.equal(whole, tensor)
    for wrong in (shares[1:], shares[:2], [*shares, shares[1]]):
        with pytest.raises(ValueError, match=r"in no share"):
            whole_shapes(wrong)


def of(weights: Weights, share: Share, name: str) -> list[Tensor]:
    return [target for rows, target in zip(share.layout, weights.targets(share), strict=True) if rows.name == name]


def test_a_buffer_is_written_again_when_nobody_holds_what_was_published_in_it() -> None:
    slots = Slots()
    slow = first = slots.publish(0, [])
    assert slots.free() == 1
    second: Published | None = slots.publish(1, [])
    assert slots.free() is None
    del first
    assert slots.free() is None
    second = None
    assert second is None
    assert slots.free() == 1, "the other one is still read"
    del slow
    assert slots.free() == 0


@pytest.fixture
def nixl() -> None:
    """Without NIXL a test is skipped, and CI fails it."""
    if not os.environ.get("CI"):
        pytest.importorskip("nixl", reason="NIXL is not installed: pip install 'agent-r1[nixl]'")


@pytest.mark.slow
@pytest.mark.usefixtures("nixl")
def test_a_run_by_nixl_is_the_run_through_the_store(tmp_path: Path) -> None:
    """Policies, episodes and metrics bit for bit, with the weights in shares."""
    tiny_model_folder(tmp_path / "model")
    changed = {**TWO_OF_EACH, "distributed__rollout_workers": 1, "evaluation__every": 0}
    notes = Notes()
    store = run_once(tmp_path, "store", 2, **changed)
    direct = run_once(tmp_path, "nixl", 2, listener=notes, **changed, distributed__weights="nixl")
    assert fingerprint(direct) == fingerprint(store)
    assert any("by NIXL" in note for note in notes.said)


@pytest.mark.slow
def test_a_run_that_wants_nixl_where_it_does_not_start_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_model_folder(tmp_path / "model")
    (tmp_path / "nixl.py").write_text("raise ImportError\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    with pytest.raises(ConfigError, match=r"nixl, which does not start: it is not installed on [\d.]+; `pip"):
        run_once(tmp_path, "refused", 1, **TWO_OF_EACH, distributed__weights="nixl")
    assert not (tmp_path / "runs").exists()


class Team:
    """Two ranks, the learner that leads them, and rollout workers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.crew = Crew()
        remote: Any = ray.remote
        actor = remote(concurrency_groups={"beat": 1, "disk": 1}, num_cpus=0)(Rank)
        self.ranks = [actor.remote(rank) for rank in range(2)]
        self.learner = RayLearner(None, None, None, direct=True)  # type: ignore[arg-type]
        self.learner._ranks = self.ranks
        self.version = 0

    async def hire(self, number: int) -> RayWorker:
        """Start a rollout worker."""
        remote: Any = ray.remote
        file = self.folder / f"{number}.bin"
        file.write_bytes(bytes(4 * ROWS))
        actor = remote(num_cpus=0)(Reader).options(max_concurrency=8).remote(str(file))
        self.crew.keep(number, actor, await placed(actor))
        worker = RayWorker(number, None, None, self.crew)  # type: ignore[arg-type]
        await worker.start()
        return worker

    async def publish(self) -> Any:
        """The next version, all of whose numbers are that of the version."""
        self.version += 1
        await asyncio.gather(*(rank.become.remote(self.version) for rank in self.ranks))
        return await self.learner.snapshot()

    async def load(self, worker: RayWorker, published: Any) -> set[float]:
        """Let a worker load weights; gives the numbers that it has got."""
        await worker.load_weights(published, self.version)
        return set(await worker._running.got.remote())

    async def caught(self, number: int, worker: RayWorker) -> asyncio.Task[set[float]]:
        """Stop the process of a worker in the middle of reading the next version."""
        seen = torch.from_file(str(self.folder / f"{number}.bin"), shared=True, size=2 * ROWS, dtype=torch.bfloat16)
        some = seen[:: ROWS // 500]
        for _ in range(60):
            loading = asyncio.create_task(self.load(worker, await self.publish()))
            process = int(worker.place.rpartition(" ")[2])
            while not loading.done() and not (some == self.version).any():
                await asyncio.sleep(0)
            os.kill(process, signal.SIGSTOP)
            if not (some == self.version).all():
                return loading
            os.kill(process, signal.SIGCONT)
            await loading
        raise AssertionError("reading was never caught in the middle")


def resume(worker: RayWorker, number: int = signal.SIGCONT) -> None:
    os.kill(int(worker.place.rpartition(" ")[2]), number)


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Team]:
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parent}:{os.environ.get('PYTHONPATH', '')}")
    with connected(DistributedConfig()):
        yield Team(tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("nixl")
def test_whoever_is_slow_or_lost_while_weights_are_read_harms_nobody_else(team: Team) -> None:
    asyncio.run(_slow_and_lost(team))


async def _slow_and_lost(team: Team) -> None:
    slow, other = await asyncio.gather(team.hire(0), team.hire(1))
    reading = await team.caught(0, slow)
    begun = float(team.version)
    latest = await team.publish()  # a replacement may still want it
    assert await team.load(other, latest) == {begun + 1}, "the other buffer is free"
    next_one = asyncio.create_task(team.publish())
    await asyncio.wait([next_one], timeout=1)
    assert not next_one.done(), "the buffer that is being read was written"
    resume(slow)
    assert await reading == {begun}, "weights of two versions"
    assert await team.load(other, await next_one) == {begun + 2}
    del latest, next_one

    reading = await team.caught(0, slow)
    resume(slow, signal.SIGKILL)
    with pytest.raises(WorkerLost):
        await reading
    del reading  # its error has the frames that read
    for _ in range(3):
        published = await team.publish()
        assert await team.load(other, published) == {float(team.version)}
    replacement = await team.hire(2)
    assert await team.load(replacement, published) == {float(team.version)}

    reading = await team.caught(2, replacement)
    ray.kill(team.ranks[1])
    resume(replacement)
    with pytest.raises(LearnerLost, match=r"the weights of step \d+ cannot be read from a learner worker"):
        await reading
    assert await other._running.got.remote() == {float(team.version) - 1}, "a rollout worker is lost with it"
