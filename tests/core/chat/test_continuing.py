"""A conversation goes on behind any of its actions, with the very ids."""

from __future__ import annotations

import pytest

from agent_r1_core.chat import Conversation

QUESTION = {"role": "user", "content": "Where was Karimo born?"}
SCHEMA = {"type": "function", "function": {"name": "look", "description": "Look.", "parameters": {"type": "object"}}}


@pytest.fixture
def tokenizer(chat_tokenizer):
    return chat_tokenizer("qwen25")


def user(text):
    return {"role": "user", "content": text}


def say(conversation, tokenizer, text):
    """Act in ids that encoding the text again would not give: letter by letter."""
    ids = [index for letter in text for index in tokenizer.encode(letter)] + [tokenizer.end_id]
    return conversation.act(ids, [-0.5] * len(ids))


def begun(tokenizer):
    conversation = Conversation(tokenizer)
    conversation.observe([QUESTION])
    say(conversation, tokenizer, "first")
    return conversation


def test_other_tools_open_a_segment(tokenizer):
    conversation = begun(tokenizer)
    conversation.observe([user("more")], after=0, tools=([SCHEMA], ""))
    assert len(conversation.segments) == 2
    assert '"look"' in tokenizer.decode(conversation.context)
    say(conversation, tokenizer, "second")
    conversation.observe([user("more")], after=1, tools=([SCHEMA], ""))
    assert len(conversation.segments) == 2


@pytest.mark.parametrize("how", [{}, {"after": 0}, {"new_context": True}])
def test_what_is_withdrawn_leaves_nothing(tokenizer, how):
    conversation = begun(tokenizer)
    conversation.observe([user("one way")])
    say(conversation, tokenizer, "second")
    before = [(list(one.ids), list(one.mask)) for one in conversation.segments]
    conversation.observe([user("withdrawn")], **how)
    say(conversation, tokenizer, "third")
    conversation.withdraw()
    assert [(one.ids, one.mask) for one in conversation.segments] == before
    conversation.observe([user("go on")])
    assert conversation.context[: len(before[0][0])] == before[0][0]
    assert say(conversation, tokenizer, "fourth")[0] == 0


def test_the_only_action_may_be_withdrawn(tokenizer):
    conversation = begun(tokenizer)
    conversation.withdraw()
    assert conversation.segments == []
    conversation.observe([QUESTION])
    assert tokenizer.decode(conversation.context).endswith("Karimo born?<|im_end|>\n<|im_start|>assistant\n")
