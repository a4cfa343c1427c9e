"""An engine from one function: a local file keeps the contract, and a function that breaks it is told how."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_r1_core import EngineError, EngineModel, FunctionEngine
from agent_r1_core.plugins import Registry
from agent_r1_core.testing import EngineContract, make_request, tiny_tokenizer

PLAIN: Any = Registry.discover([Path(__file__).parent / "plain_engine.py"]).load("engine", "plain").cls


class TestPlain(EngineContract):
    component = PLAIN


class Shares(PLAIN):
    """Serves the caller's own tensors."""

    async def load_weights(self, weights: Any, version: int) -> None:
        await super().load_weights(weights, version)
        for name, parameter in self._worker.backend._module.named_parameters():
            parameter.data = weights[name]


class IgnoresTopK(PLAIN):
    """Samples from all ids whatever the request asks for."""

    def generate_rows(self, module: Any, requests: Any) -> Any:
        free = [replace(one, sampling=one.sampling.model_copy(update={"top_k": 0})) for one in requests]
        return super().generate_rows(module, free)


class SeedsByPlace(PLAIN):
    """Draws random numbers by a request's place among the others."""

    def generate_rows(self, module: Any, requests: Any) -> Any:
        return super().generate_rows(module, [replace(one, seed=place) for place, one in enumerate(requests)])


@pytest.mark.parametrize(
    ("faulty", "test", "sentence"),
    [
        (Shares, "test_new_weights_are_copied_and_served_with_their_version", "load_weights must copy"),
        (IgnoresTopK, "test_greedy_takes_the_likeliest", "top_k=1 leaves"),
        (SeedsByPlace, "test_a_sample_depends_on_its_seed_alone", "LAW 11"),
    ],
)
def test_the_contract_catches_an_engine_that(faulty: type, test: str, sentence: str, tmp_path: Path) -> None:
    contract = type("Faulty", (EngineContract,), {"component": faulty})()
    with pytest.raises(AssertionError, match=sentence):
        getattr(contract, test)(tmp_path)


def ask(folder: Path, rows: Any, **request: Any) -> Any:
    """What an engine whose function returns `rows` answers to one request."""
    members = {"name": "given", "generate_rows": lambda self, module, requests: rows}
    engine = type("Given", (FunctionEngine,), members)()

    async def generate() -> Any:
        await engine.start(EngineModel(str(folder), "float32", tokenizer=tiny_tokenizer()))
        try:
            return await engine.generate(make_request((1, 2), 4, **request))
        finally:
            await engine.close()

    return asyncio.run(generate())


def test_what_follows_a_stop_or_the_budget_is_cut(noise: Path) -> None:
    row = (range(10, 16), [-1.0] * 6)
    assert ask(noise, [row]).ids == (10, 11, 12, 13)
    stopped = ask(noise, [row], stop_ids=(11,))
    assert (stopped.ids, stopped.logprobs, stopped.finish) == ((10, 11), (-1.0, -1.0), "stop")
    text = tiny_tokenizer().decode([11, 12])
    assert ask(noise, [row], stop_strings=(text,)).ids == (10, 11, 12)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([], "gave 0 rows for 1 requests; give one for each"),
        ([([1, 2, 3, 4], [-1.0])], "gave 1 log-probs for 4 ids"),
        ([([1, 2], [-1.0, -1.0])], "ended a row after 2 of 4 ids without a stop"),
        ([([1] * 4, [float("nan")] * 4)], "not finite under weights version 0"),
        ([None], "the given engine stopped: TypeError"),
    ],
)
def test_a_function_that_breaks_the_contract_is_told_how(noise: Path, rows: Any, sentence: str) -> None:
    with pytest.raises(EngineError, match=sentence):
        ask(noise, rows)
