"""The scripted policy acts like an engine."""

from __future__ import annotations

import asyncio
from typing import Any

from agent_r1_core.testing import ScriptedPolicy, make_request, tiny_tokenizer

TOKENIZER = tiny_tokenizer()


def ask(engine: ScriptedPolicy, prompt: str = "Hi", episode: str = "a", budget: int = 100, **more: Any) -> Any:
    ids = tuple(TOKENIZER.encode(prompt, add_special_tokens=False))
    request = make_request(ids, budget, episode=episode, **more)
    return asyncio.run(engine.generate(request))


def text(generation: Any) -> str:
    return TOKENIZER.decode(generation.ids)


def test_it_says_its_lines_episode_by_episode() -> None:
    engine = ScriptedPolicy(["one", "two"])
    assert [text(ask(engine, episode=episode)) for episode in "aabab"] == [
        "one<|im_end|>",
        "two<|im_end|>",
        "one<|im_end|>",
        "two<|im_end|>",
        "two<|im_end|>",
    ]
    asyncio.run(engine.release("a"))
    assert text(ask(engine)) == "one<|im_end|>"
    assert engine.released == ["a"]


def test_a_budget_cuts() -> None:
    cut = ask(ScriptedPolicy(["hello"]), budget=3)
    assert (text(cut), cut.finish) == ("hel", "length")
    whole = ask(ScriptedPolicy(["hello"]), budget=6)
    assert (text(whole), whole.finish) == ("hello<|im_end|>", "stop")


def test_stop_ids_and_strings_end_an_answer() -> None:
    stopped = ask(ScriptedPolicy(["go </search> on"]), stop_strings=("</search>",))
    assert (text(stopped), stopped.finish) == ("go </search>", "stop")
    tag = TOKENIZER.convert_tokens_to_ids("</answer>")
    assert text(ask(ScriptedPolicy(["<answer>2</answer> so"]), stop_ids=(tag,))) == "<answer>2</answer>"
