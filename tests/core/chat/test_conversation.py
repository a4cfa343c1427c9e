"""Conversations become ids exactly, grow only by what is new, go on behind any action; what the drift guard notices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agent_r1_core.chat import ChatTokenizer, Conversation, DriftGuard, Sampled
from agent_r1_core.contracts.engine import context_digest
from agent_r1_core.errors import DriftError, ModelError
from agent_r1_core.testing import make_trajectory, tiny_tokenizer

TEMPLATES = Path(__file__).parents[2] / "fixtures" / "chat_templates"
"""Each has one habit of the real ones."""
SCHEMA = {"type": "function", "function": {"name": "look", "description": "Look.", "parameters": {"type": "object"}}}
QUESTION = {"role": "user", "content": "Where was Karimo born?"}


def tokenizer_of(template):
    return ChatTokenizer(tiny_tokenizer((TEMPLATES / f"{template}.jinja").read_text()), name=f"model-{template}")


def say(conversation, tokenizer, text):
    """Let the policy act with these words."""
    ids = tokenizer.encode(f"{text}<|im_end|>")
    return conversation.act(ids, [-0.5] * len(ids))


def spell(conversation, tokenizer, text):
    """Act in ids that encoding the text again would not give: letter by letter."""
    ids = [index for letter in text for index in tokenizer.encode(letter)] + [tokenizer.end_id]
    return conversation.act(ids, [-0.5] * len(ids))


def asked(template, *said, schemas=()):
    """A conversation in which the question was asked, and the policy said something; and its tokenizer."""
    tokenizer = tokenizer_of(template)
    conversation = Conversation(tokenizer, schemas)
    conversation.observe([QUESTION])
    for text in said:
        say(conversation, tokenizer, text)
    return conversation, tokenizer


def user(text):
    return {"role": "user", "content": text}


def test_the_ids_spell_what_the_template_renders():
    conversation, tokenizer = asked("qwen25", "<tool_call>\n{}\n</tool_call>", schemas=[SCHEMA])
    conversation.observe([{"role": "tool", "name": "look", "content": "Karimo\nBorn in Tavelo."}])
    say(conversation, tokenizer, "<answer>Tavelo</answer>")
    (segment,) = conversation.segments
    text = tokenizer.decode(segment.ids)
    assert text.startswith("<|im_start|>system\nYou are a helpful assistant.\n\n# Tools\n{")
    assert text.endswith(
        "<|im_start|>assistant\n<tool_call>\n{}\n</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\n"
        "Karimo\nBorn in Tavelo.\n</tool_response><|im_end|>\n<|im_start|>assistant\n<answer>Tavelo</answer><|im_end|>"
    )
    sampled = [index for index, kept in zip(segment.ids, segment.mask, strict=True) if kept]
    assert tokenizer.decode(sampled) == "<tool_call>\n{}\n</tool_call><|im_end|><answer>Tavelo</answer><|im_end|>"


def test_another_end_token_than_the_templates_stays_an_action_and_one_that_was_cut_is_said_whole():
    conversation, tokenizer = asked("qwen25")
    tokenizer.eos_ids = (*tokenizer.eos_ids, tokenizer.encode("<|endoftext|>")[0])
    ids = tokenizer.encode("Done.<|endoftext|>")
    _, start, stop, text = conversation.act(ids, [-1.0] * len(ids))
    conversation.observe([QUESTION])
    (segment,) = conversation.segments
    assert text == "Done."
    assert segment.ids[start:stop] == ids
    assert tokenizer.decode(segment.ids[stop:]).startswith("<|im_end|>\n<|im_start|>user")

    conversation, tokenizer = asked("qwen25")
    ids = tokenizer.encode("I look")
    assert conversation.act(ids, [-1.0] * len(ids))[3] == "I look"
    conversation.observe([QUESTION])
    assert "assistant\nI look<|im_end|>\n<|im_start|>user" in tokenizer.decode(conversation.segments[0].ids)


@pytest.mark.parametrize(("text", "segments"), [("padded  ", 2), ("clean", 1)])
def test_a_trimming_template_opens_a_segment_only_where_it_trimmed(text, segments):
    conversation, _ = asked("trimming", text)
    conversation.observe([QUESTION])
    assert len(conversation.segments) == segments


def test_a_template_without_roles_gets_them_as_user_text_and_one_that_refuses_is_one_sentence():
    tokenizer = tokenizer_of("strict")
    conversation = Conversation(tokenizer, [SCHEMA], tools_text="You have a look.")
    conversation.observe([{"role": "system", "content": "Be brief."}, QUESTION])
    say(conversation, tokenizer, "Looking.")
    found = [{"role": "tool", "content": "one"}, {"role": "tool", "content": "two"}]
    conversation.observe([*found, user("Well?")])
    assert tokenizer.decode(conversation.context) == (
        "<|im_start|>user\nBe brief.\n\nYou have a look.\n\nWhere was Karimo born?<|im_end|>\n"
        "<|im_start|>assistant\nLooking.<|im_end|>\n<|im_start|>user\n<tool_response>\none\n</tool_response>\n"
        "<tool_response>\ntwo\n</tool_response>\n\nWell?<|im_end|>\n<|im_start|>assistant\n"
    )
    conversation = Conversation(tokenizer_of("strict"))
    with pytest.raises(ModelError, match=r"model-strict refuses a .* of the roles assistant \(roles must alternate\)"):
        conversation.observe([{"role": "assistant", "content": "I begin."}])


def test_what_exceeds_the_limit_changes_nothing_also_when_it_is_rewritten():
    conversation, _ = asked("qwen25", "Looking.")
    before = conversation.context
    assert not conversation.observe([user("x" * 500)], limit=len(before) + 400)
    assert conversation.context == before
    assert conversation.observe([user("x")], limit=len(before) + 400)

    conversation, _ = asked("qwen25", "Let me think.")
    messages = [*conversation.messages, user("Well?")]
    count, before = conversation.count(messages), conversation.context
    assert not conversation.rewrite(messages, count - 1)
    assert conversation.context == before
    assert conversation.rewrite(messages, count)
    assert len(conversation.context) == count


def test_closing_never_opens_a_segment_and_other_tools_do():
    conversation, _ = asked("qwen3", "<think>hm</think>Tavelo")
    assert not conversation.close_with([user("Thanks.")])
    assert len(conversation.segments) == 1

    conversation, tokenizer = asked("qwen25")
    spell(conversation, tokenizer, "first")
    conversation.observe([user("more")], after=0, tools=([SCHEMA], ""))
    assert len(conversation.segments) == 2
    assert '"look"' in tokenizer.decode(conversation.context)
    spell(conversation, tokenizer, "second")
    conversation.observe([user("more")], after=1, tools=([SCHEMA], ""))
    assert len(conversation.segments) == 2


@pytest.mark.parametrize("how", [{}, {"after": 0}, {"new_context": True}])
def test_what_is_withdrawn_leaves_nothing(how):
    conversation, tokenizer = asked("qwen25")
    spell(conversation, tokenizer, "first")
    conversation.observe([user("one way")])
    spell(conversation, tokenizer, "second")
    before = [(list(one.ids), list(one.mask)) for one in conversation.segments]
    conversation.observe([user("withdrawn")], **how)
    spell(conversation, tokenizer, "third")
    conversation.withdraw()
    assert [(one.ids, one.mask) for one in conversation.segments] == before
    conversation.observe([user("go on")])
    assert conversation.context[: len(before[0][0])] == before[0][0]
    assert spell(conversation, tokenizer, "fourth")[0] == 0


def test_the_only_action_may_be_withdrawn():
    conversation, tokenizer = asked("qwen25", "first")
    conversation.withdraw()
    assert conversation.segments == []
    conversation.observe([QUESTION])
    assert tokenizer.decode(conversation.context).endswith("Karimo born?<|im_end|>\n<|im_start|>assistant\n")


def test_a_cut_action_that_ends_as_the_template_goes_on_is_closed_all_the_same():
    """By the template's own line break, not by the one that was sampled."""
    turns = "{% for message in messages %}{{ message.role ~ ': ' ~ message.content ~ '\n' }}{% endfor %}"
    tokenizer = ChatTokenizer(tiny_tokenizer(turns + "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"))
    conversation = Conversation(tokenizer)
    conversation.observe([user("Go.")])
    cut = tokenizer.encode("Left,\n")
    conversation.act(cut, [-0.5] * len(cut))
    conversation.observe([user("On.")])
    assert tokenizer.decode(conversation.context) == "user: Go.\nassistant: Left,\n\nuser: On.\nassistant: "


