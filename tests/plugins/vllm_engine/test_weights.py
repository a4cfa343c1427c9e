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
async def test_log_probs_are_those_of_the_new_weights(tie, model, folder, serving, prompts, agree):
    """Twice, and with contexts whose old keys and values the prefix cache still held."""
    requests = [make_request(ids, 10, number, 0.7) for number, ids in enumerate(prompts)]
    async with serving(folder(tie)) as engine:
        for version, seed in enumerate((0, 5, 6)):
            if version:
                await engine.load_weights(weights_of(model(seed, tie)), version)
            answers = await engine.generate_batch(requests)
            agree(model(seed, tie), prompts, answers, 0.7)
            assert {answer.version for answer in answers} == {version}


@pytest.mark.parametrize("tie", [True, False])
async def test_requests_in_flight_go_on_with_the_new_weights(tie, model, folder, serving, prompts, logprobs_of):
    async with serving(folder(tie)) as engine:
        requests = [make_request(ids, 250, seed) for seed, ids in enumerate(prompts)]
        running = [asyncio.ensure_future(engine.generate(request)) for request in requests]
        await until_sampling(engine)
        await engine.load_weights(weights_of(model(5, tie)), 4)
        answers = await asyncio.gather(*running)
    for request, answer in zip(requests, answers, strict=True):
        before, after = (logprobs_of(model(seed, tie), request.ids, answer.ids) for seed in (0, 5))
        claims = enumerate(zip(answer.logprobs, before, strict=True))
        switch = next(place for place, (claimed, value) in claims if abs(claimed - value) > 1e-4)
        assert 0 < switch < 250, "the weights came before the first id, or after the last"
        assert answer.logprobs[switch:] == pytest.approx(after[switch:], abs=1e-4)
        assert (answer.version, answer.versions) == (4, ((0, switch), (4, 250 - switch)))


async def test_weights_that_do_not_fit_are_refused_and_the_old_ones_stay(model, folder, serving, prompts, agree):
    good = weights_of(model(5))
    name = "model.norm.weight"
    embedding = good["model.embed_tokens.weight"]
    wrong = {
        "unknown names, first model.nrom.weight": {**good, "model.nrom.weight": good[name]},
        "has shape \\[3\\]": {**good, name: torch.zeros(3)},
        "lack 1 of the model's parameters, first model.norm.weight": {k: v for k, v in good.items() if k != name},
        "different values for model.embed_tokens.weight": {**good, "lm_head.weight": embedding + 1},
    }
    async with serving(folder()) as engine:
        for words, weights in wrong.items():
            with pytest.raises(EngineError, match=words):
                await engine.load_weights(weights, 1)
        kept = await engine.generate(make_request(prompts[1], 10, 0))
        await engine.load_weights({**good, "lm_head.weight": embedding}, 2)
        changed = await engine.generate(make_request(prompts[1], 10, 0))
    assert kept.version == 0
    agree(model(0), [prompts[1]], [kept])
    agree(model(5), [prompts[1]], [changed])


OVERRIDES = (
    "engine.name=vllm",
    "engine.kv_cache_memory=0.25",
    "training.steps=2",
    "training.tasks_per_step=4",
    "training.samples_per_task=4",
    "evaluation={every: 0, at_start: false, at_end: false}",
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
