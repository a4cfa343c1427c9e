"""The bundled tokenizer keeps every text, has one id for what its world needs, and renders the prompt format."""

from __future__ import annotations

import pytest
from transformers import PreTrainedTokenizerFast

TOOLS = [
    {"type": "function", "function": {"name": name, "description": "?", "parameters": {"type": "object"}}}
    for name in ("wiki_search", "calculator")
]
CALL = '<tool_call>\n{"name": "wiki_search", "arguments": {"query": "Karimo"}}\n</tool_call>'
TEXTS = [
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
