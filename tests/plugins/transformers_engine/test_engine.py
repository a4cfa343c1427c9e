"""The contract, stops, requests that cannot be served, determinism, new weights, the end."""

from __future__ import annotations

import asyncio
import copy
import itertools
import subprocess
import sys
import textwrap
import threading

import pytest
import torch
from agent_r1_transformers.batch import StopStrings
from agent_r1_transformers.engine import TransformersEngine

from agent_r1_core.contracts.engine import EngineModel, context_digest
from agent_r1_core.errors import EngineError
from agent_r1_core.testing import EngineContract, make_request


class TestTransformersEngine(EngineContract):
    component = TransformersEngine
    variants = ({}, {"max_episodes": 2, "cache_tokens": 20})


class Letters:
    """Id 0 is `<stop>`, the others are one letter each."""

    def decode(self, ids):
        return "".join("<stop>" if token == 0 else chr(ord("a") + token % 26) for token in ids)


class Bytes:
    """Byte-level tokens decode to U+FFFD alone, and some decoders strip the space of a single token."""

    def decode(self, ids):
        return bytes(ids).decode("utf-8", "replace").strip(" ")


async def test_a_stop_string_ends_with_the_token_that_completes_it(serving, prompts):
    decode = Letters().decode
    async with serving(tokenizer=Letters()) as engine:
        free = await engine.generate(make_request(prompts[0], 20, seed=1))
        text = decode(free.ids[5:8])
        cut = await engine.generate(make_request(prompts[0], 20, seed=1, stop_strings=("zzzz", text)))
    end = next(end for end in range(1, 21) if text in decode(free.ids[:end]))
    assert (cut.ids, cut.finish, cut.logprobs) == (free.ids[:end], "stop", free.logprobs[:end])


def test_a_string_may_be_completed_in_the_middle_of_a_token_whose_own_text_is_empty_or_partial():
    stops = StopStrings(Letters())
    assert stops.completed([1, 0], ["b<st"])
    assert not stops.completed([2, 0], ["b<st"])
    stops = StopStrings(Bytes())
    assert stops.completed(list("é".encode()), ["é"])
    assert stops.completed(list(b"a b"), [" b"])
    assert stops.completed(list(b"a\n"), ["\n"])
    assert not stops.completed(list(b"a c"), [" b"])


@pytest.mark.slow
def test_leaving_without_closing_ends_the_process_cleanly(model):
    """A thread inside torch would abort an interpreter that goes down."""
    _, folder = model("qwen2")
    code = f"""
        import asyncio, sys, threading
        from agent_r1_core.contracts.engine import EngineModel
        from agent_r1_core.testing import make_request
        from agent_r1_transformers.engine import TransformersEngine

        inside = threading.Event()

        async def main():
            engine = TransformersEngine()
            await engine.start(EngineModel({folder!r}, "float32"))
            decoder = engine._worker.backend._batch._decoder
            step = decoder.next_logits

            def long_step(*contexts):
                inside.set()
                return [step(*contexts) for _ in range(500)][-1]

            decoder.next_logits = long_step
            pending = asyncio.ensure_future(engine.generate(make_request((5,), 250)))
            await asyncio.sleep(0)
            inside.wait()
            sys.exit(7)

        asyncio.run(main())
    """
    out = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert out.returncode == 7, out.stderr


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (make_request((5, 97), 4, 0), "id 97 is outside the model's vocabulary of 97"),
        (make_request((5,) * 256, 4, 0), "a context of 256 ids leaves no room in the 256 positions"),
        (make_request((5,), 4, 0, stop_strings=("x",)), "without a tokenizer"),
        (make_request((5,) * 8, 25, 0), r"needs more than the 32 tokens of the cache; raise engine\.max_total_tokens"),
    ],
)
async def test_a_request_that_cannot_be_served_is_one_sentence_and_the_others_go_on(request_, sentence, serving):
    async with serving(max_total_tokens=32) as engine:
        good = asyncio.ensure_future(engine.generate(make_request((5, 6), 30, 0)))
        with pytest.raises(EngineError, match=sentence):
            await engine.generate(request_)
        assert len((await good).ids) == 30


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"folder": "/nowhere/at/all"}, "no causal language model can be loaded from /nowhere/at/all"),
        ({"dtype": "int8"}, "cannot compute in dtype 'int8'; choose one of float32, bfloat16"),
        ({"device": "cuda:99"}, "on cuda:99"),
    ],
)
async def test_a_model_that_cannot_be_served_is_one_sentence(change, sentence, model):
    served = EngineModel(**{"folder": model("qwen2")[1], "dtype": "float32", **change})
    with pytest.raises(EngineError, match=sentence):
        await TransformersEngine().start(served)


@pytest.mark.parametrize(("turns", "rows"), [(4, 2), (4, 16)])
async def test_deterministic_mode_repeats_bit_for_bit(turns, rows, serving, prompts):
    """Concurrent batches, more requests than rows, several turns: all numbers are equal, not just close."""

    async def answered():
        contexts, log = list(prompts), []
        async with serving(deterministic=True, max_episodes=rows) as engine:
            for turn in range(turns):
                numbered = enumerate(contexts)
                requests = [make_request(ids, 3 + (at + turn) % 4, at, episode=str(at)) for at, ids in numbered]
                halves = await asyncio.gather(engine.generate_batch(requests[:3]), engine.generate_batch(requests[3:]))
                log.append([answer for half in halves for answer in half])
                contexts = [(*ids, *answer.ids, turn + 1) for ids, answer in zip(contexts, log[-1], strict=True)]
        return log

    assert await answered() == await answered()


