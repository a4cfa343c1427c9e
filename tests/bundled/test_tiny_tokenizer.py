"""The bundled tokenizer keeps every text, has one id for what its world needs, and renders the prompt format."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
from agent_r1_miniwiki.source import MiniWiki
from transformers import AutoTokenizer, PreTrainedTokenizerFast

TOOLS = [
    {"type": "function", "function": {"name": name, "description": "?", "parameters": {"type": "object"}}}
    for name in ("wiki_search", "calculator")
]
CALL = '<tool_call>\n{"name": "wiki_search", "arguments": {"query": "Karimo"}}\n</tool_call>'
TEXTS = [
    "",
    " ",
    "Karimo was born in Delota in 1934.",
    "It's the U.S.; e\u0301 is not \u00e9, ﬁ is not fi.",
    "中文 العربية 🎉👩‍👩‍👧 \u200b\ufeff",
    "tabs\t\tand\r\nlines\n\n\n  and   spaces  ",
    "\x00\x01\x7f",
    CALL,
    "<|im_start|>user\nhello<|im_end|>\n<|reserved_7|><think></think>",
    "#####\n#_@_$.#\n#*PGOX#",
]


def ids_of(tokenizer: PreTrainedTokenizerFast, text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False)


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_round_trips_exactly(tokenizer: PreTrainedTokenizerFast, text: str) -> None:
    assert tokenizer.decode(ids_of(tokenizer, text)) == text


def test_random_unicode_round_trips_exactly(tokenizer: PreTrainedTokenizerFast) -> None:
    rng = random.Random(0)
    for _ in range(300):
        points = (
            rng.choice((rng.randrange(0x80), rng.randrange(0xD800), rng.randrange(0xE000, 0x110000))) for _ in "x" * 40
        )
        text = "".join(map(chr, points))
        assert tokenizer.decode(ids_of(tokenizer, text)) == text


def test_auto_tokenizer_gives_the_same_ids(folder: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    auto = AutoTokenizer.from_pretrained(folder)
    passages = [f"{p.title}\n{p.text}" for p in MiniWiki().corpus()][:50]
    for text in [*TEXTS, *passages]:
        assert ids_of(auto, text) == ids_of(tokenizer, text)
        assert auto.decode(ids_of(auto, text)) == text


def test_the_vocabulary_is_small_and_its_control_ids_differ(tokenizer: PreTrainedTokenizerFast) -> None:
    assert len(tokenizer) <= 800
    control = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    assert (tokenizer.pad_token, tokenizer.eos_token) == (control[0], control[2])
    tags = [
        f"<{s}{t}>"
        for t in ("tool_call", "tool_response", "answer", "think", "search", "information")
        for s in ("", "/")
    ]
    ids = [ids_of(tokenizer, token) for token in [*control, *tags, "<|reserved_0|>", "<|reserved_63|>"]]
    assert all(len(one) == 1 for one in ids)
    assert len({one[0] for one in ids}) == len(ids)


def test_a_name_is_its_syllables_wherever_it_stands(tokenizer: PreTrainedTokenizerFast) -> None:
    name = ids_of(tokenizer, "Karimo")
    assert len(name) == 3
    for text in ("Karimo\nKarimo is a city.", "born in Karimo in 1934.", "Who founded the company Karimo?", CALL):
        ids = ids_of(tokenizer, text)
        assert any(ids[i : i + 3] == name for i in range(len(ids)))


def test_what_its_worlds_are_made_of_is_short(tokenizer: PreTrainedTokenizerFast) -> None:
    for text, ids in ((CALL, 11), ("1934", 4), ("#._@$*PGOX", 10)):
        assert len(ids_of(tokenizer, text)) == ids
    for word in ("up", "down", "left", "right", "Up", "Down", "Left", "Right"):
        assert len(ids_of(tokenizer, word)) == 1
    assert max(len(ids_of(tokenizer, p.text)) for p in MiniWiki().corpus()) < 60


def render(tokenizer: PreTrainedTokenizerFast, messages: list[dict], *tools: dict, prompt: bool = False) -> str:
    return tokenizer.apply_chat_template(messages, tools=tools or None, add_generation_prompt=prompt, tokenize=False)


def test_the_template_names_the_tools_in_a_system_block(tokenizer: PreTrainedTokenizerFast) -> None:
    question = [{"role": "user", "content": "Who?"}]
    asked = "<|im_start|>user\nWho?<|im_end|>\n"
    assert render(tokenizer, question) == asked
    named = "Tools: wiki_search calculator<|im_end|>\n"
    assert render(tokenizer, question, *TOOLS) == f"<|im_start|>system\n{named}{asked}"
    system = [{"role": "system", "content": "Be brief."}]
    assert render(tokenizer, system + question, *TOOLS) == f"<|im_start|>system\nBe brief.\n{named}{asked}"
    assert render(tokenizer, system + question) == f"<|im_start|>system\nBe brief.<|im_end|>\n{asked}"


def test_the_template_puts_consecutive_tool_answers_into_one_user_block(tokenizer: PreTrainedTokenizerFast) -> None:
    messages = [
        {"role": "assistant", "content": CALL},
        {"role": "tool", "content": "one"},
        {"role": "tool", "content": "two"},
        {"role": "user", "content": "Go on."},
    ]
    assert render(tokenizer, messages, prompt=True) == (
        f"<|im_start|>assistant\n{CALL}<|im_end|>\n"
        "<|im_start|>user\n<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response><|im_end|>\n"
        "<|im_start|>user\nGo on.<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
def test_the_template_keeps_content_verbatim(tokenizer: PreTrainedTokenizerFast, role: str) -> None:
    content = " \n {{ x }} <b>&amp;</b> \n\n"
    assert content in render(tokenizer, [{"role": role, "content": content}])


def test_the_template_is_incremental(tokenizer: PreTrainedTokenizerFast) -> None:
    messages = [
        {"role": "user", "content": "Who?"},
        {"role": "assistant", "content": CALL},
        {"role": "tool", "content": "one"},
        {"role": "assistant", "content": "<answer>x</answer>"},
    ]
    renders = [render(tokenizer, messages[: n + 1], *TOOLS) for n in range(len(messages))]
    for shorter, longer in itertools.pairwise(renders):
        assert longer.startswith(shorter)
