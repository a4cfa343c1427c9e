"""Counts torch's operations, and the bytes of their results that are still there."""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveResults(TorchDispatchMode):
    """Of the operations within it; compiled regions count as one where they show themselves."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.operations: Counter[str] = Counter()
        self._made: dict[int, tuple[StorageWeakRef, int]] = {}

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.operations[str(func)] += 1
        for one in tree_leaves(out):
            if isinstance(one, Tensor):
                storage = one.untyped_storage()
                self._made[storage.data_ptr()] = StorageWeakRef(storage), storage.nbytes()
        return out

    def bytes(self) -> int:
        """What has outlived the operations."""
        return sum(size for storage, size in self._made.values() if not storage.expired())
