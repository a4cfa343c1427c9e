"""What the engine samples equals what the model itself says, for every way in which the engine computes it."""

from __future__ import annotations

import asyncio
import logging
import random

import pytest
import torch
from agent_r1_transformers.lean import attend_along_trunk

from agent_r1_core.contracts.engine import context_digest
from agent_r1_core.testing import make_request

KEPT = ["qwen2", "qwen2_untied", "qwen3", "llama", "llama3", "gpt_neox", "gpt2", "gemma"]
LEAN = KEPT[:5]


def greedy(module, context, tokens):
    ids = torch.tensor([context])
    with torch.no_grad():
        out = module.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False, pad_token_id=0
        )
    return tuple(out[0, len(context) :].tolist())


def decoder_of(engine):
    return type(engine._worker.backend._batch._decoder).__name__


@pytest.mark.parametrize("kind", KEPT)
def test_greedy_ids_equal_those_of_generate_over_several_turns(kind, model, served, prompts):
    module, _ = model(kind)

    async def episode(engine, number, context):
        source = random.Random(number)
        for turn in range(3):
            budget = source.randrange(3, 9)
            request = make_request(tuple(context), budget, seed=0, temperature=0.0, episode=f"episode {number}")
            answer = await engine.generate(request)
            assert answer.ids == greedy(module, context, budget)
            assert answer.finish == "length"
            assert answer.context == context_digest(context), f"turn {turn} was conditioned on other ids"
            context = [*context, *answer.ids, *(source.randrange(97) for _ in range(source.randrange(1, 8)))]
        await engine.release(f"episode {number}")

    async def run(engine):
        assert decoder_of(engine) == ("LeanDecoder" if kind in LEAN else "CachedDecoder")
        await asyncio.gather(*(episode(engine, number, list(ids)) for number, ids in enumerate(prompts)))
        counts = engine.statistics
        assert counts["reused"] > 0
        assert counts["shared"] == 16, "the two equal prompts are read once"

    served(run, kind)


@pytest.mark.parametrize("kind", ["mistral_window", "mamba"])
def test_a_model_that_keeps_something_else_is_read_anew_and_says_so(kind, model, served, prompts, caplog):
    module, _ = model(kind)

    async def run(engine):
        assert decoder_of(engine) == "WholeDecoder"
        requests = [make_request(ids, 12, 0, temperature=0.0, episode=str(ids)) for ids in prompts]
        for answer, context in zip(await engine.generate_batch(requests), prompts, strict=True):
            assert answer.ids == greedy(module, context, 12)
            assert answer.context == context_digest(context)

    with caplog.at_level(logging.WARNING, logger="agent_r1_transformers.engine"):
        served(run, kind)
    said = [record.getMessage() for record in caplog.records if record.name == "agent_r1_transformers.engine"]
    assert len(said) == 1
    assert f"keeps no cache for {type(module).__name__}" in said[0]


@pytest.mark.parametrize("kind", KEPT)
@pytest.mark.parametrize("temperature", [1.0, 0.6, 0.0])
def test_log_probs_equal_a_full_forward_pass(kind, temperature, model, served, prompts, logprobs_of):
    module, _ = model(kind)

    async def run(engine):
        requests = [make_request(ids, 10, seed, temperature, episode=str(seed)) for seed, ids in enumerate(prompts)]
        first = await engine.generate_batch(requests)
        contexts = [(*ids, *answer.ids, 3, 4) for ids, answer in zip(prompts, first, strict=True)]
        again = [make_request(ids, 10, seed, temperature, episode=str(seed)) for seed, ids in enumerate(contexts)]
        return [*zip(prompts, first, strict=True), *zip(contexts, await engine.generate_batch(again), strict=True)]

    for context, answer in served(run, kind):
        expected = logprobs_of(module, context, answer.ids, temperature or 1.0)
        assert answer.logprobs == pytest.approx(expected, abs=1e-4)


def test_a_sample_depends_on_its_seed_and_not_on_its_company(served, prompts):
    requests = [make_request(ids, 8 + seed, seed) for seed, ids in enumerate(prompts)]

    async def run(engine):
        together = await engine.generate_batch(requests)
        alone = [await engine.generate(request) for request in reversed(requests)]
        other = await engine.generate(make_request(requests[3].ids, 8, seed=99))
        return together, alone[::-1], other

    together, alone, other = served(run, max_episodes=3)
    assert [answer.ids for answer in together] == [answer.ids for answer in alone]
    assert together[1].ids[:8] != together[5].ids[:8], "equal contexts with different seeds"
    assert other.ids != together[3].ids[:8]


