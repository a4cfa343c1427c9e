"""The scripted policy acts like an engine."""

from __future__ import annotations

import asyncio
from typing import Any

from agent_r1_core.contracts.engine import context_digest
from agent_r1_core.plugins.checks import check_component
from agent_r1_core.testing import Cue, ScriptedPolicy, make_request, tiny_tokenizer

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


def test_a_script_may_look_at_what_was_said() -> None:
    def script(cue: Cue) -> str:
        return f"{cue.turn}: {cue.prompt.upper()}"

    assert text(ask(ScriptedPolicy(script, TOKENIZER), "who?")) == "0: WHO?<|im_end|>"


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


def test_it_reports_context_log_probs_and_version() -> None:
    engine = ScriptedPolicy(["ok"])
    asyncio.run(engine.load_weights({}, 4))
    said = ask(engine)
    assert said.context == context_digest(engine.requests[0].ids)
    assert len(said.logprobs) == len(said.ids)
    assert said.version == 4


def test_it_keeps_the_methods_of_an_engine() -> None:
    sound = type(
        "Sound", (ScriptedPolicy,), {"__init__": lambda self, config=None: ScriptedPolicy.__init__(self, [""])}
    )
    assert check_component("engine", sound) == []
