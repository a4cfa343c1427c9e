"""Stored episodes: packed ones whose turns and tokens are in Ray's object store, many in an object.

The controller has of each what travels beside it, and its place. What it sends to learner and writer has places, too:
the receiver reads the episodes from the store. Whoever looks into one here nevertheless fetches that one.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy
import ray
from numpy.typing import NDArray
from ray import cloudpickle

from agent_r1_core.metrics.tally import COLUMNS, Tally, tally
from agent_r1_core.trajectory import Trajectory
from agent_r1_ray.packed import BESIDE, PackedTrajectory

if TYPE_CHECKING:
    from agent_r1_ray.spec import WorkerSpec

_BESIDE = tuple(name for name in BESIDE if name != "others")
_TALLY = slice(len(_BESIDE), len(_BESIDE) + len(Tally._fields))
_COLUMN = {name: number for number, name in enumerate((*_BESIDE, *Tally._fields, "others", "place"))}
_COLUMN["tokens_by_version"] = _COLUMN["versions"]
"""What a controller is told of a stored episode: what travels beside it, its tally, the rows of its others (an episode
itself, where it is not stored), and its place."""
_beside = attrgetter(*_BESIDE)
_set = object.__setattr__

Place = tuple[int, int, int]
"""Where an episode begins and ends in its batch, and whose part of it is meant: 0: its own, k: that of
`others[k - 1]`."""


class Batch:
    """Episodes end to end in an object of Ray's store, which is there as long as somebody holds this.

    Args:
        reference: of the object.
        columns: what a controller is told of them, as `_COLUMN` names it. A step has too many episodes for tens of
            objects of each.
    """

    def __init__(self, reference: Any, columns: Sequence[Sequence[Any]]) -> None:
        self.reference, self.columns = reference, columns
        self._bytes: NDArray[Any] | None = None

    def read(self, place: Place) -> PackedTrajectory:
        """Fetch an episode."""
        if self._bytes is None:
            self._bytes = ray.get(self.reference)
        return _read(self._bytes, place)


class Stored:
    """Episodes on their way into the store."""

    def __init__(self) -> None:
        self.batch = bytearray()
        self._rows: list[tuple[Any, ...]] = []

    def add(self, trajectory: Trajectory) -> int | Trajectory:
        """Append a packed episode; gives its row, or an episode that is not packed itself."""
        if type(trajectory) is not PackedTrajectory:
            return trajectory
        start = len(self.batch)
        self.batch += pickle.dumps(trajectory, protocol=5)
        return self._add(trajectory, (start, len(self.batch), 0))

    def columns(self) -> list[tuple[Any, ...]]:
        """What to tell of them."""
        return list(zip(*self._rows, strict=True))

    def _add(self, trajectory: Trajectory, place: Place) -> int | Trajectory:
        if type(trajectory) is not PackedTrajectory:
            return trajectory
        others = tuple(self._add(one, (*place[:2], number)) for number, one in enumerate(trajectory.others, start=1))
        self._rows.append((*_beside(trajectory), *tally(trajectory), others, place))
        return len(self._rows) - 1


class StoredTrajectory(PackedTrajectory):
    """A trajectory whose turns and tokens are in the store until somebody reads them, or changes anything. Its task is
    not sent: it is known where it was asked for (`belong`)."""

    def __init__(self, batch: Batch, row: int) -> None:
        others: Sequence[int | Trajectory] = batch.columns[_COLUMN["others"]][row]
        _set(self, "_stored", (batch, row))
        _set(self, "_others", tuple(opened(one, batch) for one in others))

    @property
    def others(self) -> tuple[Trajectory, ...]:  # type: ignore[override]
        """The parts of the other players."""
        found: tuple[Trajectory, ...] = self.__dict__["_others"]
        return found

    @property
    def tally(self) -> Tally:
        """What was counted where it was played."""
        batch, row = self.__dict__["_stored"]
        return Tally._make(column[row] for column in batch.columns[_TALLY])

    def place(self) -> tuple[Batch, Place] | None:
        """Where it is; None: another thread has just unpacked it."""
        found = self.__dict__.get("_stored")
        return None if found is None else (found[0], found[0].columns[_COLUMN["place"]][found[1]])

    def sent(self) -> tuple[bytes, bytes] | None:
        """What it was made of, from the store; None: another thread has just unpacked it."""
        found = self.place()
        return None if found is None else found[0].read(found[1]).sent()

    def _unpack(self) -> None:
        if "_stored" in self.__dict__:
            self.__dict__.update({name: getattr(self, name) for name in BESIDE})
        super()._unpack()


def _columns(episodes: Sequence[StoredTrajectory]) -> Tally:
    """Their tallies in columns, without an object for each."""
    places = [vars(one)["_stored"] for one in episodes]
    starts: dict[Batch, int] = {}
    size = 0
    for batch, _ in places:
        if batch not in starts:
            starts[batch], size = size, size + len(batch.columns[0])
    index = [starts[batch] + row for batch, row in places]

    def in_order(parts: Iterable[Sequence[Any]]) -> list[Any]:
        return list(map(list(chain.from_iterable(parts)).__getitem__, index))

    return Tally._make(map(in_order, zip(*(batch.columns[_TALLY] for batch in starts), strict=True)))


COLUMNS[StoredTrajectory] = _columns


def _told(name: str, column: int) -> property:
    def get(self: StoredTrajectory) -> Any:
        found = self.__dict__.get("_stored")
        return getattr(self, name) if found is None else found[0].columns[column][found[1]]  # None: just unpacked

    return property(get)


for _name in (*_BESIDE, "total_reward", "success", "action_tokens", "tokens", "repeated_tokens", "tokens_by_version"):
    setattr(StoredTrajectory, _name, _told(_name, _COLUMN[_name]))


def opened(row: int | Trajectory, batch: Batch) -> Trajectory:
    """The episode of a row, in a batch that is stored."""
    return row if isinstance(row, Trajectory) else StoredTrajectory(batch, row)


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
        found = value.place()
        if found is None:
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
