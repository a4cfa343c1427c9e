"""What travels between processes: the make of a run, episodes, weights, files; and the shares of workers."""

from __future__ import annotations

import asyncio
import pickle
from collections import deque
from collections.abc import Callable, Generator, Iterator
from copy import deepcopy
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch
from agent_r1_ray import stored
from agent_r1_ray import writer as module
from agent_r1_ray.cluster import cpus_per_worker
from agent_r1_ray.packed import PackedTrajectory, packed
from agent_r1_ray.site import ray_site
from agent_r1_ray.spec import WorkerSpec
from agent_r1_ray.stored import Batch, Stored, StoredTrajectory, opened, parcel, received
from agent_r1_ray.weights import in_parts, to_tensors
from agent_r1_ray.writer import Writer, _tables
from small_run import REWARD, overrides
from torch import Tensor

from agent_r1_core.assembly.assembly import assemble
from agent_r1_core.assembly.blueprint import Blueprint
from agent_r1_core.assembly.local_roles import local_roles
from agent_r1_core.assembly.site import LocalSite
from agent_r1_core.config import load_config
from agent_r1_core.contracts.token_numbers import TokenNumbers
from agent_r1_core.errors import PluginError, RunError
from agent_r1_core.metrics.tally import tally
from agent_r1_core.rollout import RolloutResult
from agent_r1_core.runs import trajectory_file
from agent_r1_core.runs.trajectory_file import read_trajectories, row_groups, table_of, write_tables, write_trajectories
from agent_r1_core.testing import SiteContract, make_trajectory, random_group, tiny_model_folder
from agent_r1_core.trajectory import CallRecord, EndStatus, Group, Trajectory


class Watched(LocalSite):
    """This process, which keeps the blueprint."""

    blueprint: Blueprint

    def make_roles(self, blueprint: Blueprint) -> Any:
        self.blueprint = blueprint
        return local_roles(blueprint)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    tiny_model_folder(tmp_path / "model")
    (tmp_path / "there").mkdir()
    path = tmp_path / "there" / "vowels.py"
    path.write_text(REWARD)
    return path


@pytest.fixture
def spec(tmp_path: Path, file: Path) -> WorkerSpec:
    site = Watched()
    shown = '{"messages": [{"role": "user", "content": "0?"}, {"role": "assistant", "content": "0"}]}'
    (file.parent / "shown.jsonl").write_text(shown)
    changed = {"env__examples": file.parent / "shown.jsonl"}
    assemble(load_config("default", overrides(tmp_path, 1, **changed), plugins=[file]), site=site)
    sent: WorkerSpec = pickle.loads(pickle.dumps(WorkerSpec.of(site.blueprint)))
    return sent


def test_a_worker_makes_the_same_run_from_what_it_is_sent_unless_its_plugins_are_others(
    spec: WorkerSpec, file: Path
) -> None:
    file.write_text("raise SystemExit('another file of this name')")  # on the other machine
    (file.parent / "shown.jsonl").unlink()
    blueprint = spec.build()
    changed = {**spec.config, "plugins": blueprint.resolved.dump()["plugins"]}
    assert blueprint.resolved.dump() | {"sources": {}} == changed | {"sources": {}}
    placed = Path(changed["plugins"][0])
    assert placed != file
    assert placed.read_text() == REWARD
    assert blueprint.stages == ("train", "eval")
    assert [task.prompt for task in blueprint.examples.tasks] == ["0?"]
    assert blueprint.resolved.make("reward", blueprint.resolved.config.rewards[0]).name == "vowels"
    plugins = [one | {"version": "0.0.7"} if one["name"] == "calculator" else one for one in spec.plugins]
    with pytest.raises(PluginError, match=r"plugin 'calculator' has changed .* version 0.0.7 became .*; install the"):
        replace(spec, plugins=plugins).build()


class TestRay(SiteContract):
    component = ray_site


@pytest.mark.parametrize(
    ("machines", "workers", "share"),
    [
        ([2, 2], 4, 0.5),
        ([0, 4], 8, 0.5),  # a head that runs no workers
        ([16] * 33, 512, 1),
        ([2], 3000, 0),  # Ray counts no less than a thousandth
    ],
)
def test_all_workers_fit_without_the_largest_machine(machines: list[float], workers: int, share: float) -> None:
    assert cpus_per_worker(machines, workers) == share


