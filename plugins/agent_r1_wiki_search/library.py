"""The package bm25s, as this plugin imports it."""

from __future__ import annotations

import functools
import importlib
import sys
import threading
from typing import Any

_IMPORTING = threading.Lock()


@functools.cache
def bm25s() -> Any:
    """The package, imported as if there were no JAX: it would let JAX look for the ten best scores, for which JAX takes
    three quarters of the memory of a GPU from engine and learner."""
    with _IMPORTING:
        if "bm25s" not in sys.modules:
            own = sys.modules.get("jax")
            sys.modules["jax"] = None  # type: ignore[assignment]
            try:
                importlib.import_module("bm25s")
            finally:
                del sys.modules["jax"]
                if own is not None:
                    sys.modules["jax"] = own
    return importlib.import_module("bm25s")


@functools.cache
def frequent_words() -> frozenset[str]:
    """English words that say little of what a text is about."""
    bm25s()
    return frozenset(importlib.import_module("bm25s.stopwords").STOPWORDS_EN)
