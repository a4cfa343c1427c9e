"""Tokenizers and their chat templates: end-of-turn ids, folders, texts that are not text, and a bounded time."""

from __future__ import annotations

import json

import pytest
from tokenizers.processors import TemplateProcessing

from agent_r1_core.chat import ChatTokenizer, Conversation, deadline, template
from agent_r1_core.chat.control import BREAK
from agent_r1_core.chat.deadline import within
from agent_r1_core.errors import ModelError
from agent_r1_core.testing import tiny_model_folder, tiny_tokenizer
from agent_r1_core.testing.model import CHAT_TEMPLATE


def test_the_templates_closing_token_ends_a_turn_though_eos_is_another_and_padding_loses_no_token():
    raw = tiny_tokenizer()
    raw.eos_token = "<|endoftext|>"
    tokenizer = ChatTokenizer(raw)
    assert {tokenizer.decode([index]) for index in tokenizer.eos_ids} == {"<|endoftext|>", "<|im_end|>"}
    assert tokenizer.template.closing_text() == "<|im_end|>\n"

    raw = tiny_tokenizer()
    raw.pad_token = raw.eos_token
    tokenizer = ChatTokenizer(raw)
    conversation = Conversation(tokenizer)
    conversation.observe([{"role": "user", "content": "Hi"}])
    ids = tokenizer.encode("Hello<|im_end|>")
    conversation.act(ids, [-1.0] * len(ids))
    (segment,) = conversation.segments
    assert segment.ids[-1] == raw.pad_token_id
    assert segment.mask[-1] == 1


def test_where_the_template_closes_nothing_the_next_role_ends_a_turn():
    """As GLM's does: before a tool's message another token than before a user's."""
    marks = "{'user': '<|im_start|>', 'assistant': 'A: ', 'tool': '<|im_end|>'}"
    said = "{% for m in messages %}{{ " + marks + "[m.role] }}{{ m.content }}{% endfor %}"
    raw = tiny_tokenizer(said + "{% if add_generation_prompt %}A: {% endif %}")
    raw.eos_token = "<|endoftext|>"
    ends = ChatTokenizer(raw, raw.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"]))
    assert [ends.decode([index]) for index in (ends.end_id, ends.call_end_id)] == ["<|im_start|>", "<|im_end|>"]
    own = ChatTokenizer(raw)
    assert {own.end_id, own.call_end_id} == {raw.eos_token_id}, "a policy could not end there"


def test_a_folder_round_trips_and_names_its_end_ids(tmp_path):
    tiny_tokenizer().save_pretrained(tmp_path)
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 9]}))
    tokenizer = ChatTokenizer.from_folder(tmp_path)
    text = "héllo <tool_call>\n\t中文 🙂  two spaces"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert {7, 9} < set(tokenizer.eos_ids)
    assert tokenizer.vocab_size == len(tiny_tokenizer())
    assert tokenizer.name == str(tmp_path)


@pytest.mark.parametrize("text", ["[]", "[" * 5000, '{"eos_token_id": "none"}', '{"eos_token_id": [[7]]}'])
def test_a_damaged_generation_config_is_one_sentence(tmp_path, text):
    tiny_tokenizer().save_pretrained(tmp_path)
    (tmp_path / "generation_config.json").write_text(text)
    with pytest.raises(ModelError, match=r"generation_config\.json is not a JSON object whose eos_token_id is one id"):
        ChatTokenizer.from_folder(tmp_path)


def test_lone_surrogates_are_replaced_and_all_texts_of_a_schema_are_spelled_and_nothing_else():
    tokenizer = ChatTokenizer(tiny_tokenizer())
    assert tokenizer.decode(tokenizer.encode("a\udcffb")) == "a?b"
    schema = {"role": "ab", "most": 3, "none": None, "names": ["ab", "<|im_end|>c"]}
    spelled = ChatTokenizer(tiny_tokenizer()).control.spell(schema)
    assert spelled == {"role": "ab", "most": 3, "none": None, "names": [f"a{BREAK}b", f"<|im_end|>{BREAK}c"]}


