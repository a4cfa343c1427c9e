"""vLLM in processes of its own: everything as in this process, and their death is noticed."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal

import pytest

from agent_r1_core.errors import EngineError
from agent_r1_core.testing import make_request


@pytest.mark.slow
def test_separate_processes_serve_the_same_until_they_die(model, folder, serving, prompts, logprobs_of):
    old, new = model(0), model(5)

    async def run():
        async with serving(folder(), processes="separate") as engine:
            requests = [make_request(ids, 10, seed, 0.7) for seed, ids in enumerate(prompts)]
            for request, answer in zip(requests, await engine.generate_batch(requests), strict=True):
                expected = logprobs_of(old, request.ids, answer.ids, 0.7)
                assert answer.logprobs == pytest.approx(expected, abs=1e-4)

            endless = asyncio.ensure_future(engine.generate(make_request(prompts[0], 4000, 1)))
            running = asyncio.ensure_future(engine.generate(make_request(prompts[1], 300, 2)))
            await engine.generate(make_request(prompts[3], 20, 3))
            await engine.load_weights(dict(new.named_parameters()), 1)
            endless.cancel()
            answer = await running
            assert engine.statistics["aborted"] == 1
            assert answer.version == 1
            assert answer.logprobs[-100:] == pytest.approx(logprobs_of(new, prompts[1], answer.ids)[-100:], abs=1e-4)
            fresh = await engine.generate(make_request(prompts[1], 20, 2))
            assert fresh.logprobs == pytest.approx(logprobs_of(new, prompts[1], fresh.ids), abs=1e-4)

            [core] = multiprocessing.active_children()
            os.kill(core.pid, signal.SIGINT)
            await engine.generate(make_request(prompts[1], 20, 2))
            endless = asyncio.ensure_future(engine.generate(make_request(prompts[0], 4000, 1)))
            await engine.generate(make_request(prompts[1], 3, 1))
            core.kill()
            with pytest.raises(EngineError, match="the vllm engine stopped"):
                await endless
            with pytest.raises(EngineError, match="the vllm engine stopped"):
                await engine.load_weights({}, 2)

    asyncio.run(run())
    assert multiprocessing.active_children() == []