TURNS = (([65, 66], [67, 68]), ([69], [70]), ([71], [72]))
"""The third begins a segment."""


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("an id lost at the end", r"turn 1, token 6 \(missing\): the action's ids are not those"),
        ("another context", "turn 0.*conditioned on other ids than it was sent"),
        ("a mask after the last turn", r"after turn 2, token 2 \(id 73, .*nobody sampled"),
        ("a lost turn", "3 turns and 2 generations"),
    ],
)
def test_a_fault_is_named(fault, sentence):
    episode = make_trajectory(TURNS, new_segment_at=[2], closing=[73])
    contexts = ((65, 66), (65, 66, 67, 68, 69), (71,))
    sampled = [Sampled(one, tuple(ids), context_digest(one)) for one, (_, ids) in zip(contexts, TURNS, strict=True)]
    guard = DriftGuard("tiny", ChatTokenizer(tiny_tokenizer()))
    guard.check_trajectory(episode, sampled)
    match fault:
        case "an id lost at the end":
            sampled[1] = replace(sampled[1], ids=(70, 71))
        case "another context":
            sampled[0] = replace(sampled[0], digest=123)
        case "a mask after the last turn":
            episode.segments[1].mask[-1] = 1
        case "a lost turn":
            sampled.pop()
    with pytest.raises(DriftError, match=sentence):
        guard.check_trajectory(episode, sampled)
