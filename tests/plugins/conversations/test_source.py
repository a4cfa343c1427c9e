"""`conversations`: what stands before the first action is the task, the rest shows how it is solved."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from agent_r1_conversations.source import Conversations

from agent_r1_core import Task, TaskError
from agent_r1_core.testing import TaskSourceContract

ASKED = {"role": "user", "content": "Where does Karimo lie?"}
CALLS = [{"id": "a", "type": "function", "function": {"name": "lookup", "arguments": '{"name": "Karimo"}'}}]
SHOWN = [
    {"role": "assistant", "content": None, "tool_calls": CALLS},
    {"role": "tool", "tool_call_id": "a", "content": "It lies in Tavelo."},
    {"role": "assistant", "content": "<answer>Tavelo</answer>"},
]


@pytest.fixture
def shown(source: Any) -> Any:
    """A source of some lines."""
    return partial(source, Conversations, "shown.jsonl")


class TestConversations(TaskSourceContract):
    component = Conversations
    file = ("shown.jsonl", *[{"messages": [ASKED, *SHOWN]}] * 2)


def test_a_conversation_is_a_task_and_its_demonstration_without_the_files_system_message(shown: Any) -> None:
    bare = {"messages": [ASKED, *SHOWN], "other": 1}
    named = {**bare, "id": 7, "answers": ["Tavelo"], "metadata": {"hops": 1}, "seed": 3}
    first, second = shown(bare, named).load()
    assert first == Task("shown.0", ASKED["content"], demonstration=SHOWN)
    assert second == Task("7", ASKED["content"], ("Tavelo",), 3, {"hops": 1}, SHOWN)
    system = {"role": "system", "content": "Be brief."}
    record = {"messages": [system, ASKED, *SHOWN]}
    assert shown(record).load()[0].prompt == ASKED["content"]
    assert shown(record, system=True).load()[0].prompt == [system, ASKED]
    several = {"messages": [ASKED, {"role": "user", "content": [{"type": "text", "text": "Now."}]}, *SHOWN]}
    assert shown(several).load()[0].prompt == [ASKED, {"role": "user", "content": "Now."}]


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        ([], "line 1 of .*shown.jsonl has no list of messages; give an object with the key 'messages'"),
        ({"messages": [ASKED]}, "line 1 of .* is no demonstration: there is no assistant message; repair or remove it"),
        ({"messages": SHOWN}, "line 1 of .* has no message before the assistant's first; begin it with the task"),
        ({"messages": [SHOWN[1], *SHOWN]}, "a message before the assistant's first is of the role 'tool'; use system"),
        ({"messages": [{"role": "user", "content": [3]}, *SHOWN]}, "has a content that is no text"),
        ({"messages": [ASKED, *SHOWN, 7]}, "line 1 of .* is no demonstration: message 4 is not of the chat format"),
        ({"messages": [ASKED, *SHOWN], "answers": "Tavelo"}, "the answers of line 1 of .* are no list of texts"),
    ],
)
def test_a_damaged_line_is_one_sentence(shown: Any, record: Any, sentence: str) -> None:
    with pytest.raises(TaskError, match=sentence):
        shown(record).load()
