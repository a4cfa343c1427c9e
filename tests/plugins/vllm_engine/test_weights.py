"""After new weights everything is sampled from them, and training agrees with its engine."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import torch

from agent_r1_core.errors import EngineError
from agent_r1_core.testing import make_request


def weights_of(module):
    return dict(module.named_parameters())


async def until_sampling(engine):
    """Wait until the requests in flight have sampled for a while; the worker's own thread goes on meanwhile."""
    backend = engine._worker.backend
    states = backend._llm.output_processor.request_states
    while not states or min(len(state.detokenizer.output_token_ids) for state in list(states.values())) < 5:
        await asyncio.sleep(0)


@pytest.mark.parametrize("tie", [True, False])
def test_log_probs_are_those_of_the_new_weights(tie, model, folder, serving, prompts, logprobs_of):
    """Twice, and with contexts whose old keys and values the prefix cache still held."""

    async def run():
        async with serving(folder(tie)) as engine:
            for version, seed in enumerate((0, 5, 6)):
                module = model(seed, tie)
                if version:
                    await engine.load_weights(weights_of(module), version)
                requests = [make_request(ids, 10, number, 0.7) for number, ids in enumerate(prompts)]
                for request, answer in zip(requests, await engine.generate_batch(requests), strict=True):
                    expected = logprobs_of(module, request.ids, answer.ids, 0.7)
                    assert answer.logprobs == pytest.approx(expected, abs=1e-4)
                    assert answer.version == version

    asyncio.run(run())


@pytest.mark.parametrize("tie", [True, False])
def test_requests_in_flight_go_on_with_the_new_weights(tie, model, folder, serving, prompts, logprobs_of):
    old, new = model(0, tie), model(5, tie)

    async def run():
        async with serving(folder(tie)) as engine:
            requests = [make_request(ids, 250, seed) for seed, ids in enumerate(prompts)]
            running = [asyncio.ensure_future(engine.generate(request)) for request in requests]
            await until_sampling(engine)
            await engine.load_weights(weights_of(new), 4)
            return requests, await asyncio.gather(*running)

    for request, answer in zip(*asyncio.run(run()), strict=True):
        before = logprobs_of(old, request.ids, answer.ids)
        after = logprobs_of(new, request.ids, answer.ids)
        switch = next(
            place
            for place, (claimed, value) in enumerate(zip(answer.logprobs, before, strict=True))
            if abs(claimed - value) > 1e-4
        )
        assert 0 < switch < 250, "the weights came before the first id, or after the last"
        assert answer.logprobs[switch:] == pytest.approx(after[switch:], abs=1e-4)
        assert (answer.version, answer.versions) == (4, ((0, switch), (4, 250 - switch)))


def test_weights_that_do_not_fit_are_refused_and_the_old_ones_stay(model, folder, serving, prompts, logprobs_of):
    good = weights_of(model(5))
    name = "model.norm.weight"
    embedding = good["model.embed_tokens.weight"]
    wrong = {
        "unknown names, first model.nrom.weight": {**good, "model.nrom.weight": good[name]},
        "has shape \\[3\\]": {**good, name: torch.zeros(3)},
        "lack 1 of the model's parameters, first model.norm.weight": {k: v for k, v in good.items() if k != name},
        "different values for model.embed_tokens.weight": {**good, "lm_head.weight": embedding + 1},
    }

    async def run():
        async with serving(folder()) as engine:
            for words, weights in wrong.items():
                with pytest.raises(EngineError, match=words):
                    await engine.load_weights(weights, 1)
            kept = await engine.generate(make_request(prompts[1], 10, 0))
            await engine.load_weights({**good, "lm_head.weight": embedding}, 2)
            return kept, await engine.generate(make_request(prompts[1], 10, 0))

    kept, changed = asyncio.run(run())
    assert kept.version == 0
    assert kept.logprobs == pytest.approx(logprobs_of(model(0), prompts[1], kept.ids), abs=1e-4)
    assert changed.logprobs == pytest.approx(logprobs_of(model(5), prompts[1], changed.ids), abs=1e-4)


OVERRIDES = (
    "engine.name=vllm",
    "engine.kv_cache_memory=0.25",
    "training.steps=2",
    "training.tasks_per_step=4",
    "training.samples_per_task=4",
    "evaluation.every=0",
    "evaluation.at_start=false",
    "evaluation.at_end=false",
    "checkpoint.best=null",
    "threads=1",
)


@pytest.mark.slow
@pytest.mark.parametrize(("processes", "dtype"), [("in_process", "bfloat16"), ("separate", "float32")])
def test_training_agrees_with_its_engine_and_leaves_nothing(processes: str, dtype: str, tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("agent-r1")), "train", "default", *OVERRIDES]
    command += [f"engine.processes={processes}", f"model.dtype={dtype}", f"run.dir={tmp_path}", "run.name=one"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as run:
        try:
            said, narrated = run.communicate(timeout=300)
            left = still_running(run.pid)
        finally:
            if run.poll() is None:
                os.killpg(run.pid, signal.SIGKILL)
    assert run.returncode == 0, narrated
    assert not left, f"the run left processes behind: {left}"
    assert "vllm" not in said.lower(), f"vLLM spoke on stdout:\n{said}"
    steps = [json.loads(line) for line in (tmp_path / "one" / "metrics.jsonl").read_text().splitlines()]
    assert len(steps) == 2
    for metrics in steps:
        if "prob_gap" in metrics:
            assert metrics["prob_gap"] < (0.005 if dtype == "bfloat16" else 1e-5)
            assert metrics["logprob_gap"] < (0.05 if dtype == "bfloat16" else 1e-4)
    assert "prob_gap" in steps[0], "no group had a spread of rewards, so that the gap was not measured"


def still_running(session: int) -> list[str]:
    """Command lines in a session; a process that has ended has none."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, ProcessLookupError):
            if os.getsid(process.pid) == session:
                found.append(" ".join(process.cmdline()))
    return [command for command in found if command]