def rich(seed: int = 0) -> Trajectory:
    """An episode with something in every field that is counted; some log-probs do not fit single precision."""
    one: Trajectory = random_group(seed, size=1, turns=3, new_segment_at={2}, answer="Rome").trajectories[0]
    one.rewards, one.closing = {"exact_match": 1.0}, [{"role": "tool", "content": "nothing"}]
    one.demonstrated = "tools" if seed == 1 else None
    one.turns[0].calls, one.turns[0].versions = [CallRecord("search", {"query": "Ö"})] * 2, ((3, 1), (4, 1))
    one.turns[1].info, one.turns[1].success = {"left": 3, "room": "hall"}, True
    one.turns[2].purpose, one.turns[2].finish = "summary", "length"
    one.segments[1].logprobs = [float(value) for value in range(len(one.segments[1].ids))]
    return one


def sent(trajectory: Trajectory) -> Trajectory:
    """As another process gets it, twice packed and once looked at in between."""
    arrived: Trajectory = pickle.loads(pickle.dumps(packed(trajectory)))
    assert type(arrived) is PackedTrajectory
    again: Trajectory = pickle.loads(pickle.dumps(arrived))
    return again


def test_one_that_is_read_or_changed_is_an_ordinary_trajectory_and_one_that_failed_stays_what_it_is() -> None:
    one, arrived = rich(), sent(rich())
    for name in ("total_reward", "versions", "tokens_by_version", "tokens", "action_tokens", "success", "id", "answer"):
        assert getattr(arrived, name) == getattr(one, name), name
    assert tally(arrived) == tally(one)
    assert type(arrived) is PackedTrajectory, "what the controller asks for is known without unpacking"
    assert sent(one) == one == sent(one)
    assert sent(one) != rich(1)
    assert repr(sent(one)).endswith(repr(one)[len("Trajectory(") :])
    assert deepcopy(sent(one)) == one
    read, changed = sent(one), sent(one)
    assert read.turns[1].info == {"left": 3, "room": "hall"}
    assert type(read) is Trajectory
    assert vars(read) == vars(one)
    changed.reward += 10
    assert changed.total_reward == pytest.approx(one.total_reward + 10)
    assert replace(sent(one), sample=7).id == "task-0/7"
    with pytest.raises(AttributeError, match="tokenz"):
        sent(one).tokenz  # type: ignore[attr-defined]  # noqa: B018
    failed, strange = make_trajectory(status=EndStatus.FAILED), make_trajectory()
    strange.turns[0].info = {"function": lambda: 0}
    assert packed(failed) is failed
    assert packed(strange) is strange


