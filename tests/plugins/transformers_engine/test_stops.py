"""Where a generation ends."""

from __future__ import annotations

import pytest
from agent_r1_transformers.batch import StopStrings

from agent_r1_core.testing import make_request


def test_a_stop_id_ends_the_generation_and_belongs_to_it(served, prompts):
    async def run(engine):
        free = await engine.generate(make_request(prompts[0], 20, seed=1))
        stop = free.ids[7]
        return free, stop, await engine.generate(make_request(prompts[0], 20, seed=1, stop_ids=(stop,)))

    free, stop, cut = served(run)
    end = free.ids.index(stop) + 1
    assert (cut.ids, cut.finish) == (free.ids[:end], "stop")
    assert cut.logprobs == pytest.approx(free.logprobs[:end])


def test_a_stop_string_ends_with_the_token_that_completes_it(served, prompts, tokenizer):
    async def run(engine):
        free = await engine.generate(make_request(prompts[0], 20, seed=1))
        text = tokenizer.decode(list(free.ids[5:8]))
        return free, text, await engine.generate(make_request(prompts[0], 20, seed=1, stop_strings=("zzzz", text)))

    free, text, cut = served(run, tokenizer=tokenizer)
    ends = [end for end in range(1, 21) if text in tokenizer.decode(list(free.ids[:end]))]
    assert (cut.ids, cut.finish) == (free.ids[: ends[0]], "stop")


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
