"""Contract tests of an Engine, on a random tiny model."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from agent_r1_core.contracts.engine import Engine, EngineModel, Generation, Request, context_digest
from agent_r1_core.errors import EngineError
from agent_r1_core.testing.contracts.base import ComponentContract, run
from agent_r1_core.testing.model import tiny_model, tiny_model_folder, tiny_tokenizer
from agent_r1_core.testing.scripted import make_request

PROMPTS = ("Who?", "What is 1+1?", "A longer question, so that the rows of a batch differ in length.")


class EngineContract(ComponentContract):
    """Set `component`; set `tolerance` if the engine is not exact."""

    kind = "engine"
    tolerance: ClassVar[float] = 1e-4
    """Largest difference, in nats, between a log-prob and that of a plain forward pass in float32 (LAW 2)."""
    sizes: ClassVar[Mapping[str, Any]] = {}
    """Fields of the tiny model's configuration, for an engine whose kernels need larger heads."""

    def model(self, folder: Path) -> EngineModel:
        path = tiny_model_folder(folder / "model", **self.sizes)
        return EngineModel(folder=str(path), dtype="float32", tokenizer=tiny_tokenizer())

    def serve(self, folder: Path, use: Callable[[Engine], Awaitable[Any]]) -> Any:
        """Start the engine, use it, close it."""

        async def session() -> Any:
            engine = self.make()
            await engine.start(self.model(folder))
            try:
                return await use(engine)
            finally:
                await engine.close()

        return run(session())

    def test_generations_are_well_formed(self, tmp_path: Path) -> None:
        requests = [_request(prompt) for prompt in PROMPTS]
        generations = self.serve(tmp_path, lambda engine: _generate_together(engine, requests))
        for prompt, generation in zip(PROMPTS, generations, strict=True):
            assert 1 <= len(generation.ids) <= 8
            assert len(generation.logprobs) == len(generation.ids)
            assert all(value <= 1e-6 for value in generation.logprobs)
            assert generation.context == context_digest(_ids(prompt)), "context is not the digest of the request's ids"
            assert generation.finish == "length" or len(generation.ids) <= 8

    def test_log_probs_are_those_of_a_plain_forward_pass(self, tmp_path: Path) -> None:
        requests = [_request(prompt, temperature=temperature) for prompt in PROMPTS for temperature in (1.0, 0.7)]
        generations = self.serve(tmp_path, lambda engine: _generate_together(engine, requests))
        for request, generation in zip(requests, generations, strict=True):
            self._compare(request, generation, seed=0)

    def test_new_weights_are_copied_and_served_with_their_version(self, tmp_path: Path) -> None:
        first, second = (_request(prompt) for prompt in PROMPTS[1:])

        async def use(engine: Engine) -> tuple[Generation, Generation]:
            weights = {name: value.detach() for name, value in tiny_model(seed=5, **self.sizes).named_parameters()}
            await engine.load_weights(weights, 3)
            generation = await engine.generate(first)
            for value in weights.values():
                value.mul_(-2)
            return generation, await engine.generate(second)

        generation, later = self.serve(tmp_path, use)
        assert generation.version == 3, f"the version of the weights is {generation.version}, not 3"
        runs = generation.versions or ((3, len(generation.ids)),)
        assert (runs[-1][0], sum(length for _, length in runs)) == (3, len(generation.ids)), (
            f"versions {runs} do not cover the {len(generation.ids)} ids, of which the last is of version 3"
        )
        self._compare(first, generation, seed=5)
        self._compare(second, later, seed=5, why="load_weights must copy: the caller changed its tensors")

    def test_a_sample_depends_on_its_seed_alone(self, tmp_path: Path) -> None:
        requests = [_request(prompt, seed=seed) for seed, prompt in enumerate(PROMPTS * 2)]
        together = self.serve(tmp_path, lambda engine: _generate_together(engine, requests))
        alone = self.serve(tmp_path, lambda engine: _generate_in_turn(engine, list(reversed(requests))))
        assert [generation.ids for generation in together] == [generation.ids for generation in reversed(alone)], (
            "other requests changed a sample (LAW 11)"
        )
        assert len({generation.ids for generation in together}) > 1

    def test_greedy_takes_the_likeliest(self, tmp_path: Path) -> None:
        request, single = _request(PROMPTS[1], temperature=0.0), _request(PROMPTS[1], top_k=1)
        generation, only = self.serve(tmp_path, lambda engine: _generate_together(engine, [request, single]))
        assert only.ids == generation.ids, "top_k=1 leaves only the likeliest id, but another one was sampled"
        logprobs = self._logprobs(request.ids, generation.ids, 1.0, seed=0)
        for position, token in enumerate(generation.ids):
            best = float(logprobs[position].max())
            assert best - float(logprobs[position, token]) <= self.tolerance, f"token {position} is not the likeliest"

    def test_an_episode_may_go_on(self, tmp_path: Path) -> None:
        async def use(engine: Engine) -> tuple[Request, Generation]:
            first = _request(PROMPTS[0], episode="one")
            answer = await engine.generate(first)
            second = _request("", ids=(*first.ids, *answer.ids, *_ids(" And then?")), episode="one")
            continued = await engine.generate(second)
            await engine.release("one")
            return second, continued

        request, generation = self.serve(tmp_path, use)
        assert generation.context == context_digest(request.ids)
        self._compare(request, generation, seed=0)

    def test_a_stop_id_ends_and_is_kept(self, tmp_path: Path) -> None:
        async def use(engine: Engine) -> tuple[Generation, Generation]:
            free = await engine.generate(_request(PROMPTS[2]))
            return free, await engine.generate(_request(PROMPTS[2], stop_ids=(free.ids[2],)))

        free, stopped = self.serve(tmp_path, use)
        length = free.ids.index(free.ids[2]) + 1
        assert stopped.ids == free.ids[:length], "a stop id must end the generation and be its last id"
        assert stopped.finish == "stop"

    def test_an_impossible_request_is_an_engine_error(self, tmp_path: Path) -> None:
        async def use(engine: Engine) -> None:
            try:
                await engine.generate(_request("", ids=(10**6,)))
            except EngineError:
                await engine.generate(_request(PROMPTS[0]))
                return
            raise AssertionError("an id outside the vocabulary was served; raise EngineError")

        self.serve(tmp_path, use)

    def _compare(self, request: Request, generation: Generation, seed: int, why: str = "LAW 2") -> None:
        logprobs = self._logprobs(request.ids, generation.ids, request.sampling.temperature, seed)
        for position, (token, claimed) in enumerate(zip(generation.ids, generation.logprobs, strict=True)):
            gap = abs(float(logprobs[position, token]) - claimed)
            assert gap <= self.tolerance, f"the log-prob of token {position} is off by {gap:.2g} nats ({why})"

    def _logprobs(self, context: tuple[int, ...], ids: tuple[int, ...], temperature: float, seed: int) -> Any:
        """log softmax(logits / temperature) of the model at each generated position, [ids, vocabulary]."""
        import torch

        model = tiny_model(seed, **self.sizes)
        with torch.no_grad():
            logits = model(torch.tensor([[*context, *ids]])).logits[0, len(context) - 1 : -1].float()
        return torch.log_softmax(logits / (temperature or 1.0), dim=-1)


def _ids(text: str) -> tuple[int, ...]:
    return tuple(tiny_tokenizer().encode(text, add_special_tokens=False))


def _request(prompt: str, *, ids: tuple[int, ...] | None = None, seed: int = 7, **more: Any) -> Request:
    return make_request(ids or _ids(prompt), seed=seed, **more)


async def _generate_together(engine: Engine, requests: list[Request]) -> list[Generation]:
    return list(await asyncio.gather(*(engine.generate(request) for request in requests)))


async def _generate_in_turn(engine: Engine, requests: list[Request]) -> list[Generation]:
    return [await engine.generate(request) for request in requests]
