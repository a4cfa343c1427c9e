"""Requests that cannot be served, determinism, cancellation, and a model that breaks."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
import torch
from agent_r1_transformers.engine import TransformersEngine

from agent_r1_core.contracts.engine import EngineModel
from agent_r1_core.errors import EngineError
from agent_r1_core.testing import make_request


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (make_request((), 4, 0), "no ids"),
        (make_request((5, 97), 4, 0), "id 97 is outside the model's vocabulary of 97"),
        (make_request((5, -1), 4, 0), "id -1 is outside"),
        (make_request((5,), 4, 0, stop_ids=(200,)), "id 200 is outside"),
        (make_request((5,) * 256, 4, 0), "a context of 256 ids leaves no room in the 256 positions"),
        (make_request((5,), 4, 0, stop_strings=("x",)), "without a tokenizer"),
    ],
)
def test_a_request_that_cannot_be_served_is_one_sentence_and_the_others_go_on(request_, sentence, served):
    async def run(engine):
        good = asyncio.ensure_future(engine.generate(make_request((5, 6), 20, 0)))
        with pytest.raises(EngineError, match=sentence):
            await engine.generate(request_)
        assert len((await good).ids) == 20

    served(run)


def test_a_generation_stops_where_the_positions_end(served):
    answer = served(lambda engine: engine.generate(make_request((5,) * 250, 40, 0)))
    assert (len(answer.ids), answer.finish) == (6, "length")


def test_a_request_larger_than_the_memory_is_refused(served):
    async def run(engine):
        assert len((await engine.generate(make_request((5,) * 8, 4, 0))).ids) == 4
        await engine.generate(make_request((5,) * 8, 5, 0))

    with pytest.raises(
        EngineError,
        match=r"8 ids and 5 new ones needs more than the 12 tokens of the cache; raise engine\.max_total_tokens",
    ):
        served(run, max_total_tokens=12)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"folder": "/nowhere/at/all"}, "no causal language model can be loaded from /nowhere/at/all"),
        ({"dtype": "int8"}, "cannot compute in dtype 'int8'; choose one of float32, bfloat16"),
        ({"device": "cuda:99"}, "on cuda:99"),
    ],
)
def test_a_model_that_cannot_be_served_is_one_sentence(change, sentence, model):
    _, folder = model("qwen2")
    served = EngineModel(**{"folder": folder, "dtype": "float32", **change})
    with pytest.raises(EngineError, match=sentence):
        asyncio.run(TransformersEngine().start(served))


@pytest.mark.parametrize("sizes", [(4, 2), (4, 16)])
def test_deterministic_mode_repeats_bit_for_bit(sizes, served, prompts):
    """Concurrent batches, more requests than rows, several turns: all numbers are equal, not just close."""
    turns, rows = sizes

    async def run(engine):
        contexts, log = list(prompts), []
        for turn in range(turns):
            requests = [
                make_request(ids, 3 + (seed + turn) % 4, seed, episode=str(seed)) for seed, ids in enumerate(contexts)
            ]
            halves = await asyncio.gather(engine.generate_batch(requests[:3]), engine.generate_batch(requests[3:]))
            answers = [answer for half in halves for answer in half]
            contexts = [(*ids, *answer.ids, turn + 1) for ids, answer in zip(contexts, answers, strict=True)]
            log.append(answers)
        return log

    assert served(run, deterministic=True, max_episodes=rows) == served(run, deterministic=True, max_episodes=rows)


def test_deterministic_batches_never_mix(served, prompts):
    async def run(engine):
        await asyncio.gather(*(engine.generate(make_request(ids, 5, seed=0)) for ids in prompts))
        return engine.statistics["steps"]

    assert served(run, deterministic=True) == 5 * len(prompts)


def test_requests_join_while_others_run_and_leave_when_they_end(served, gate):
    async def run(engine):
        held = gate(engine, step=2)
        long = asyncio.ensure_future(engine.generate(make_request((5,), 20, 0)))
        await held.reached()
        short = asyncio.ensure_future(engine.generate(make_request((6,), 3, 0)))
        await held.open()
        assert len((await short).ids) == 3
        assert len((await long).ids) == 20
        assert engine.statistics["steps"] == 20

    served(run)


def test_a_cancelled_request_leaves_the_batch(served, gate):
    async def run(engine):
        held = gate(engine, step=2)
        requests = [make_request((5 + seed,), 50, seed) for seed in range(3)]
        tasks = [asyncio.ensure_future(engine.generate(request)) for request in requests]
        await held.reached()
        for task in tasks[:2]:
            task.cancel()
        await held.open()
        kept = await tasks[2]
        counts = engine.statistics
        return kept, await engine.generate(requests[2]), counts

    kept, alone, counts = served(run)
    assert kept.ids == alone.ids
    assert counts["sampled"] <= 50 + 2 * 2, "the other two sampled in two steps at most"


def test_a_worker_that_dies_tells_pending_and_future_requests_why(served):
    async def run(engine):
        decoder = engine._worker.backend._batch._decoder

        def break_down(*contexts):
            raise MemoryError("no room for 7 GiB")

        decoder.next_logits = break_down
        requests = [make_request((5 + seed,), 4, seed) for seed in range(3)]
        outcomes = await asyncio.gather(*map(engine.generate, requests), return_exceptions=True)
        for outcome in outcomes:
            assert isinstance(outcome, EngineError)
            assert "MemoryError: no room for 7 GiB" in str(outcome)
            assert isinstance(outcome.__cause__, MemoryError)
        with pytest.raises(EngineError, match="no room for 7 GiB"):
            await engine.generate(requests[0])
        with pytest.raises(EngineError, match="no room for 7 GiB"):
            await engine.load_weights({}, 1)

    served(run)


def test_weights_that_diverged_are_named_and_new_ones_mend_it(model, served, prompts):
    module, _ = model("qwen2")
    good = {name: parameter.detach() for name, parameter in module.named_parameters()}
    bad = {name: torch.full_like(value, torch.nan) for name, value in good.items()}

    async def run(engine):
        request = make_request(prompts[3], 6, seed=0, episode="one")
        before = await engine.generate(request)
        await engine.load_weights(bad, 1)
        with pytest.raises(EngineError, match="not finite under weights version 1"):
            await engine.generate(request)
        await engine.load_weights(good, 2)
        assert (await engine.generate(make_request(prompts[0], 6, seed=0))).version == 2
        assert (await engine.generate(request)).ids == before.ids

    served(run)


def test_the_plugin_module_is_light():
    code = "import sys, agent_r1_transformers.plugin; print({'torch', 'transformers', 'numpy'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"
