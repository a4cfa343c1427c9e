"""Conversations become ids exactly, and grow only by what is new."""

from __future__ import annotations

import pytest

from agent_r1_core.chat import Conversation
from agent_r1_core.errors import ModelError

SCHEMA = {
    "type": "function",
    "function": {"name": "wiki_search", "description": "Search.", "parameters": {"type": "object", "properties": {}}},
}
QUESTION = {"role": "user", "content": "Where was Karimo born?"}


def say(conversation, tokenizer, text):
    """Let the policy act with these words."""
    ids = tokenizer.encode(f"{text}<|im_end|>")
    return conversation.act(ids, [-0.5] * len(ids))


def played(tokenizer, schemas=()):
    """A conversation of two actions and a tool's answer."""
    conversation = Conversation(tokenizer, schemas)
    conversation.observe([QUESTION])
    say(conversation, tokenizer, "<tool_call>\n{}\n</tool_call>")
    conversation.observe([{"role": "tool", "name": "wiki_search", "content": "Karimo\nBorn in Tavelo."}])
    say(conversation, tokenizer, "<answer>Tavelo</answer>")
    return conversation


def test_the_ids_spell_what_the_template_renders(chat_tokenizer):
    tokenizer = chat_tokenizer("qwen25")
    conversation = played(tokenizer, [SCHEMA])
    (segment,) = conversation.segments
    text = tokenizer.decode(segment.ids)
    assert text.startswith("<|im_start|>system\nYou are a helpful assistant.\n\n# Tools\n{")
    assert text.endswith(
        "<|im_start|>assistant\n<tool_call>\n{}\n</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\n"
        "Karimo\nBorn in Tavelo.\n</tool_response><|im_end|>\n<|im_start|>assistant\n<answer>Tavelo</answer><|im_end|>"
    )
    sampled = [index for index, kept in zip(segment.ids, segment.mask, strict=True) if kept]
    assert tokenizer.decode(sampled) == "<tool_call>\n{}\n</tool_call><|im_end|><answer>Tavelo</answer><|im_end|>"


def test_another_end_token_than_the_templates_stays_an_action(chat_tokenizer):
    tokenizer = chat_tokenizer("qwen25")
    tokenizer.eos_ids = (*tokenizer.eos_ids, tokenizer.encode("<|endoftext|>")[0])
    conversation = Conversation(tokenizer)
    conversation.observe([QUESTION])
    ids = tokenizer.encode("Done.<|endoftext|>")
    _, start, stop, text = conversation.act(ids, [-1.0] * len(ids))
    conversation.observe([QUESTION])
    (segment,) = conversation.segments
    assert text == "Done."
    assert segment.ids[start:stop] == ids
    assert tokenizer.decode(segment.ids[stop:]).startswith("<|im_end|>\n<|im_start|>user")


@pytest.mark.parametrize(("text", "segments"), [("padded  ", 2), ("clean", 1)])
def test_a_trimming_template_opens_a_segment_only_where_it_trimmed(chat_tokenizer, text, segments):
    tokenizer = chat_tokenizer("trimming")
    conversation = Conversation(tokenizer)
    conversation.observe([QUESTION])
    say(conversation, tokenizer, text)
    conversation.observe([QUESTION])
    assert len(conversation.segments) == segments


def test_a_template_without_roles_gets_them_as_user_text(chat_tokenizer):
    tokenizer = chat_tokenizer("strict")
    conversation = Conversation(tokenizer, [SCHEMA], tools_text="You have wiki_search.")
    conversation.observe([{"role": "system", "content": "Be brief."}, QUESTION])
    say(conversation, tokenizer, "Looking.")
    found = [{"role": "tool", "content": "one"}, {"role": "tool", "content": "two"}]
    conversation.observe([*found, {"role": "user", "content": "Well?"}])
    assert tokenizer.decode(conversation.context) == (
        "<|im_start|>user\nBe brief.\n\nYou have wiki_search.\n\nWhere was Karimo born?<|im_end|>\n"
        "<|im_start|>assistant\nLooking.<|im_end|>\n<|im_start|>user\n<tool_response>\none\n</tool_response>\n"
        "<tool_response>\ntwo\n</tool_response>\n\nWell?<|im_end|>\n<|im_start|>assistant\n"
    )


def test_what_exceeds_the_limit_changes_nothing(chat_tokenizer):
    tokenizer = chat_tokenizer("qwen25")
    conversation = Conversation(tokenizer)
    conversation.observe([QUESTION])
    say(conversation, tokenizer, "Looking.")
    before = conversation.context
    assert not conversation.observe([{"role": "user", "content": "x" * 500}], limit=len(before) + 400)
    assert conversation.context == before
    assert conversation.observe([{"role": "user", "content": "x"}], limit=len(before) + 400)


def test_closing_never_opens_a_segment(chat_tokenizer):
    tokenizer = chat_tokenizer("qwen3")
    conversation = Conversation(tokenizer)
    conversation.observe([QUESTION])
    say(conversation, tokenizer, "<think>hm</think>Tavelo")
    assert not conversation.close_with([{"role": "user", "content": "Thanks."}])
    assert len(conversation.segments) == 1


def test_a_refused_conversation_is_one_sentence(chat_tokenizer):
    conversation = Conversation(chat_tokenizer("strict"))
    with pytest.raises(
        ModelError, match=r"model-strict refuses a conversation of the roles assistant \(roles must alternate\)"
    ):
        conversation.observe([{"role": "assistant", "content": "I begin."}])
