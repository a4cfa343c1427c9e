"""Turns, stops, aborts and bounds."""

from __future__ import annotations

import asyncio
import math
import random
from typing import ClassVar

import pytest
from agent_r1_vllm.engine import VllmEngine

from agent_r1_core.errors import EngineError
from agent_r1_core.testing import EngineContract, make_request, tiny_tokenizer


class TestVllmEngine(EngineContract):
    component = VllmEngine
    config: ClassVar = {"kv_cache_memory": 0.125}
    sizes: ClassVar = {"hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1}


async def test_the_next_turn_finds_the_blocks_of_the_last_one(model, folder, serving, agree):
    source = random.Random(3)
    context = tuple(source.randrange(250) for _ in range(150))
    async with serving(folder()) as engine:
        first = await engine.generate(make_request(context, 100, 0, episode="one"))
        longer = (*context, *first.ids, *(source.randrange(250) for _ in range(60)))
        second = await engine.generate(make_request(longer, 20, 1, episode="one"))
        await engine.release("one")
        counts = engine.statistics
    agree(model(), [longer], [second])
    assert counts["cached"] == 224, "seven whole blocks of 32 out of 249 ids"
    assert counts["context"] == 150 + 310
    assert counts["sampled"] == 120


async def test_bfloat16_stays_close_to_float32_and_keeps_no_tensor(model, folder, serving, prompts, logprobs_of):
    async with serving(folder(), dtype="bfloat16") as engine:
        weights = {name: value.detach().bfloat16() for name, value in model(5).named_parameters()}
        await engine.load_weights(weights, 1)
        for value in weights.values():
            value.mul_(-2)
        answers = await engine.generate_batch([make_request(ids, 20, seed) for seed, ids in enumerate(prompts)])
    gaps = []
    for context, answer in zip(prompts, answers, strict=True):
        expected = logprobs_of(model(5), context, answer.ids)
        assert answer.logprobs == pytest.approx(expected, abs=0.3)
        gaps += [abs(math.exp(a) - math.exp(b)) for a, b in zip(answer.logprobs, expected, strict=True)]
    assert sum(gaps) / len(gaps) < 0.005, "the mean gap of probabilities is beyond what is healthy (LAW 2)"


async def test_more_context_than_a_step_reads_changes_no_sample(model, folder, serving, agree):
    """A seeded request cannot be read in chunks on a CPU."""
    source = random.Random(4)
    requests = [make_request(tuple(source.randrange(250) for _ in range(1500)), 5, seed) for seed in range(4)]
    async with serving(folder(), enable_prefix_caching=False) as engine:
        together = await asyncio.gather(*(engine.generate(request) for request in requests))
        alone = [await engine.generate(request) for request in requests]
    assert [answer.ids for answer in together] == [answer.ids for answer in alone]
    agree(model(), [request.ids for request in requests], together)


async def test_stop_strings_end_with_the_whole_token_that_completes_one(folder, serving, prompts):
    tokenizer = tiny_tokenizer()
    async with serving(folder()) as engine:
        free = await engine.generate(make_request(prompts[1], 200, 7))
        pieces = [tokenizer.decode([token]) for token in free.ids]
        plain = [len(piece) == 1 and piece.isascii() and piece.isprintable() for piece in pieces]
        place = next(k for k in range(3, 199) if plain[k] and plain[k + 1])
        wanted = ["".join(pieces[place : place + 2]), *[piece for piece in pieces if piece.startswith("<")][:1]]
        cut = [await engine.generate(make_request(prompts[1], 200, 7, stop_strings=(text,))) for text in wanted]
    for text, answer in zip(wanted, cut, strict=True):
        assert answer.finish == "stop"
        assert answer.ids == free.ids[: len(answer.ids)]
        assert answer.logprobs == pytest.approx(free.logprobs[: len(answer.ids)], abs=1e-4)
        assert text in tokenizer.decode(answer.ids)
        assert text not in tokenizer.decode(answer.ids[:-1])


async def test_cancelling_aborts_the_request_alone(folder, serving, prompts):
    async with serving(folder()) as engine:
        endless = asyncio.ensure_future(engine.generate(make_request(prompts[0], 4000, 1)))
        other = asyncio.ensure_future(engine.generate(make_request(prompts[1], 30, 2)))
        await engine.generate(make_request(prompts[3], 5, 3))
        endless.cancel()
        with pytest.raises(asyncio.CancelledError):
            await endless
        kept = await other
        assert kept.ids == (await engine.generate(make_request(prompts[1], 30, 2))).ids
        assert not engine._worker.backend.busy
        counts = engine.statistics
    assert counts["aborted"] == 1
    assert counts["sampled"] == 30 + 5 + 30


async def test_positions_bound_a_request(folder, serving, prompts):
    refused = {
        "has no ids": make_request((), 1, 0),
        "130 ids leaves no room in the 64 positions": make_request(prompts[3], 1, 0),
        "id 999 is outside": make_request((1,), 1, 0, stop_ids=(999,)),
        "without a tokenizer": make_request((1,), 1, 0, stop_strings=("a",)),
    }
    async with serving(folder(), max_model_len=64, tokens=False) as engine:
        short = await engine.generate(make_request(prompts[4], 100, 0))
        for words, request in refused.items():
            with pytest.raises(EngineError, match=words):
                await engine.generate(request)
        assert len((await engine.generate(make_request((1,), 1, 0))).ids) == 1
    assert (len(short.ids), short.finish) == (64 - 33, "length")


async def test_a_deterministic_engine_repeats_itself_to_the_bit_whatever_it_did_before(folder, serving, prompts):
    requests = [make_request(ids, 12, seed) for seed, ids in enumerate(prompts)]
    answers = []
    for before in ([], requests[:2]):
        async with serving(folder(), deterministic=True) as engine:
            for request in before:
                await engine.generate(request)
            answers.append(await engine.generate_batch(requests))
    assert answers[0] == answers[1]
