"""Stored episodes: packed ones whose turns and tokens are in Ray's object store, many in an object.

The controller has of each what travels beside it, and its place. What it sends to learner and writer has places, too:
the receiver reads the episodes from the store. Whoever looks into one here nevertheless fetches that one.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy
import ray
from numpy.typing import NDArray
from ray import cloudpickle

from agent_r1_core.metrics.tally import Tally, tally
from agent_r1_core.trajectory import Task, Trajectory
from agent_r1_ray.packed import BESIDE, PackedTrajectory

if TYPE_CHECKING:
    from agent_r1_ray.spec import WorkerSpec

_OTHERS = BESIDE.index("others")

Place = tuple[int, int, int]
"""Where an episode begins and ends in its batch, and whose part of it is meant: 0: its own, k: that of
`others[k - 1]`."""
Slim = tuple[Task, tuple[Any, ...], Tally, Place, "tuple[Slim | Trajectory, ...]"]
"""All of a stored episode but its turns and tokens: task, fields, tally, place, and the same of its others."""


class Batch:
    """Episodes end to end in an object of Ray's store, which is there as long as somebody holds this."""

    def __init__(self, reference: Any) -> None:
        self.reference = reference
        self._bytes: NDArray[Any] | None = None

    def read(self, place: Place) -> PackedTrajectory:
        """Fetch an episode."""
        if self._bytes is None:
            self._bytes = ray.get(self.reference)
        return _read(self._bytes, place)


class StoredTrajectory(PackedTrajectory):
    """A trajectory whose turns and tokens are in the store until somebody reads them, or changes anything."""

    def __init__(self, slim: Slim, batch: Batch) -> None:
        task, values, own, place, others = slim
        self.__dict__.update(zip(BESIDE, values, strict=True), task=task, _tally=own, _place=(batch, place))
        self.__dict__["others"] = tuple(opened(one, batch) for one in others)

    def sent(self) -> tuple[bytes, bytes] | None:
        """What it was made of, from the store; None: another thread has just unpacked it."""
        found = self.__dict__.get("_place")
        return None if found is None else found[0].read(found[1]).sent()


def slimmed(trajectory: Trajectory, batch: bytearray) -> Slim | Trajectory:
    """Append a packed episode to a batch; gives what its controller needs to know, of one that is not packed itself."""
    if type(trajectory) is not PackedTrajectory:
        return trajectory
    start = len(batch)
    batch += pickle.dumps(trajectory, protocol=5)
    return _slim(trajectory, (start, len(batch), 0))


def _slim(trajectory: Trajectory, place: Place) -> Slim | Trajectory:
    if type(trajectory) is not PackedTrajectory:
        return trajectory
    values = [vars(trajectory)[name] for name in BESIDE]
    others, values[_OTHERS] = values[_OTHERS], ()
    parts = tuple(_slim(one, (*place[:2], number)) for number, one in enumerate(others, start=1))
    return trajectory.task, tuple(values), tally(trajectory), place, parts


def opened(slim: Slim | Trajectory, batch: Batch) -> Trajectory:
    """The episode that was slimmed, in a batch that is stored."""
    return slim if isinstance(slim, Trajectory) else StoredTrajectory(slim, batch)


def _read(batch: NDArray[Any], place: Place) -> PackedTrajectory:
    start, stop, part = place
    found: PackedTrajectory = pickle.loads(batch.data[start:stop])
    one = found if not part else found.others[part - 1]
    assert isinstance(one, PackedTrajectory)
    return one


def parcel(value: Any) -> list[Any]:
    """What to pass to another process as arguments, so that `received` gives the value there: pickled, as it is now,
    with the batches of its stored episodes."""
    text = io.BytesIO()
    packer = _Packer(text, protocol=5)
    packer.dump(value)
    return [ray.put(numpy.frombuffer(text.getbuffer(), numpy.uint8)), *(one.reference for one in packer.batches)]


def received(pickled: NDArray[Any], *batches: NDArray[Any]) -> Any:
    """The value of a parcel, whose episodes are packed ones."""
    unpacker = _Unpacker(io.BytesIO(pickled.data))
    unpacker.batches = batches
    return unpacker.load()


class _Packer(cloudpickle.CloudPickler):
    """Pickles a stored episode as the number of its batch and its place."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.batches: dict[Batch, int] = {}

    def persistent_id(self, value: Any) -> tuple[int, Place] | None:
        if type(value) is not StoredTrajectory:
            return None
        found = vars(value).get("_place")
        if found is None:  # another thread has just unpacked it
            return None
        return self.batches.setdefault(found[0], len(self.batches)), found[1]


class _Unpacker(pickle.Unpickler):
    batches: Sequence[NDArray[Any]]

    def persistent_load(self, found: tuple[int, Place]) -> PackedTrajectory:
        number, place = found
        return _read(self.batches[number], place)


@ray.remote(num_cpus=0, max_retries=3)
def assembled(spec: WorkerSpec, *sent: Any) -> NDArray[Any]:
    """A parcel as one that needs no batches, for many receivers."""
    spec.load_plugin_files()
    return numpy.frombuffer(pickle.dumps(received(*sent), protocol=5), numpy.uint8)
