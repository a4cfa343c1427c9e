"""Requests to an engine in one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_r1_core.contracts.engine import Request
from agent_r1_core.contracts.sampling import Sampling


def make_request(
    ids: Sequence[int],
    max_new_tokens: int = 8,
    seed: int = 0,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int = 0,
    **more: Any,
) -> Request:
    """A Request; `more` are its fields besides `ids`, `sampling` and `seed`."""
    sampling = Sampling(temperature=temperature, top_p=top_p, top_k=top_k, max_new_tokens=max_new_tokens)
    return Request(tuple(ids), sampling, seed, **more)