def test_a_tokenizer_that_begins_every_text_with_a_token_adds_none():
    raw = tiny_tokenizer()
    first = raw.convert_tokens_to_ids("<|endoftext|>")
    added = TemplateProcessing(single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", first)])
    raw.backend_tokenizer.post_processor = added
    assert raw.encode("a")[0] == first
    tokenizer = ChatTokenizer(raw)
    assert first not in tokenizer.encode("a") + tokenizer.encode(tokenizer.control.protect("<|im_end|>"))


def test_what_cannot_be_loaded_lacks_a_tokenizer_or_a_template_is_one_sentence(tmp_path):
    with pytest.raises(ModelError, match="there is no model folder"):
        ChatTokenizer.from_folder(tmp_path / "none")
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(ModelError, match=r"cannot be loaded \(.*line 1 column"):
        ChatTokenizer.from_folder(tmp_path)
    folder = tiny_model_folder(tmp_path / "model")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    with pytest.raises(ModelError, match=r"model holds no tokenizer; copy tokenizer\.json there"):
        ChatTokenizer.from_folder(folder)
    raw = tiny_tokenizer()
    raw.chat_template = None
    raw.save_pretrained(tmp_path / "plain-model")
    with pytest.raises(ModelError, match=r"plain-model.* no chat template"):
        ChatTokenizer.from_folder(tmp_path / "plain-model")
    with pytest.raises(ModelError, match="no chat template; use an instruct model"):
        ChatTokenizer(raw, name="base-model")


def test_a_template_that_cannot_be_read_or_asks_for_no_action_says_so():
    with pytest.raises(ModelError, match=r"speak in turn \(TemplateSyntaxError: .*\); mend the template"):
        ChatTokenizer(tiny_tokenizer("{% for message in messages %}{{ message.content }"))
    deaf = CHAT_TEMPLATE.replace("add_generation_prompt", "false")
    with pytest.raises(
        ModelError, match=r"writes '<\|im_start\|>assistant' before what an assistant says, but not where"
    ):
        ChatTokenizer(tiny_tokenizer(deaf))
    mistral = "{% for message in messages %}{{ '[INST]' + message.content + '[/INST]' if message.role == 'user' "
    ChatTokenizer(tiny_tokenizer(mistral + "else ' ' + message.content + '<|im_end|>' }}{% endfor %}"))


LOOPS = "".join(f"{{% for {name} in range(99999) %}}" for name in "abc") + "x" + "{% endfor %}" * 3


def test_a_template_that_does_not_end_is_a_sentence_and_is_not_tried_again(monkeypatch):
    monkeypatch.setattr(template, "_SECONDS", 0.25)
    with pytest.raises(ModelError, match=r"template of bomb did not end within 0\.25 seconds; use another model"):
        ChatTokenizer(tiny_tokenizer(LOOPS), name="bomb")
    late = "{% if messages|length > 5 %}" + LOOPS + "{% endif %}" + CHAT_TEMPLATE
    later = ChatTokenizer(tiny_tokenizer(late), name="later")
    talk = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}] * 3
    with pytest.raises(ModelError, match="did not end within"):
        later.template.render(talk)
    monkeypatch.setattr(template, "within", lambda *_: pytest.fail("it was tried again"))
    with pytest.raises(ModelError, match="did not end within"):
        later.template.render(talk[:1])


def test_code_that_catches_exceptions_is_stopped_too_and_a_limit_does_not_outlive_its_code(monkeypatch):
    def stubborn() -> None:
        while True:
            try:
                sum(range(10))
            except Exception:
                continue

    with pytest.raises(TimeoutError):
        within(0.25, stubborn)
    assert within(5, lambda: "still here") == "still here"
    with pytest.raises(ZeroDivisionError):
        within(5, lambda: 1 // 0)

    end, interrupted = deadline._WATCH.end, []

    def end_in_the_second_attempt() -> None:
        interrupted.append(True)
        if len(interrupted) == 1:
            raise deadline._TimeUp
        end()

    monkeypatch.setattr(deadline._WATCH, "end", end_in_the_second_attempt)
    assert within(5, lambda: "in time") == "in time"
    assert deadline._WATCH._looks_left == {}


def test_a_channel_that_the_template_writes_is_known_and_a_template_that_loses_what_is_said_refused():
    """As gpt-oss does: what is repeated begins after the channel's name, which the policy samples."""
    said = "{{ '<|im_start|>' ~ message.role ~ (channel if message.role == 'assistant' else '<tool_call>') }}"
    turns = "{% set channel = '<|endoftext|>final<tool_call>' %}{% for message in messages %}" + said
    text = turns + "{{ message.content ~ '<|im_end|>' }}{% endfor %}"
    raw = tiny_tokenizer(text + "{% if add_generation_prompt %}{{ '<|im_start|>assistant' }}{% endif %}")
    assert ChatTokenizer(raw).opening == "<|endoftext|>final<tool_call>"
    assert ChatTokenizer(tiny_tokenizer()).opening == ""

    parts = "{%- for part in message.content -%}{{- part.text -}}{%- endfor -%}"
    raw = tiny_tokenizer("{%- for message in messages -%}" + parts + "{%- endfor -%}")
    with pytest.raises(ModelError, match=r"of vision does not show what user and assistant say .*; set model\.name to"):
        ChatTokenizer(raw, name="vision")
