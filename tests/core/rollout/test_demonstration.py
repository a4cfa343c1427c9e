"""A demonstration is played as if the policy had sampled it: the same ids, masks and observations, and no engine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import pytest
from agent_r1_tool_formats.search_tags import SearchTags
from stage import BOTH_MODES, Stage

from agent_r1_core import Task, ToolCall, ToolContext, demonstrated_actions, tool
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.rollout.demonstration import line_of, task_of
from agent_r1_core.testing import ScriptedPolicy, tiny_tokenizer
from agent_r1_core.testing.model import CHAT_TEMPLATE
from agent_r1_core.trajectory import EndStatus, Trajectory

CALL = {"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": '{"name": "Karimo"}'}}
ASKS = {"role": "assistant", "content": "I look.", "tool_calls": [CALL]}
TOLD = {"role": "tool", "tool_call_id": "c1", "content": "It was Vesano then."}
ANSWERS = {"role": "assistant", "content": "<answer>Tavelo</answer>"}
SHOWN = (ASKS, TOLD, ANSWERS)
NO_ENGINE = ScriptedPolicy(["nobody may ask me"])
SEEN: list[Task] = []


@tool
def lookup(name: str, context: ToolContext) -> str:
    """Look a name up.

    Args:
        name: of the town.
    """
    SEEN.append(context.task)
    return f"{name} lies in Tavelo."


def play(demonstration: Sequence[Mapping[str, Any]], source: Any = "tools", **settings: Any) -> Trajectory:
    """The episode of a task that is demonstrated."""
    task = Task("t", "Where was Karimo born?", ("Tavelo",), demonstration=demonstration)
    result = Stage(NO_ENGINE, [lookup()], **settings).play([task], demonstrations=source)
    (trajectory,) = [*result.trajectories, *result.dropped]
    return trajectory


def test_the_files_observations_take_the_place_of_the_tools():
    SEEN.clear()
    told = play(SHOWN, "file")
    assert told.turns[1].observation[0]["content"] == "It was Vesano then."
    assert (told.demonstrated, SEEN) == ("file", [])
    asked = play(SHOWN)
    assert asked.turns[1].observation[0]["content"] == "Karimo lies in Tavelo."
    assert [task.demonstration for task in SEEN] == [()], "a tool must not see how its task is solved"


LONG = {"role": "assistant", "content": "word " * 300}
LOOSE = {"role": "assistant", "content": "I do not know what to do."}
AGAIN = {"role": "assistant", "content": "<think> and so on", "tool_calls": [CALL]}


@pytest.mark.parametrize(
    ("demonstration", "options", "sentence"),
    [
        (SHOWN[:2], {}, r"the demonstration of task t ends after 1 actions, and the episode goes on; let its last"),
        ((LOOSE,), {"env": {"max_turns": 1}}, r"does not fit: env\.max_turns cut the episode after 1 of 1 demo"),
        ((*SHOWN, ANSWERS), {}, r"goes on after its episode, which ended after 2 of 3 demonstrated"),
        ((LONG, ANSWERS), {}, r"action 1 of the demonstration of task t has \d+ tokens, and there is room for 200"),
        (SHOWN, {"env": {"max_tokens": 75}}, r"there is room for \d+; raise engine\.max_new_tokens or env\.max_tokens"),
        (SHOWN, {"env": {"max_tokens": 130}}, r"env\.max_tokens cut the episode after 1 of 2"),
        ((AGAIN, ANSWERS), {}, r"action 1 .* makes other calls in the run's tool format than it shows; use another"),
        (({**ASKS, "content": "\ufdd0"}, ANSWERS), {}, r"action 1 .* is another text once it is encoded; write it in"),
        (
            ({**ASKS, "tool_calls": [CALL] * 2}, ANSWERS),
            {"tool_format": SearchTags()},
            r"goes on after '.*</search>', where",
        ),
        ((ASKS, ANSWERS), {"source": "file"}, r"action 1 .* makes 1 calls, and 0 tool messages follow; give each"),
        (
            (ASKS, TOLD, {"role": "user", "content": "In tags please."}, ANSWERS),
            {"source": "file"},
            r"followed by a message of the user that the environment does not say \('In tags please.'\); leave it out",
        ),
        ((TOLD, ANSWERS), {}, r"cannot be read: message 1 comes from the tool, and a demonstration begins with an"),
    ],
)
@BOTH_MODES
def test_what_cannot_be_played_fails_once_with_a_sentence(demonstration, options, sentence, deterministic):
    failed = play(demonstration, **options, deterministic=deterministic)
    assert (failed.status, failed.attempts) == (EndStatus.FAILED, 1)
    assert re.search(sentence, failed.reason), failed.reason
    assert NO_ENGINE.requests == []


def test_behind_a_prompt_that_opens_a_thought_an_action_closes_one_or_is_refused():
    template = CHAT_TEMPLATE.replace("|>assistant\\n'", "|>assistant\\n<think>\\n'")
    tokenizer = ChatTokenizer(tiny_tokenizer(template))
    refused = play(SHOWN, tokenizer=tokenizer)
    assert "begins without a thought, and the model's template opens one; let its text begin with" in refused.reason
    thoughts = [{**message, "reasoning": "Hm."} if message is not TOLD else TOLD for message in SHOWN]
    played = play(thoughts, tokenizer=tokenizer)
    assert [turn.text.partition("</think>")[0] for turn in played.turns] == ["Hm.\n"] * 2, played.reason
    again = play([{"role": "assistant", "content": turn.text} for turn in played.turns], tokenizer=tokenizer)
    assert again.segments[0].ids == played.segments[0].ids, "as an episode that a policy sampled is kept in a file"


def test_texts_and_arguments_are_read_in_every_form_and_a_line_of_a_file_is_the_task_again():
    parts = [{"type": "text", "text": "I "}, {"type": "text", "text": "look."}]
    call = {"function": {"name": "lookup", "arguments": {"name": "Karimo"}}}
    said = {"role": "user", "content": "Error: mind the time."}
    first, second = demonstrated_actions([{**ASKS, "content": parts, "tool_calls": [CALL, call]}, TOLD, said, ANSWERS])
    assert (first.text, first.calls) == ("I look.", [ToolCall("lookup", {"name": "Karimo"})] * 2)
    assert first.answers == ["It was Vesano then."]
    assert (second.text, second.calls, second.answers) == ("<answer>Tavelo</answer>", [], [])
    assert demonstrated_actions([{**ASKS, "content": None}])[0].text == ""
    thoughts = [{**message, "reasoning_content": "Hm. "} for message in ({**ASKS, "content": None}, ANSWERS)]
    texts = [action.text for action in demonstrated_actions(thoughts)]
    assert texts == ["<think>\nHm.\n</think>\n\n", "<think>\nHm.\n</think>\n\n<answer>Tavelo</answer>"]

    about = {"id": "t", "answers": ["Tavelo"], "seed": 7, "metadata": {"day": date(2026, 1, 2), "odd": "\ud800"}}
    asked = {"role": "user", "content": "Where was Karimo born?"}
    found = task_of(line_of({**about, "messages": [asked, *SHOWN]}))
    assert (found.id, found.prompt, found.answers, found.seed) == ("t", asked["content"], ("Tavelo",), 7)
    assert found.metadata == {"day": "2026-01-02", "odd": "\ud800"}
    assert list(found.demonstration) == list(SHOWN)


def calling(arguments: str) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": arguments}}]}


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ({"content": "hi"}, "message 2 is not of the chat format: it lacks 'role'"),
        ({"role": "assistant", "content": 3}, "message 2 has a content that is no text; write"),
        ({"role": "assistant", "tool_calls": [{"name": "x"}]}, "it lacks 'function'"),
        ({**ANSWERS, "reasoning": ["Hm"]}, "message 2 has a reasoning_content that is no text"),
        (
            {**ANSWERS, "content": "<think></think>", "reasoning": "Hm"},
            "has a thought in its content and one in",
        ),
        ({**ANSWERS, "reasoning": "a </think> b"}, "has a </think> in its reasoning_content"),
        (
            {"role": "assistant", "content": None, "function_call": {"name": "f"}},
            "older format does; write it as tool_",
        ),
        ({**ANSWERS, "weight": 0}, "message 2 has the weight 0, and every action is learnt from alike"),
        ({"role": "assistant", "content": " "}, "message 2 says nothing and calls nothing"),
        (calling("{"), "message 2 calls f with arguments that are not JSON; write a JSON object"),
        (calling("[1]"), "message 2 calls f with arguments that are no JSON object; write one"),
    ],
)
def test_a_message_that_is_none_is_named(message, sentence):
    with pytest.raises(ValueError, match=sentence):
        demonstrated_actions([ASKS, message])
