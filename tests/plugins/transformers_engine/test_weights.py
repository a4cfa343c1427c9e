"""New weights: exact, whole or not at all, and also in the middle of a generation."""

from __future__ import annotations

import asyncio
import copy

import pytest
import torch

from agent_r1_core.contracts.engine import context_digest
from agent_r1_core.errors import EngineError
from agent_r1_core.testing import make_request


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


async def test_a_cancelled_load_changes_nothing_and_neither_do_weights_that_do_not_fit(model, serving, gate, prompts):
    _, weights = changed(model("qwen2")[0])
    request = make_request(prompts[1], 8, seed=0)
    async with serving() as engine:
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
        weights["model.norm.weight"] = weights["model.norm.weight"][:-1]
        with pytest.raises(EngineError, match=r"model.norm.weight has shape \[31\]"):
            await engine.load_weights(weights, 1)
        assert await engine.generate(request) == before


@pytest.mark.parametrize("kind", ["qwen2", "gpt_neox"])
async def test_weights_may_change_while_requests_are_in_flight(kind, model, serving, gate, prompts, logprobs_of):
    """The first five log-probs are those of the old weights, the others those of the new ones."""
    module, _ = model(kind)
    other, weights = changed(module)
    async with serving(kind) as engine:
        held = gate(engine, step=5)
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
