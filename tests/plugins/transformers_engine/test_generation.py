"""What the engine samples equals what the model itself says, for every way in which the engine computes it."""

from __future__ import annotations

import asyncio
import importlib
import logging
import random
import weakref

import pytest
import torch
from agent_r1_transformers.engine import _disagreement, choose_decoder
from agent_r1_transformers.graphs import Graphs
from agent_r1_transformers.hugging import layer_shapes
from agent_r1_transformers.lean import LeanDecoder, attend_along_trunk
from agent_r1_transformers.prefixes import Prefixes
from agent_r1_transformers.row import Row

from agent_r1_core.contracts.engine import context_digest
from agent_r1_core.kernels.compiled import Compiled
from agent_r1_core.testing import make_request

KEPT = ["qwen2", "qwen2_untied", "qwen3", "llama", "llama3", "gpt_neox", "gpt2", "gemma"]
LEAN = KEPT[:5]


def greedy(module, context, tokens):
    ids = torch.tensor([context])
    options = {"attention_mask": torch.ones_like(ids), "max_new_tokens": tokens, "pad_token_id": 0}
    with torch.no_grad():
        out = module.generate(ids, do_sample=False, **options)
    return tuple(out[0, len(context) :].tolist())


def decoder_of(engine):
    return type(engine._worker.backend._batch._decoder).__name__


def drawn(seed, *lengths):
    """Contexts of random ids."""
    source = random.Random(seed)
    return [tuple(source.randrange(97) for _ in range(length)) for length in lengths]


@pytest.mark.parametrize("kind", KEPT)
async def test_greedy_ids_equal_those_of_generate_over_several_turns(kind, model, serving, prompts):
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

    async with serving(kind) as engine:
        assert decoder_of(engine) == ("LeanDecoder" if kind in LEAN else "CachedDecoder")
        await asyncio.gather(*(episode(engine, number, list(ids)) for number, ids in enumerate(prompts)))
        counts = engine.statistics
    assert counts["reused"] > 0
    assert counts["shared"] == 16, "the two equal prompts are read once"


@pytest.mark.parametrize("kind", ["mistral_window", "mamba"])
async def test_a_model_that_keeps_something_else_is_read_anew_and_says_so(kind, model, serving, prompts, caplog):
    module, _ = model(kind)
    with caplog.at_level(logging.WARNING, logger="agent_r1_transformers.engine"):
        async with serving(kind) as engine:
            assert decoder_of(engine) == "WholeDecoder"
            requests = [make_request(ids, 12, 0, temperature=0.0, episode=str(ids)) for ids in prompts]
            for answer, context in zip(await engine.generate_batch(requests), prompts, strict=True):
                assert answer.ids == greedy(module, context, 12)
                assert answer.context == context_digest(context)
    said = [record.getMessage() for record in caplog.records if record.name == "agent_r1_transformers.engine"]
    assert len(said) == 1
    assert f"keeps no cache for {type(module).__name__}" in said[0]


@pytest.mark.parametrize(
    ("kind", "temperature"),
    [*((kind, 0.6) for kind in KEPT), *((kind, other) for kind in ("qwen2", "gpt2") for other in (1.0, 0.0))],
)
async def test_log_probs_equal_a_full_forward_pass(kind, temperature, model, serving, prompts, agree):
    contexts = prompts
    async with serving(kind) as engine:
        for _ in range(2):
            asked = [make_request(ids, 10, at, temperature, episode=str(at)) for at, ids in enumerate(contexts)]
            answers = await engine.generate_batch(asked)
            agree(model(kind)[0], contexts, answers, temperature or 1.0)
            contexts = [(*ids, *answer.ids, 3, 4) for ids, answer in zip(contexts, answers, strict=True)]


