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


def test_the_last_action_is_continued_in_place(tokenizer):
    plain, named = begun(tokenizer), begun(tokenizer)
    plain.observe([user("more")])
    named.observe([user("more")], after=0)
    assert named.segments == plain.segments
    assert len(named.segments) == 1


def test_two_conversations_take_turns(tokenizer):
    conversation = begun(tokenizer)
    conversation.observe([user("another talk")], new_context=True)
    say(conversation, tokenizer, "second")
    before = [list(segment.ids) for segment in conversation.segments]
    conversation.observe([user("more")], after=0)
    assert conversation.context[: len(before[0])] == before[0]
    segment, start, stop, _ = say(conversation, tokenizer, "third")
    conversation.observe([user("and more")], after=1)
    assert conversation.context[: len(before[1])] == before[1]
    assert (segment, len(conversation.segments)) == (0, 2)
    assert tokenizer.decode(conversation.segments[0].ids[start:stop]) == "third<|im_end|>"


def test_a_fork_repeats_the_ids_and_trains_them_once(tokenizer):
    conversation = begun(tokenizer)
    first = list(conversation.segments[0].ids)
    conversation.observe([user("one way")])
    say(conversation, tokenizer, "second")
    conversation.observe([user("another way")], after=0)
    say(conversation, tokenizer, "third")
    trained, forked = conversation.segments
    assert forked.ids[: len(first)] == first
    assert not any(forked.mask[: len(first)])
    assert forked.prompt_length > len(first)
    sampled = [index for index, kept in zip(forked.ids, forked.mask, strict=True) if kept]
    assert tokenizer.decode(sampled) == "third<|im_end|>"
    assert "one way" not in tokenizer.decode(forked.ids)
    assert sum(trained.mask) == len("first") + len("second") + 2


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