def test_a_context_that_left_the_cached_path_is_still_right(model, served, prompts, logprobs_of):
    """The next request may extend, shorten or replace what the cache of its episode holds."""
    module, _ = model("llama")
    base = prompts[3]
    contexts = [base, (*base, 5, 6), base[:10], (*base[:10], 9, 9), base[:10], (1, 2), (8,)]

    async def run(engine):
        return [await engine.generate(make_request(ids, 6, seed=0, episode="one")) for ids in contexts]

    for context, answer in zip(contexts, served(run, "llama"), strict=True):
        assert answer.context == context_digest(context)
        assert answer.logprobs == pytest.approx(logprobs_of(module, context, answer.ids), abs=1e-4)


def test_two_requests_of_one_episode_may_be_in_flight(model, served, prompts, logprobs_of):
    module, _ = model("qwen2")

    async def run(engine):
        await engine.generate(make_request(prompts[3], 4, seed=0, episode="one"))
        requests = [make_request((*prompts[3], token), 6, seed=token, episode="one") for token in (1, 2)]
        return requests, await asyncio.gather(*(engine.generate(request) for request in requests))

    requests, answers = served(run)
    for request, answer in zip(requests, answers, strict=True):
        assert answer.logprobs == pytest.approx(logprobs_of(module, request.ids, answer.ids), abs=1e-4)


@pytest.mark.parametrize(("cache_tokens", "reused"), [(None, 6 * 10), (0, 0), (25, 2 * 10)])
def test_the_cache_keeps_to_its_bound_and_forgets_the_least_recent(cache_tokens, reused, served):
    source = random.Random(5)
    contexts = [tuple(source.randrange(97) for _ in range(8)) for _ in range(6)]

    async def run(engine):
        first = [await engine.generate(make_request(ids, 3, 0, episode=str(ids))) for ids in contexts]
        for ids, answer in reversed(list(zip(contexts, first, strict=True))):
            await engine.generate(make_request((*ids, *answer.ids), 1, 0, episode=str(ids)))
        return engine.statistics["reused"]

    assert served(run, cache_tokens=cache_tokens) == reused


@pytest.mark.parametrize(("total", "steps", "reused"), [(None, 9, 50), (80, 9, 50), (40, 26, 20), (16, 45, 10)])
def test_requests_beyond_the_memory_wait_for_room(total, steps, reused, model, served, logprobs_of):
    """Five requests of 8 ids and 8 new ones: a slot has 16 places."""
    module, _ = model("qwen2")
    source = random.Random(5)
    contexts = [tuple(source.randrange(97) for _ in range(8)) for _ in range(5)]

    async def run(engine):
        requests = [make_request(ids, 8, 0, episode=str(ids)) for ids in contexts]
        first = await engine.generate_batch(requests)
        later = [
            make_request((*r.ids, *a.ids[:3]), 1, 0, episode=r.episode) for r, a in zip(requests, first, strict=True)
        ]
        await engine.generate_batch(later)
        return first, engine.statistics

    answers, statistics = served(run, max_total_tokens=total)
    for ids, answer in zip(contexts, answers, strict=True):
        assert answer.logprobs == pytest.approx(logprobs_of(module, ids, answer.ids), abs=1e-4)
    assert (statistics["steps"], statistics["reused"]) == (steps, reused)


def test_episodes_that_went_the_same_way_read_their_observation_once(model, served, prompts, logprobs_of):
    module, _ = model("qwen2")

    async def run(engine):
        first = await engine.generate_batch([make_request(prompts[1], 4, 7, episode=str(n)) for n in range(3)])
        assert len({answer.ids for answer in first}) == 1
        context = (*prompts[1], *first[0].ids, 11, 12, 13)
        requests = [make_request(context, 4, seed, episode=str(seed)) for seed in range(3)]
        return requests, await engine.generate_batch(requests), engine.statistics

    requests, answers, statistics = served(run)
    for request, answer in zip(requests, answers, strict=True):
        assert answer.logprobs == pytest.approx(logprobs_of(module, request.ids, answer.ids), abs=1e-4)
    prompt, context = len(prompts[1]), len(requests[0].ids)
    assert statistics["read"] == (prompt - 1) + (context - 1) - statistics["reused"]
    assert statistics["shared"] == 2 * (prompt - 1) + 2 * (context - 1)