async def test_a_context_that_left_the_cached_path_is_still_right(model, serving, prompts, agree):
    """The next request may extend, shorten or replace what the cache of its episode holds, or another one is in
    flight."""
    base = prompts[3]
    contexts = [base, (*base, 5, 6), base[:10], (*base[:10], 9, 9), base[:10], (1, 2), (8,), base]
    async with serving("llama") as engine:
        answers = [await engine.generate(make_request(ids, 6, seed=0, episode="one")) for ids in contexts]
        both = [make_request((*base, token), 6, seed=token, episode="one") for token in (1, 2)]
        together = await asyncio.gather(*map(engine.generate, both))
    agree(model("llama")[0], [*contexts, *(request.ids for request in both)], [*answers, *together])


@pytest.mark.parametrize(("cache_tokens", "reused"), [(None, 6 * 10), (0, 0), (25, 2 * 10)])
async def test_the_cache_keeps_to_its_bound_and_forgets_the_least_recent(cache_tokens, reused, serving):
    contexts = drawn(5, *[8] * 6)
    async with serving(cache_tokens=cache_tokens) as engine:
        first = [await engine.generate(make_request(ids, 3, 0, episode=str(ids))) for ids in contexts]
        for ids, answer in reversed(list(zip(contexts, first, strict=True))):
            await engine.generate(make_request((*ids, *answer.ids), 1, 0, episode=str(ids)))
        assert engine.statistics["reused"] == reused


@pytest.mark.parametrize(("total", "steps", "reused"), [(None, 9, 50), (80, 9, 50), (40, 26, 20), (16, 45, 10)])
async def test_requests_beyond_the_memory_wait_for_room(total, steps, reused, model, serving, agree):
    """Five requests of 8 ids and 8 new ones: a slot has 16 places."""
    requests = [make_request(ids, 8, 0, episode=str(ids)) for ids in drawn(5, *[8] * 5)]
    async with serving(max_total_tokens=total) as engine:
        answers = await engine.generate_batch(requests)
        both = zip(requests, answers, strict=True)
        await engine.generate_batch([make_request((*r.ids, *a.ids[:3]), 1, 0, episode=r.episode) for r, a in both])
        assert (engine.statistics["steps"], engine.statistics["reused"]) == (steps, reused)
    agree(model("qwen2")[0], [request.ids for request in requests], answers)


class Played:
    """Stands for a graph: computes anew, and knows where what it reads and writes was when it was recorded."""

    recorded, plays = 0, 0

    def __init__(self, decoder):
        self.decoder = decoder
        self.alive = weakref.WeakSet()

    def __call__(self, compute, given, out, first):
        assert first == (not self.alive), "the pool of graphs that are gone is gone, too"
        where, shape = self.where(), given.shape
        self.recorded += 1

        def play(now):
            assert self.where() == where, "a graph was played that reads what is no longer there"
            assert now.shape == shape
            self.plays += 1
            return tuple(place.copy_(result) for place, result in zip(out, compute(now), strict=True))

        self.alive.add(play)
        return play

    def where(self):
        return [held.data_ptr() for held in (*self.decoder.cache._held, self.decoder._cos)]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kind", LEAN)
async def test_recorded_steps_sample_what_others_do(kind, compiled, model, serving, prompts, agree):
    """Over several turns, in which rows come and go and the cache grows."""
    async with serving(kind, compiled=compiled) as engine:
        decoder = engine._worker.backend._batch._decoder
        record = Played(decoder)
        decoder.graphs = Graphs(record)
        contexts = prompts
        for budget, temperature in ((9, 1.0), (40, 1.0), (7, 0.0), (30, 0.7)):
            numbered = enumerate(contexts)
            asked = [make_request(ids, budget - at, at, temperature, episode=str(at)) for at, ids in numbered]
            answers = await engine.generate_batch(asked)
            agree(model(kind)[0], contexts, answers, temperature or 1.0)
            contexts = [(*ids, *answer.ids, 3, 4) for ids, answer in zip(contexts, answers, strict=True)]
        steps = engine.statistics["steps"]
    assert record.plays > steps / 2
    assert record.recorded < steps / 5


