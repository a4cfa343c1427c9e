"""Turns, stops and bounds; after new weights all is sampled from them, and training agrees with its engine."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import psutil
import pytest
import torch
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


async def test_positions_bound_a_request(folder, serving, prompts):
    refused = {
        "130 ids leaves no room in the 64 positions": make_request(prompts[3], 1, 0),
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
                await engine.load_weights(dict(model(seed, tie).named_parameters()), version)
            answers = await engine.generate_batch(requests)
            agree(model(seed, tie), prompts, answers, 0.7)
            assert {answer.version for answer in answers} == {version}


@pytest.mark.parametrize("tie", [True, False])
async def test_requests_in_flight_go_on_with_the_new_weights(tie, model, folder, serving, prompts, logprobs_of):
    old, new = model(0, tie), model(5, tie)  # before, since sampling draws from the same generator
    async with serving(folder(tie)) as engine:
        requests = [make_request(ids, 250, seed) for seed, ids in enumerate(prompts)]
        running = [asyncio.ensure_future(engine.generate(request)) for request in requests]
        await until_sampling(engine)
        await engine.load_weights(dict(new.named_parameters()), 4)
        answers = await asyncio.gather(*running)
    for request, answer in zip(requests, answers, strict=True):
        before, after = (logprobs_of(module, request.ids, answer.ids) for module in (old, new))
        claims = enumerate(zip(answer.logprobs, before, strict=True))
        switch = next(place for place, (claimed, value) in claims if abs(claimed - value) > 1e-4)
        assert 0 < switch < 250, "the weights came before the first id, or after the last"
        assert answer.logprobs[switch:] == pytest.approx(after[switch:], abs=1e-4)
        assert (answer.version, answer.versions) == (4, ((0, switch), (4, 250 - switch)))


async def test_weights_that_do_not_fit_are_refused_and_the_old_ones_stay(model, folder, serving, prompts, agree):
    good = dict(model(5).named_parameters())
    embedding = good["model.embed_tokens.weight"]
    async with serving(folder()) as engine:
        with pytest.raises(EngineError, match="has shape \\[3\\]"):
            await engine.load_weights({**good, "model.norm.weight": torch.zeros(3)}, 1)
        kept = await engine.generate(make_request(prompts[1], 10, 0))
        await engine.load_weights({**good, "lm_head.weight": embedding}, 2)
        changed = await engine.generate(make_request(prompts[1], 10, 0))
    assert kept.version == 0
    agree(model(0), [prompts[1]], [kept])
    agree(model(5), [prompts[1]], [changed])


OVERRIDES = ["engine.name=vllm", "engine.kv_cache_memory=0.25", "threads=1", "checkpoint.best=null"]
OVERRIDES += ["training.steps=2", "training.tasks_per_step=4", "training.samples_per_task=4"]
OVERRIDES += ["evaluation={every: 0, at_start: false, at_end: false}"]


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
            late = time.monotonic() + 60
            while (left := still_running(run.pid)) and time.monotonic() < late:
                time.sleep(0.1)  # some have closed their output, and are about to end
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
