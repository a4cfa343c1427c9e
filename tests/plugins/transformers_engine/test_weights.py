"""New weights: exact, whole or not at all, and also in the middle of a generation."""

from __future__ import annotations

import asyncio

import pytest
import torch

from agent_r1_core.contracts.engine import context_digest
from agent_r1_core.errors import EngineError
from agent_r1_core.testing import make_request


def changed(module):
    """A copy of the module with other weights, and those weights under their names, tied ones once."""
    import copy

    other = copy.deepcopy(module)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return other, {name: parameter.detach() for name, parameter in other.named_parameters()}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["qwen2", "qwen2_untied", "llama", "gpt_neox", "mamba"])
def test_log_probs_are_those_of_the_new_weights(kind, packed, model, served, prompts, logprobs_of, monkeypatch):
    """Also where the engine holds a second copy of them, as of models of a real size."""
    if packed:
        monkeypatch.setattr("agent_r1_transformers.linear._LEAST", 0)
    module, _ = model(kind)
    other, weights = changed(module)

    async def run(engine):
        requests = [make_request(ids, 8, seed, episode=str(seed)) for seed, ids in enumerate(prompts)]
        before = await engine.generate_batch(requests)
        await engine.load_weights(weights, 3)
        return before, await engine.generate_batch(requests), engine.statistics["reused"]

    before, after, reused = served(run, kind)
    assert {answer.version for answer in before} == {0}
    assert {(answer.version, answer.versions) for answer in after} == {(3, ())}
    assert reused == 0, "what the old weights computed is void"
    for context, answer in zip(prompts, after, strict=True):
        assert answer.logprobs == pytest.approx(logprobs_of(other, context, answer.ids), abs=1e-4)
    assert before[0].logprobs != pytest.approx(after[0].logprobs, abs=1e-2)


def test_weights_of_another_float_type_are_converted(model, served, prompts, logprobs_of):
    module, _ = model("qwen2")
    other, weights = changed(module)

    async def run(engine):
        await engine.load_weights({name: value.double() for name, value in weights.items()}, 1)
        return await engine.generate(make_request(prompts[1], 8, seed=0))

    answer = served(run)
    assert answer.logprobs == pytest.approx(logprobs_of(other, prompts[1], answer.ids), abs=1e-4)


def test_a_cancelled_load_changes_nothing_and_stops_nobody(model, served, gate, prompts):
    module, _ = model("qwen2")
    _, weights = changed(module)

    async def run(engine):
        request = make_request(prompts[1], 8, seed=0)
        before = await engine.generate(request)
        held = gate(engine, step=2)
        pending = asyncio.ensure_future(engine.generate(request))
        await held.reached()
        loading = asyncio.ensure_future(engine.load_weights(weights, 1))
        await asyncio.sleep(0)
        loading.cancel()
        await held.open()
        assert await pending == before
        assert await engine.generate(request) == before

    served(run)


def test_weights_that_do_not_fit_are_refused_and_nothing_changes(model, served, prompts):
    module, _ = model("qwen2")
    _, weights = changed(module)
    short = {**weights, "model.norm.weight": weights["model.norm.weight"][:-1]}

    async def run(engine):
        request = make_request(prompts[1], 8, seed=0)
        before = await engine.generate(request)
        with pytest.raises(EngineError, match=r"model.norm.weight has shape \[31\]"):
            await engine.load_weights(short, 1)
        assert await engine.generate(request) == before

    served(run)


@pytest.mark.parametrize("kind", ["qwen2", "gpt_neox"])
def test_weights_may_change_while_requests_are_in_flight(kind, model, served, gate, prompts, logprobs_of):
    """The first five log-probs are those of the old weights, the others those of the new ones."""
    module, _ = model(kind)
    other, weights = changed(module)

    async def run(engine):
        held = gate(engine, step=5)
        requests = [make_request(ids, 12, seed, episode=str(seed)) for seed, ids in enumerate(prompts)]
        pending = asyncio.ensure_future(engine.generate_batch(requests))
        await held.reached()
        loading = asyncio.ensure_future(engine.load_weights(weights, 7))
        await held.open()
        await loading
        return await pending

    for context, answer in zip(prompts, served(run, kind), strict=True):
        assert (answer.version, answer.versions) == (7, ((0, 5), (7, 7)))
        assert answer.context == context_digest(context)
        old, new = (logprobs_of(scorer, context, answer.ids) for scorer in (module, other))
        assert answer.logprobs[:5] == pytest.approx(old[:5], abs=1e-4)
        assert answer.logprobs[5:] == pytest.approx(new[5:], abs=1e-4)