@pytest.mark.parametrize(("compiled", "recorded"), [(True, 1), (False, 3)])
async def test_with_kernels_rows_of_all_lengths_share_a_recording(compiled, recorded, serving):
    async with serving(compiled=compiled) as engine:
        longest = make_request((1, 2, 3), 180, 0)
        await engine.generate(longest)  # for which the cache grows
        decoder = engine._worker.backend._batch._decoder
        record = Played(decoder)
        decoder.graphs = Graphs(record)
        await engine.generate(longest)
    assert record.recorded == recorded


def refused(compute, given, out, first):
    raise RuntimeError("capturing is not permitted\nmore")


mistaken = lambda compute, given, out, first: lambda now: (out[0].copy_(1.01 * compute(now)[0]), out[1])
no_number = lambda compute, given, out, first: lambda now: (out[0].fill_(float("nan")), out[1])
OTHER = "a recorded step gave other logits than the step itself"


@pytest.mark.parametrize(
    ("record", "why"),
    [(refused, "capturing is not permitted"), (mistaken, OTHER), (no_number, OTHER)],
    ids=["refused", "mistaken", "no_number"],
)
async def test_where_steps_cannot_be_recorded_they_are_computed(record, why, model, serving, prompts, agree, caplog):
    async with serving() as engine:
        engine._worker.backend._batch._decoder.graphs = Graphs(record)
        answers = await engine.generate_batch([make_request(ids, 5, 0, 1.0) for ids in prompts])
        agree(model("qwen2")[0], prompts, answers, 1.0)
    assert caplog.messages == [f"decoding goes on without CUDA graphs: {why}"]


@pytest.mark.usefixtures("plain_formulas")
@pytest.mark.parametrize("kind", LEAN)
def test_the_formulas_that_a_gpu_compiles_give_the_same_logits(kind, model):
    module, _ = model(kind)
    assert 0 < _disagreement(module, LeanDecoder(module, layer_shapes(module), False, Compiled())) < 1e-5


@pytest.mark.usefixtures("plain_formulas")
def test_where_triton_is_missing_a_gpu_takes_torchs_operations(model, monkeypatch, caplog):
    monkeypatch.setattr("agent_r1_transformers.engine.suited_kernels", lambda module, shapes: Compiled())
    monkeypatch.setattr(Compiled, "attend", lambda *given: importlib.import_module("no_triton"))
    decoder = choose_decoder(model("qwen2")[0])
    assert isinstance(decoder, LeanDecoder)
    assert decoder._kernels is None
    assert "decoded in a slower way, because a trial with a ragged cache failed (ModuleNotFoundError" in caplog.text


@pytest.mark.gpu
async def test_a_gpu_samples_alike_from_graphs_and_without(gpu, serving, prompts):
    """And by what torch compiles, or without it."""
    answered = []
    requests = [make_request(ids, 60 - 3 * place, place, 1.0) for place, ids in enumerate(prompts * 3)]
    for graphs, compiled in ((True, True), (False, True), (False, False)):
        async with serving(compiled=compiled, device=gpu, cuda_graphs=graphs) as engine:
            answered.append(await engine.generate_batch(requests))
            recorded = engine._worker.backend._batch._decoder.graphs
            assert (gpu == "cuda" and graphs) == (recorded is not None and any(recorded._graphs.values()))
    for one, *others in zip(*answered, strict=True):
        for other in others:
            assert one.ids == other.ids
            assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4, rel=0)


