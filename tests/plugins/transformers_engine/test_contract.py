"""The engine keeps the contract that every engine keeps, and ends a generation, and itself, where it should."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from agent_r1_transformers.batch import StopStrings
from agent_r1_transformers.engine import TransformersEngine

from agent_r1_core.testing import EngineContract, make_request


class TestTransformersEngine(EngineContract):
    component = TransformersEngine
    variants = ({}, {"max_episodes": 2, "cache_tokens": 20})


async def test_a_stop_string_ends_with_the_token_that_completes_it(serving, prompts, tokenizer):
    async with serving(tokenizer=tokenizer) as engine:
        free = await engine.generate(make_request(prompts[0], 20, seed=1))
        text = tokenizer.decode(list(free.ids[5:8]))
        cut = await engine.generate(make_request(prompts[0], 20, seed=1, stop_strings=("zzzz", text)))
    end = next(end for end in range(1, 21) if text in tokenizer.decode(list(free.ids[:end])))
    assert (cut.ids, cut.finish, cut.logprobs) == (free.ids[:end], "stop", free.logprobs[:end])


def test_a_string_may_be_completed_in_the_middle_of_a_token(tokenizer):
    stops = StopStrings(tokenizer)
    assert stops.completed([1, 0], ["b<st"])
    assert not stops.completed([2, 0], ["b<st"])


def test_a_candidate_is_found_even_when_its_own_text_is_empty_or_partial():
    """Byte-level tokens decode to U+FFFD alone, and some decoders strip the space of a single token."""

    class Bytes:
        def decode(self, ids: list[int]) -> str:
            return bytes(ids).decode("utf-8", "replace").strip(" ")

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