@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "llama", "gpt_neox"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_all_requests_begin_with_is_read_once(kind, dtype, model, served, logprobs_of, monkeypatch):
    """Three questions after one system prompt, eight samples of each; and one request that has nothing of it."""
    looks = []

    def seen(query, keys, values, unseen, trunk):
        looks.append(trunk)
        return attend_along_trunk(query, keys, values, unseen, trunk)

    monkeypatch.setattr("agent_r1_transformers.lean.attend_along_trunk", seen)
    module, _ = model(kind)
    source = random.Random(3)
    system = tuple(source.randrange(97) for _ in range(70))
    questions = [(*system, *(source.randrange(97) for _ in range(length))) for length in (9, 23, 30)]

    async def run(engine):
        requests = [make_request(ids, 9, seed, episode=f"{seed} {ids}") for ids in questions for seed in range(8)]
        stranger = make_request(questions[1][5:40], 3, 0)
        first = await asyncio.gather(engine.generate_batch(requests), engine.generate(stranger))
        return requests, stranger, first, engine.statistics

    requests, stranger, (answers, other), statistics = served(run, kind, dtype=dtype)
    pairs = [*zip(requests, answers, strict=True), (stranger, other)]
    gaps = []
    for request, answer in pairs:
        assert answer.context == context_digest(request.ids)
        expected = logprobs_of(module, request.ids, answer.ids)
        gaps += [abs(own - right) for own, right in zip(answer.logprobs, expected, strict=True)]
    if dtype == "float32":
        assert max(gaps) < 1e-4
    else:
        assert sum(gaps) / len(gaps) < 0.1
    longest_first = [len(questions[2]) - 1, len(questions[1]) - 1 - 64, len(questions[0]) - 1 - 64]
    assert statistics["read"] == sum(longest_first) + len(stranger.ids) - 1
    if kind in LEAN:
        assert set(looks) == {64}
        assert len(looks) == 6 * 3, "as soon as the stranger has left, every layer looks at the system prompt once"


def test_release_drops_what_an_episode_kept(served, prompts):
    async def run(engine):
        await engine.generate(make_request(prompts[1], 3, 0, episode="one"))
        await engine.release("one")
        await engine.release("never seen")
        await engine.generate(make_request(prompts[1], 3, 0, episode="one"))
        return engine.statistics["reused"]

    assert served(run) == 0


def test_episodes_that_were_begun_go_before_new_ones(served):
    """Else new ones would take the places of those that wait for a tool, and all would read again."""
    source = random.Random(8)
    prompts = [tuple(source.randrange(97) for _ in range(30)) for _ in range(8)]

    async def run(engine):
        requests = [make_request(ids, 4, episode=str(ids)) for ids in prompts]
        begun, new = requests[:2], requests[2:]
        answers = await engine.generate_batch(begun)
        turns = [
            make_request((*one.ids, *answer.ids, 1, 2, 3), 4, episode=one.episode)
            for one, answer in zip(begun, answers, strict=True)
        ]
        await engine.generate_batch([*new, *turns])
        return engine.statistics["reused"]

    assert served(run, max_episodes=2) == 2 * (30 + 3), (
        "a second turn reads neither its prompt nor its first answer again"
    )


def test_long_contexts_are_read_in_chunks(model, served, logprobs_of, monkeypatch):
    monkeypatch.setattr("agent_r1_transformers.batch._CHUNK", 16)
    monkeypatch.setattr("agent_r1_transformers.batch._TOKENS", 40)
    module, _ = model("qwen2")
    source = random.Random(2)
    contexts = [tuple(source.randrange(97) for _ in range(length)) for length in (150, 33, 90, 17, 16, 2)]

    answers = served(lambda engine: engine.generate_batch([make_request(ids, 5, seed=1) for ids in contexts]))
    for context, answer in zip(contexts, answers, strict=True):
        assert answer.context == context_digest(context)
        assert answer.logprobs == pytest.approx(logprobs_of(module, context, answer.ids), abs=1e-4)
