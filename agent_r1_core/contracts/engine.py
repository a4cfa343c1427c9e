"""Engine: what samples tokens. Ids in, ids and log-probs out; free of any library's types."""

from __future__ import annotations

import asyncio
import zlib
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from agent_r1_core.contracts.component import Component, ComponentConfig
from agent_r1_core.errors import EngineError

if TYPE_CHECKING:
    import torch


class ContextFull(EngineError):
    """A context has as many ids as the engine has positions, or more."""


def context_digest(ids: Sequence[int]) -> int:
    """A checksum of ids; with it the drift guard compares what the engine saw with what is trained (LAW 1)."""
    return zlib.crc32(array("q", ids).tobytes())


class Sampling(ComponentConfig):
    """Options of sampling; every engine has them among its own."""

    temperature: float = Field(default=1.0, ge=0)
    """Temperature of training rollouts; log-probs are log softmax(logits / temperature) (LAW 2). 0: greedy; log-probs
    are then those of temperature 1."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Sample from the smallest set of likeliest ids whose probabilities reach this sum; 1: from all."""
    top_k: int = Field(default=0, ge=0)
    """Sample from this many of the likeliest ids; 0: from all."""
    max_new_tokens: int = Field(default=64, ge=1)
    """Most tokens in one action."""

    def greedy(self) -> Sampling:
        """Greedy sampling with the same budget."""
        return Sampling(temperature=0.0, max_new_tokens=self.max_new_tokens)

    def within(self, tokens: int) -> Sampling:
        """The same options with at most `tokens` new tokens.

        Raises:
            ValueError: `tokens` is below 1.
        """
        fields = self.model_dump()
        return Sampling(**fields | {"max_new_tokens": min(self.max_new_tokens, tokens)})


class EngineConfig(Sampling):
    """Options that every engine has: the sampling options, and how many episodes it serves."""

    max_episodes: int = Field(default=128, ge=1)
    """Episodes in flight at once."""

    @property
    def sampling(self) -> Sampling:
        """The sampling options alone."""
        return Sampling(**{name: getattr(self, name) for name in Sampling.model_fields})


@dataclass(frozen=True)
class Request:
    """One generation: continue `ids`."""

    ids: tuple[int, ...]
    sampling: Sampling
    """`sampling.max_new_tokens` is this request's own budget."""
    seed: int
    """The only source of randomness (LAW 11)."""
    stop_ids: tuple[int, ...] = ()
    """Generation ends with one of these, which is part of the result."""
    stop_strings: tuple[str, ...] = ()
    """Generation ends with the whole token that completes one of these in the decoded text."""
    episode: str = ""
    """The episode's id. Each request of an episode extends the one before, unless the context is rewritten, or several
    are there at once: an engine may keep its cache until `release`."""


def check_request(request: Request, *, vocabulary: int, positions: int | None, decodes: bool) -> None:
    """Refuse a request that no engine can serve.

    Args:
        vocabulary: number of ids that the model knows.
        positions: longest context in ids, generated ones included; None: no limit.
        decodes: whether the engine has a tokenizer, which stop strings need.

    Raises:
        EngineError: the request cannot be served; the sentence says why and what to change.
    """
    ids = request.ids
    if not ids:
        raise EngineError("a request has no ids to continue; send at least one")
    for token in (*ids, *request.stop_ids):
        if not 0 <= token < vocabulary:
            raise EngineError(
                f"id {token} is outside the model's vocabulary of {vocabulary}; use the tokenizer of the model"
            )
    if positions is not None and len(ids) >= positions:
        raise ContextFull(
            f"a context of {len(ids)} ids leaves no room in the {positions} positions that the engine serves; "
            "lower env.max_turns, env.max_tokens or the length of tool results"
        )
    if request.stop_strings and not decodes:
        raise EngineError("a request has stop strings, but the engine was started without a tokenizer; give it one")


@dataclass(frozen=True)
class Generation:
    """What the engine sampled."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """Nats, one per id: log softmax(logits / temperature), before top-p and top-k."""
    finish: Literal["stop", "length"]
    context: int
    """`context_digest` of the ids that the engine really conditioned on, from its own records (LAW 1)."""
    version: int = 0
    """Version of the weights that sampled the last id."""
    versions: tuple[tuple[int, int], ...] = ()
    """Where the weights changed during the generation: runs of ids in order, each as (version, number of ids). Empty:
    all ids are of `version`."""


@dataclass
class EngineModel:
    """The model that an engine serves."""

    folder: str
    """A Hugging Face folder: configuration, tokenizer and first weights."""
    dtype: str
    """`float32` or `bfloat16`."""
    device: str = "cpu"
    tokenizer: Any = None
    """Decodes ids, for stop strings."""
    deterministic: bool = False


class Engine(Component):
    """Generates; concurrent `generate` calls are batched."""

    Config = EngineConfig

    async def start(self, model: EngineModel) -> None:
        """Load the model and become ready.

        Raises:
            EngineError: the model cannot be served, or the engine's library is not installed.
        """
        raise TypeError(f"engine {type(self).__name__} defines no start(model); add one")

    async def generate(self, request: Request) -> Generation:
        """Continue the request's ids.

        Raises:
            EngineError: the request cannot be served (ids out of the vocabulary, context too long).
        """
        raise TypeError(f"engine {type(self).__name__} defines no generate(request); add one")

    async def generate_batch(self, requests: Sequence[Request]) -> list[Generation]:
        """Serve requests that are admitted together in this order; in deterministic mode the result depends on nothing
        else (LAW 11)."""
        return list(await asyncio.gather(*(self.generate(request) for request in requests)))

    async def release(self, episode: str) -> None:
        """The episode is over: drop what is kept for it."""

    async def sleep(self) -> None:
        """No requests until the next `load_weights`: free memory for the learner."""

    async def load_weights(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
        """Serve these weights (Hugging Face names, any float dtype) from the next token on; drop all caches.

        The engine has copied the tensors when this returns, so the caller may change them afterwards.

        Raises:
            EngineError: the weights do not fit the model; the engine keeps the old ones.
        """
        raise TypeError(f"engine {type(self).__name__} defines no load_weights(weights, version); add one")

    def broken(self) -> EngineError | None:
        """Why the engine can serve nothing any more; None while it works. Its process is then replaced, where it has
        one of its own."""
        return None

    async def close(self) -> None:
        """Release everything."""