@pytest.mark.parametrize("kind", LEAN)
async def test_kernels_sample_what_torch_samples(kind, serving, kernels_here):
    """Contexts of 1, 2, 33, 79 and 80 ids, all of which begin alike or none; then their second turns."""
    system, *ends = drawn(4, 70, 9, 10)
    both = []
    for compiled in (True, False):
        contexts = [*drawn(5, 1, 2, 33), *(system + end for end in ends for _ in range(8))]
        async with serving(kind, compiled=compiled) as engine:
            assert (engine._worker.backend._batch._decoder._kernels is not None) == compiled
            for some in (contexts, contexts[3:]):
                requests = [make_request(ids, 9, seed, 2.0, episode=f"{seed}") for seed, ids in enumerate(some)]
                answers = await engine.generate_batch(requests)
                both.append(answers)
    for one, other in zip(both[0] + both[1], both[2] + both[3], strict=True):
        assert one.ids == other.ids
        assert one.logprobs == pytest.approx(other.logprobs, abs=2e-5, rel=0)


@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "llama", "gpt_neox"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
async def test_what_all_requests_begin_with_is_read_once(kind, dtype, model, serving, logprobs_of, monkeypatch):
    """Three questions after one system prompt, eight samples of each; and one request that has nothing of it."""
    looks = []

    def seen(query, keys, values, unseen, trunk):
        looks.append(trunk)
        return attend_along_trunk(query, keys, values, unseen, trunk)

    monkeypatch.setattr("agent_r1_transformers.lean.attend_along_trunk", seen)
    system, *ends = drawn(3, 70, 9, 23, 30)
    questions = [system + end for end in ends]
    requests = [make_request(ids, 9, seed, episode=f"{seed} {ids}") for ids in questions for seed in range(8)]
    stranger = make_request(questions[1][5:40], 3, 0)
    async with serving(kind, dtype=dtype, compiled=False) as engine:
        answers, other = await asyncio.gather(engine.generate_batch(requests), engine.generate(stranger))
        statistics = engine.statistics
    gaps = []
    for request, answer in [*zip(requests, answers, strict=True), (stranger, other)]:
        assert answer.context == context_digest(request.ids)
        expected = logprobs_of(model(kind)[0], request.ids, answer.ids)
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


async def test_the_memory_of_an_episode_is_dropped_with_it_and_serves_those_that_were_begun(serving, prompts):
    async with serving() as engine:
        await engine.generate(make_request(prompts[1], 3, 0, episode="one"))
        await engine.release("one")
        await engine.release("never seen")
        await engine.generate(make_request(prompts[1], 3, 0, episode="one"))
        assert engine.statistics["reused"] == 0
    # Else new ones would take the places of those that wait for a tool, and all would read again.
    requests = [make_request(ids, 4, episode=str(ids)) for ids in drawn(8, *[30] * 8)]
    begun, new = requests[:2], requests[2:]
    async with serving(max_episodes=2) as engine:
        both = zip(begun, await engine.generate_batch(begun), strict=True)
        turns = [make_request((*one.ids, *answer.ids, 1, 2, 3), 4, episode=one.episode) for one, answer in both]
        await engine.generate_batch([*new, *turns])
        reused = engine.statistics["reused"]
    assert reused == 2 * (30 + 3), "a second turn reads neither its prompt nor its first answer again"


async def test_long_contexts_are_read_in_chunks(model, serving, agree, monkeypatch):
    monkeypatch.setattr("agent_r1_transformers.batch._CHUNK", 16)
    monkeypatch.setattr("agent_r1_transformers.batch._TOKENS", 40)
    contexts = drawn(2, 150, 33, 90, 17, 16, 2)
    async with serving() as engine:
        agree(model("qwen2")[0], contexts, await engine.generate_batch([make_request(i, 5, seed=1) for i in contexts]))


def test_only_what_all_contexts_begin_with_is_a_trunk_and_equal_ones_share_all_but_their_last_id() -> None:
    prefixes = Prefixes()
    rows = [Row(0, make_request((5,) * length, 1)) for length in (40, 40, 17)]
    for one in rows:
        prefixes.add(one)
    assert prefixes.trunk() == 16
    prefixes.remove(rows[2])
    assert prefixes.trunk() == 39