async def test_deterministic_batches_never_mix(serving, prompts):
    async with serving(deterministic=True) as engine:
        await asyncio.gather(*(engine.generate(make_request(ids, 5, seed=0)) for ids in prompts))
        assert engine.statistics["steps"] == 5 * len(prompts)


class Gate:
    """Holds an engine's worker inside one of its steps until the gate is opened."""

    def __init__(self, engine, step):
        decoder = engine._worker.backend._batch._decoder
        original, steps = decoder.next_logits, itertools.count(1)
        self._inside, self._opened = threading.Event(), threading.Event()

        def wait_at_the_gate(*contexts):
            if next(steps) == step:
                self._inside.set()
                self._opened.wait(60)
            return original(*contexts)

        decoder.next_logits = wait_at_the_gate

    async def reached(self):
        assert await asyncio.to_thread(self._inside.wait, 60), "the worker never came to the gate"

    async def open(self):
        """Let what was asked for meanwhile reach the worker's inbox, then let the worker go on."""
        await asyncio.sleep(0)
        self._opened.set()


async def test_requests_join_while_others_run_and_leave_when_they_end_or_are_cancelled(serving):
    async with serving() as engine:
        held = Gate(engine, step=2)
        requests = [make_request((5 + seed,), 20, seed) for seed in range(3)]
        tasks = [asyncio.ensure_future(engine.generate(request)) for request in requests]
        await held.reached()
        short = asyncio.ensure_future(engine.generate(make_request((6,), 3, 0)))
        for task in tasks[:2]:
            task.cancel()
        await held.open()
        assert len((await short).ids) == 3
        kept = await tasks[2]
        assert engine.statistics["steps"] == 20
        assert engine.statistics["sampled"] <= 20 + 3 + 2 * 2, "the other two sampled in two steps at most"
        assert kept.ids == (await engine.generate(requests[2])).ids


async def test_weights_that_diverged_are_named_and_new_ones_mend_it(model, serving, prompts):
    good = {name: parameter.detach() for name, parameter in model("qwen2")[0].named_parameters()}
    request = make_request(prompts[3], 6, seed=0, episode="one")
    async with serving() as engine:
        before = await engine.generate(request)
        await engine.load_weights({name: torch.full_like(value, torch.nan) for name, value in good.items()}, 1)
        with pytest.raises(EngineError, match="not finite under weights version 1"):
            await engine.generate(request)
        await engine.load_weights(good, 2)
        assert (await engine.generate(make_request(prompts[0], 6, seed=0))).version == 2
        assert (await engine.generate(request)).ids == before.ids


def changed(module):
    """A copy of the module with other weights, and those weights under their names, tied ones once."""
    other = copy.deepcopy(module)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return other, {name: parameter.detach() for name, parameter in other.named_parameters()}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["qwen2", "qwen2_untied", "llama", "gpt_neox", "mamba"])
async def test_log_probs_are_those_of_the_new_weights(kind, packed, model, serving, prompts, agree, monkeypatch):
    """Also where the engine holds a second copy of them, as of models of a real size, and of another float type."""
    if packed:
        monkeypatch.setattr("agent_r1_transformers.linear._LEAST", 0)
    other, weights = changed(model(kind)[0])
    requests = [make_request(ids, 8, seed, episode=str(seed)) for seed, ids in enumerate(prompts)]
    async with serving(kind) as engine:
        before = await engine.generate_batch(requests)
        await engine.load_weights(weights, 3)
        after = await engine.generate_batch(requests)
        assert engine.statistics["reused"] == 0, "what the old weights computed is void"
        await engine.load_weights({name: value.double() for name, value in weights.items()}, 4)
        assert [answer.ids for answer in await engine.generate_batch(requests)] == [answer.ids for answer in after]
    assert {answer.version for answer in before} == {0}
    assert {(answer.version, answer.versions) for answer in after} == {(3, ())}
    agree(other, prompts, after)
    assert before[0].logprobs != pytest.approx(after[0].logprobs, abs=1e-2)


@pytest.mark.parametrize("kind", ["qwen2", "gpt_neox"])
async def test_weights_may_change_while_requests_are_in_flight(kind, model, serving, prompts, logprobs_of):
    """The first five log-probs are those of the old weights, the others those of the new ones."""
    module, _ = model(kind)
    other, weights = changed(module)
    async with serving(kind) as engine:
        held = Gate(engine, step=5)
        requests = [make_request(ids, 12, seed, episode=str(seed)) for seed, ids in enumerate(prompts)]
        pending = asyncio.ensure_future(engine.generate_batch(requests))
        await held.reached()
        loading = asyncio.ensure_future(engine.load_weights(weights, 7))
        await held.open()
        await loading
        answers = await pending
    for context, answer in zip(prompts, answers, strict=True):
        assert (answer.version, answer.versions) == (7, ((0, 5), (7, 7)))
        assert answer.context == context_digest(context)
        old, new = (logprobs_of(scorer, context, answer.ids) for scorer in (module, other))
        assert answer.logprobs[:5] == pytest.approx(old[:5], abs=1e-4)
        assert answer.logprobs[5:] == pytest.approx(new[5:], abs=1e-4)
