"""Stored episodes: packed ones whose turns and tokens are in Ray's object store, many in an object.

The controller has of each what travels beside it. What it sends to learner and writer names batch and row: the
receiver reads the episodes from the store. Whoever looks into one here nevertheless fetches its batch.
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
_COLUMN = {name: number for number, name in enumerate((*_BESIDE, *Tally._fields, "others"))}
_COLUMN["tokens_by_version"] = _COLUMN["versions"]
"""What a controller is told of a stored episode: what travels beside it, its tally, and the rows of its others (an
episode itself, where it is not stored)."""
_beside = attrgetter(*_BESIDE)
_set = object.__setattr__

_SIZE = 8
"""Bytes at the end of a batch that say how long the pickled places before them are."""

Place = tuple[int, int, int]
"""Where an episode begins and ends in its batch, and whose part of it is meant: 0: its own, k: that of
`others[k - 1]`."""


class Fetched:
    """A batch in this process."""

    def __init__(self, batch: NDArray[Any]) -> None:
        self._bytes = batch.data
        end = len(self._bytes) - _SIZE
        size = int.from_bytes(self._bytes[end:], "little")
        self._places: list[Place] = pickle.loads(self._bytes[end - size : end])

    def read(self, row: int) -> PackedTrajectory:
        """The episode of a row."""
        start, stop, part = self._places[row]
        found: PackedTrajectory = pickle.loads(self._bytes[start:stop])
        one = found if not part else found.others[part - 1]
        assert isinstance(one, PackedTrajectory)
        return one


class Batch:
    """Episodes end to end in an object of Ray's store, which is there as long as somebody holds this.

    Args:
        reference: of the object.
        columns: what a controller is told of them, as `_COLUMN` names it. A step has too many episodes for tens of
            objects of each.
    """

    def __init__(self, reference: Any, columns: Sequence[Sequence[Any]]) -> None:
        self.reference, self.columns = reference, columns
        self._fetched: Fetched | None = None

    def read(self, row: int) -> PackedTrajectory:
        """Fetch an episode."""
        if self._fetched is None:
            self._fetched = Fetched(ray.get(self.reference))
        return self._fetched.read(row)


class Stored:
    """Episodes on their way into the store."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._rows: list[tuple[Any, ...]] = []
        self._places: list[Place] = []

    def add(self, trajectory: Trajectory) -> int | Trajectory:
        """Append a packed episode; gives its row, or an episode that is not packed itself."""
        if type(trajectory) is not PackedTrajectory:
            return trajectory
        start = len(self._bytes)
        self._bytes += pickle.dumps(trajectory, protocol=5)
        return self._add(trajectory, (start, len(self._bytes), 0))

    def batch(self) -> NDArray[Any]:
        """The object of the store: the episodes, then their places."""
        places = pickle.dumps(self._places, protocol=5)
        return numpy.frombuffer(bytes(self._bytes) + places + len(places).to_bytes(_SIZE, "little"), numpy.uint8)

    def columns(self) -> list[tuple[Any, ...]]:
        """What to tell of them."""
        return list(zip(*self._rows, strict=True))

    def _add(self, trajectory: Trajectory, place: Place) -> int | Trajectory:
        if type(trajectory) is not PackedTrajectory:
            return trajectory
        others = tuple(self._add(one, (*place[:2], number)) for number, one in enumerate(trajectory.others, start=1))
        self._rows.append((*_beside(trajectory), *tally(trajectory), others))
        self._places.append(place)
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

    def sent(self) -> tuple[bytes, bytes] | None:
        """What it was made of, from the store; None: another thread has just unpacked it."""
        found = self.__dict__.get("_stored")
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
    unpacker.batches = [Fetched(batch) for batch in batches]
    return unpacker.load()


class _Packer(cloudpickle.CloudPickler):
    """Pickles a stored episode as the number of its batch and its row."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.batches: dict[Batch, int] = {}

    def persistent_id(self, value: Any) -> tuple[int, int] | None:
        if type(value) is not StoredTrajectory:
            return None
        found = vars(value).get("_stored")
        if found is None:  # another thread has just unpacked it
            return None
        return self.batches.setdefault(found[0], len(self.batches)), found[1]


class _Unpacker(pickle.Unpickler):
    batches: Sequence[Fetched]

    def persistent_load(self, found: tuple[int, int]) -> PackedTrajectory:
        number, row = found
        return self.batches[number].read(row)


@ray.remote(num_cpus=0, max_retries=3)
def assembled(spec: WorkerSpec, *sent: Any) -> NDArray[Any]:
    """A parcel as one that needs no batches, for many receivers."""
    spec.load_plugin_files()
    return numpy.frombuffer(pickle.dumps(received(*sent), protocol=5), numpy.uint8)
