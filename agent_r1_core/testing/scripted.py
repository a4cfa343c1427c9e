"""An engine that follows a script, through a real tokenizer: rollouts without a model. Requests in one line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_r1_core.contracts.engine import (
    Engine,
    EngineConfig,
    EngineModel,
    Generation,
    Request,
    Sampling,
    context_digest,
)
from agent_r1_core.engines.threaded import stop_length
from agent_r1_core.testing.model import tiny_tokenizer

if TYPE_CHECKING:
    import torch

LOGPROB = -0.5
"""Nats: the log-probability that a scripted policy claims for each of its ids."""


@dataclass(frozen=True)
class Cue:
    """What a script sees before it answers."""

    prompt: str
    """The whole context, decoded."""
    turn: int
    """Number of the episode's earlier requests."""
    request: Request


class ScriptedPolicy(Engine):
    """Answers with given texts, each closed by the end-of-turn token.

    Budgets, stop ids and stop strings act as in a real engine; log-probs are all `LOGPROB`.

    Args:
        script: the answers of an episode, turn by turn (the last one repeats), or a function from a Cue to an answer.
        tokenizer: a Hugging Face tokenizer or a ChatTokenizer; `tiny_tokenizer()` where None.
    """

    name = "scripted"

    def __init__(
        self,
        script: Sequence[str] | Callable[[Cue], str],
        tokenizer: Any = None,
        config: EngineConfig | None = None,
    ) -> None:
        super().__init__(config)
        self._script = script
        self._tokenizer: Any = tiny_tokenizer() if tokenizer is None else getattr(tokenizer, "raw", tokenizer)
        self._turns: dict[str, int] = {}
        self.requests: list[Request] = []
        """Every request, in the order of arrival."""
        self.released: list[str] = []
        self.version = 0

    async def start(self, model: EngineModel) -> None:
        """Nothing to load."""

    async def generate(self, request: Request) -> Generation:
        """The script's next answer for the request's episode."""
        self.requests.append(request)
        turn = self._turns.get(request.episode, 0)
        self._turns[request.episode] = turn + 1
        cue = Cue(self._tokenizer.decode(list(request.ids)), turn, request)
        ids, finish = self._cut(self._encode(self._answer(cue)), request)
        return Generation(
            ids=tuple(ids),
            logprobs=(LOGPROB,) * len(ids),
            finish=finish,
            context=context_digest(request.ids),
            version=self.version,
        )

    async def release(self, episode: str) -> None:
        """Forget the episode; its next request is turn 0 again."""
        self._turns.pop(episode, None)
        self.released.append(episode)

    async def load_weights(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
        """Note the version."""
        self.version = version

    def _answer(self, cue: Cue) -> str:
        if callable(self._script):
            return self._script(cue)
        return self._script[min(cue.turn, len(self._script) - 1)]

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def _cut(self, ids: Sequence[int], request: Request) -> tuple[list[int], Any]:
        ids = [*ids, self._tokenizer.eos_token_id]
        budget = request.sampling.max_new_tokens
        length = stop_length(ids[:budget], request, self._tokenizer.decode)
        if length is not None:
            return ids[:length], "stop"
        return ids[:budget], "stop" if len(ids) <= budget else "length"


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