def test_what_is_in_the_store_is_sent_on_unread_and_fetched_by_who_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, plain = rich(), rich(1), rich(2)
    two.task, two.player, one.others, one.attempts = one.task, 1, (two,), 3
    one.branched_from, one.repeated_turns = 0, 1
    ordinary, expected = rich(3), deepcopy(one)
    kept, fetched = Stored(), list[Any]()
    rows = [kept.add(pickle.loads(pickle.dumps(packed(each)))) for each in (rich(3), one)]
    columns = pickle.loads(pickle.dumps(kept.columns()))
    fake = SimpleNamespace(get=lambda reference: fetched.append(reference) or stored_bytes, put=lambda value: value)
    monkeypatch.setattr(stored, "ray", fake)
    stored_bytes = kept.batch()
    batch = Batch("reference", columns)
    first, second = (opened(row, batch) for row in rows)
    for each, task in ((first, ordinary.task), (second, one.task)):
        assert isinstance(each, StoredTrajectory)
        each.belong(task)
    groups, *references = parcel([Group(one.task, [second, plain]), Group(one.task, list(second.others))])
    for order in ([(first, ordinary), (second, expected)], [(second, expected), (plain, plain), (first, ordinary)]):
        found, meant = ([Group(one.task, own), Group(one.task, own[:1])] for own in map(list, zip(*order, strict=True)))
        assert RolloutResult(found, seconds=2.0).metrics == RolloutResult(meant, seconds=2.0).metrics
    assert tally(second) == tally(expected)
    assert second.others[0].total_reward == two.total_reward
    assert references == ["reference"]
    assert not fetched
    assert type(second) is StoredTrajectory
    own, other = received(groups, stored_bytes)
    assert own.trajectories == [expected, plain]
    assert other.trajectories == [two]
    assert other.trajectories[0].turns[0].text == second.others[0].turns[0].text
    assert second == expected
    assert deepcopy(first) == rich(3)
    assert fetched == ["reference"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_come_bit_for_bit_and_are_asked_for_part_by_part(dtype: str) -> None:
    kind = getattr(torch, dtype)
    weights = {f"row {number}": torch.randn(10) for number in range(5)} | {"turned": torch.randn(40, 3).t()}
    asked: list[str] = []

    def each() -> Iterator[tuple[str, Tensor]]:
        for name, tensor in weights.items():
            asked.append(name)
            yield name, tensor

    coming = in_parts(each(), dtype, full=20 * kind.itemsize)
    parts = [next(coming)]
    assert asked == ["row 0", "row 1"], "no more than the first part is in memory"
    parts += coming
    assert [len(part) for part in parts] == [2, 2, 2], "the last one is full of a tensor larger than it"
    arrived = to_tensors(parts)
    assert list(arrived) == list(weights)
    for name, tensor in weights.items():
        assert arrived[name].dtype == kind
        assert torch.equal(arrived[name], tensor.to(kind))


class Reference:
    """What Ray gives for a stored value, or for a call of another process."""

    def __init__(self, value: Callable[[], Any]) -> None:
        self._value = value

    def __await__(self) -> Generator[None, None, Any]:
        yield from asyncio.sleep(0).__await__()
        return self._value()


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The other process; what `does` is raises or writes."""
    process = SimpleNamespace(does=write_trajectories, calls=0)

    def remote(file: Path, step: int, numbers: Any, makers: int, *sent: Reference) -> Reference:
        def call() -> None:
            process.calls += 1
            process.does(file, step, received(*(one._value() for one in sent)), numbers)

        return Reference(call)

    monkeypatch.setattr(stored, "ray", SimpleNamespace(put=lambda value: Reference(lambda: value)))
    monkeypatch.setattr(module, "on_this_machine", lambda: None)
    monkeypatch.setattr(module, "_elsewhere", SimpleNamespace(options=lambda **_: SimpleNamespace(remote=remote)))
    return process


async def test_the_file_of_a_process_that_is_lost_is_written_here_and_one_that_cannot_be_is_told_once(
    tmp_path: Path, elsewhere: SimpleNamespace
) -> None:
    def lost(*_: Any) -> None:
        raise ModuleNotFoundError("the plugin is not there")

    writer = Writer()
    for step, does in enumerate((write_trajectories, lost, write_trajectories)):
        elsewhere.does = does
        await writer.begin(tmp_path / str(step), step, [make_trajectory(sample=step)], None)
        await writer.wait()
    await writer.wait()
    assert [read_trajectories(tmp_path / str(step))[0].sample for step in range(3)] == [0, 1, 2]
    await writer.begin(tmp_path / "no_folder" / "file", 1, [make_trajectory()], None)
    with pytest.raises(RunError, match="no_folder"):
        await writer.begin(tmp_path / "file", 2, [make_trajectory()], None)
    await writer.wait()
    await writer.begin(tmp_path / "file", 2, [make_trajectory()], None)
    await writer.wait()
    assert elsewhere.calls == 5
    assert len(read_trajectories(tmp_path / "file")) == 1


def test_row_groups_of_several_makers_are_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trajectories = [make_trajectory(sample=number) for number in range(7)]
    ends = [0, *accumulate(one.tokens for one in trajectories)]
    spans = {one.id: span for one, span in zip(trajectories[1:], pairwise(ends[1:]), strict=False)}
    numbers = TokenNumbers(spans, numpy.arange(ends[-1], dtype=numpy.float32))
    asked: list[Any] = []

    def remote(*arguments: Any) -> Any:
        asked.append(partial(table_of, *pickle.loads(pickle.dumps(arguments))))
        return asked[-1]

    monkeypatch.setattr(trajectory_file, "_ROWS", 2)
    monkeypatch.setattr(module, "on_this_machine", lambda: None)
    monkeypatch.setattr(module, "ray", SimpleNamespace(get=lambda call: call()))
    monkeypatch.setattr(module, "_table", SimpleNamespace(options=lambda **_: SimpleNamespace(remote=remote)))
    write_trajectories(tmp_path / "alone", 1, trajectories, numbers)
    write_tables(tmp_path / "shared", _tables(1, deque(row_groups(trajectories)), numbers, 2))
    assert len(asked) == 4
    assert (tmp_path / "shared").read_bytes() == (tmp_path / "alone").read_bytes()
