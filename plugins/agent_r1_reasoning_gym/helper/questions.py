"""Makes questions of reasoning-gym, and makes them again by their index."""

from __future__ import annotations

import json
import random
import zlib
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy
import reasoning_gym
from reasoning_gym.composite import DatasetSpec
from reasoning_gym.factory import DATASETS

KEPT_ENTRIES, KEPT_SETS = 20_000, 100
EVAL_SHARE = 0.2


class Sets:
    """Data sets and their entries, kept as long as they are used."""

    def __init__(self) -> None:
        self._sets: OrderedDict[str, Any] = OrderedDict()
        self._entries: OrderedDict[tuple[str, int], Any] = OrderedDict()

    def get(self, made: Mapping[str, Any]) -> tuple[str, Any]:
        """A data set by its name, options and seed, under a key for its entries; raises ValueError with a sentence."""
        named = {name: made[name] for name in ("dataset", "options", "seed", "length")}
        key = json.dumps(named, sort_keys=True)
        if key not in self._sets:
            self._sets[key] = data_set(**named)
            while len(self._sets) > KEPT_SETS:
                self._sets.popitem(last=False)
        self._sets.move_to_end(key)
        return key, self._sets[key]

    def entry(self, made: Mapping[str, Any], index: int) -> tuple[Any, Any]:
        """A data set and one of its entries."""
        key, found = self.get(made)
        if (key, index) not in self._entries:
            random.seed(0)  # for sets that draw from global generators
            numpy.random.seed(0)
            self._entries[key, index] = found[index]
            while len(self._entries) > KEPT_ENTRIES:
                self._entries.popitem(last=False)
        return found, self._entries[key, index]


SETS = Sets()


def data_set(dataset: str, options: Mapping[str, Any], seed: int, length: int) -> Any:
    """A set of the package; it makes most entries when they are asked for, and a few sets all of them at once."""
    if dataset not in DATASETS:
        raise ValueError(f"there is no such data set; there are {', '.join(sorted(DATASETS))}")
    options = dict(options)
    if taken := {"seed", "size"} & options.keys():
        raise ValueError(f"{taken.pop()} is an option of the source; move it out of options")
    try:
        if dataset == "composite":
            parts = [{"weight": 1, "config": {}, **part} for part in options.get("datasets", [])]
            options["datasets"] = [DatasetSpec(**part) for part in parts]
        start = int.from_bytes(blake2b(f"reasoning_gym/{seed}".encode(), digest_size=4).digest()) >> 1
        return reasoning_gym.create_dataset(dataset, seed=start, size=length, **options)
    except Exception as error:
        raise ValueError(f"it refuses its options: {str(error) or type(error).__name__}") from error


def make(dataset: str, options: Mapping[str, Any], seed: int, split: str, size: int) -> list[dict[str, Any]]:
    """`size` different questions of the split, or as many as there are."""
    made: dict[str, dict[str, Any]] = {}
    length = max(1000, 10 * size)
    source = {"dataset": dataset, "options": options, "seed": seed, "length": length}
    for index in range(length):
        if len(made) == size:
            break
        _, entry = SETS.entry(source, index)
        question, answer = entry["question"], entry["answer"]
        share = int.from_bytes(blake2b(question.encode(), digest_size=8).digest()) / 2**64
        fits = split == "all" or (share < EVAL_SHARE) == (split == "eval")
        if fits and question not in made:
            named = entry["metadata"].get("source_dataset", dataset)
            told = None if answer is None else str(answer)
            again = source | {"index": index, "digest": digest(question)}
            made[question] = {"question": question, "answer": told, "dataset": named, "again": again}
    return list(made.values())


def digest(question: str) -> int:
    return zlib.crc32(question.encode())
