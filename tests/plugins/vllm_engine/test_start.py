"""Starting, in this process or in others: what cannot be served is said in one sentence, and a death is noticed."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import shutil
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from agent_r1_vllm.backend import VllmBackend
from agent_r1_vllm.engine import VllmEngine
from agent_r1_vllm.weights import handed_over
from pydantic import ValidationError
from safetensors.torch import load_file

from agent_r1_core.contracts.engine import EngineModel
from agent_r1_core.errors import EngineError
from agent_r1_core.testing import make_request, tiny_model_folder


def start(model: EngineModel, **options: Any) -> None:
    asyncio.run(VllmEngine(VllmEngine.Config(**options)).start(model))


def test_new_weights_have_their_version_before_a_sleeping_engine_goes_on(monkeypatch):
    """Waking the cache resumes vLLM's scheduler."""
    done = list[str]()

    class Llm:
        def __getattr__(self, name: str) -> Any:
            return self if name == "engine_core" else lambda *given, **named: done.append(f"{name} {given}")

    backend = VllmBackend(VllmEngine.Config(sleep_mode=True))
    backend._llm, backend._known = Llm(), SimpleNamespace(checked=dict)  # type: ignore[assignment]
    backend.sleep()
    backend.load_weights({}, 7)
    assert [one.split()[0] for one in done] == [
        "sleep", "pause_scheduler", "wake_up", "collective_rpc", "set_weight_version", "wake_up", "resume_scheduler"
    ]  # fmt: skip


def test_weights_travel_in_the_engines_precision_and_where_there_is_room(monkeypatch):
    weights = {"matrix": torch.full((3, 5), 1 / 3), "vector": torch.full((7,), 1 / 3)}
    for free, in_memory in ((2**20, True), (50, False)):
        monkeypatch.setattr(shutil, "disk_usage", lambda path, free=free: SimpleNamespace(free=free))
        with handed_over(weights, "bfloat16") as path:
            found = load_file(path)
        assert path.startswith("/dev/shm/") == in_memory
        assert torch.equal(found["matrix"], weights["matrix"].to(torch.bfloat16))
        assert torch.equal(found["vector"], weights["vector"])
        assert not Path(path).exists()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_float32_on_a_gpu_is_multiplied_as_float32(folder, dtype, monkeypatch):
    monkeypatch.setenv("TRITON_F32_DEFAULT", "tf32")  # so that it is put back
    monkeypatch.delenv("TRITON_F32_DEFAULT")
    monkeypatch.setattr("agent_r1_vllm.backend.check_machine", lambda model, config: None)
    monkeypatch.setattr("agent_r1_vllm.backend.starting", lambda **options: pytest.fail("enough"))
    with pytest.raises(pytest.fail.Exception):
        VllmBackend(VllmEngine.Config()).open(EngineModel(folder(), dtype, "cuda"))
    assert os.environ.get("TRITON_F32_DEFAULT") == ("ieee" if dtype == "float32" else None)


@pytest.mark.parametrize(
    ("options", "changed", "words"),
    [
        ({"sleep_mode": True}, {}, "engine.sleep_mode needs CUDA"),
        ({"gpu_memory_utilization": 0.3}, {}, "set engine.kv_cache_memory instead"),
        ({"processes": "separate"}, {"deterministic": True}, "set engine.processes=in_process"),
        ({}, {"dtype": "float16"}, "choose one of float32, bfloat16"),
        *((options, {}, "vLLM cannot serve the model") for options in ({"block_size": 33}, {"kv_cache_memory": 1e-4})),
    ],
)
def test_options_that_cannot_be_are_refused(folder, options, changed, words):
    with pytest.raises(EngineError, match=words):
        start(EngineModel(**{"folder": folder(), "dtype": "float32", **changed}), **options)


def test_what_cannot_be_served_is_refused_at_the_start_and_without_vllm_the_error_says_what_to_install(
    tmp_path, folder, monkeypatch
):
    with pytest.raises(EngineError, match="no safetensors file"):
        start(EngineModel(str(tmp_path), "float32"))
    with pytest.raises(EngineError, match="head_dim=8"):
        start(EngineModel(str(tiny_model_folder(tmp_path)), "float32"), kv_cache_memory=0.125)
    with pytest.raises(ValidationError, match="set processes=separate"):
        VllmEngine.Config(tensor_parallel_size=2)
    assert VllmEngine.idle_options(VllmEngine.Config()) == {}
    assert "gpu_memory_utilization" in VllmEngine.idle_options(VllmEngine.Config(kv_cache_memory=1))
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(EngineError, match=r"needs vLLM.*pip install 'agent-r1\[vllm\]'"):
        start(EngineModel(folder(), "float32"))
    assert "pip install 'agent-r1[vllm]'" in str(VllmEngine.unavailable(VllmEngine.Config()))


async def test_the_process_around_it_stays_as_it_was(folder, serving):
    set_num_threads, threads = torch.set_num_threads, torch.get_num_threads()
    random.seed(1)
    np.random.seed(2)
    torch.manual_seed(3)
    wanted = surroundings()
    try:
        async with serving(folder()) as engine:
            assert surroundings() == wanted
            await engine.generate(make_request((1, 2), 3, 0))
            torch.set_num_threads(threads + 1)
            assert torch.get_num_threads() == threads + 1, "vLLM took the choice of threads away"
    finally:
        set_num_threads(threads)
    assert torch.set_num_threads is set_num_threads


def surroundings() -> list[Any]:
    drawn = [random.getstate(), str(np.random.get_state()), torch.random.get_rng_state().tolist()]
    of_torch = [torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled()]
    return [dict(os.environ), *drawn, *of_torch, sys.modules["__main__"].__dict__.get("__file__")]


@pytest.mark.slow
async def test_separate_processes_serve_the_same_until_they_die(model, folder, serving, prompts, logprobs_of, agree):
    old, new = model(0), model(5)
    requests = [make_request(ids, 10, seed, 0.7) for seed, ids in enumerate(prompts)]
    async with serving(folder(), processes="separate") as engine:
        agree(old, prompts, await engine.generate_batch(requests), 0.7)

        endless = asyncio.ensure_future(engine.generate(make_request(prompts[0], 4000, 1)))
        running = asyncio.ensure_future(engine.generate(make_request(prompts[1], 300, 2)))
        await engine.generate(make_request(prompts[3], 20, 3))
        await engine.load_weights(dict(new.named_parameters()), 1)
        endless.cancel()
        answer = await running
        assert engine.statistics["aborted"] == 1
        assert answer.version == 1
        assert answer.logprobs[-100:] == pytest.approx(logprobs_of(new, prompts[1], answer.ids)[-100:], abs=1e-4)
        agree(new, [prompts[1]], [await engine.generate(make_request(prompts[1], 20, 2))])

        [core] = multiprocessing.active_children()
        os.kill(core.pid, signal.SIGINT)
        await engine.generate(make_request(prompts[1], 20, 2))
        endless = asyncio.ensure_future(engine.generate(make_request(prompts[0], 4000, 1)))
        await engine.generate(make_request(prompts[1], 3, 1))
        core.kill()
        for ended in (endless, engine.load_weights({}, 2)):
            with pytest.raises(EngineError, match="the vllm engine stopped"):
                await ended
    assert multiprocessing.active_children() == []
