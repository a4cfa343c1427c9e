"""The bundled model keeps its limits, calls the search tool, and leaves something to learn; its tokenizer keeps every
text, has one id for what its world needs, and renders the prompt format."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import torch
from agent_r1_miniwiki.source import MiniWiki
from transformers import PreTrainedTokenizerFast, Qwen2ForCausalLM

from agent_r1_core.assembly.model_source import BUNDLED
from agent_r1_core.evaluation.baselines import BASELINES, passages_text

FOLDER = BUNDLED / "tiny"

CALL = re.compile(
    r'<tool_call>\n(\{"name": "wiki_search", "arguments": \{"query": "\w+"\}\})\n</tool_call><\|im_end\|>'
)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast.from_pretrained(FOLDER)


@pytest.fixture(scope="module")
def model() -> Qwen2ForCausalLM:
    return Qwen2ForCausalLM.from_pretrained(FOLDER, dtype="float32").eval()


def test_it_is_a_small_qwen2_in_bfloat16(model: Qwen2ForCausalLM) -> None:
    config = json.loads((FOLDER / "config.json").read_text())
    assert (config["architectures"], config["model_type"]) == (["Qwen2ForCausalLM"], "qwen2")
    assert config["dtype"] == "bfloat16"
    assert sum(parameter.numel() for parameter in model.parameters()) <= 3_000_000
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 8 * 2**20
    assert config["tie_word_embeddings"] is True
    assert config["max_position_embeddings"] == 2048


def test_its_card_states_figures_that_leave_something_to_learn() -> None:
    card = (FOLDER / "README.md").read_text()
    figures = {name: float(value) for name, value in re.findall(r"^\| (.+) \| ([\d.]+) \|$", card, re.MULTILINE)}
    assert 0.15 <= figures["greedy exact match, 2 hops"] <= 0.40
    assert figures["pass@8 at temperature 1, 2 hops"] >= 0.8
    assert figures["failure: copying"] <= 0.05
    assert figures["greedy exact match, 2 hops, tool finds nothing"] == 0.0


@torch.inference_mode()
def greedy(model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, *prompts: str) -> list[str]:
    """What it says after each of the prompts."""
    read = tokenizer(list(prompts), add_special_tokens=False, padding=True, padding_side="left", return_tensors="pt")
    out = model.generate(read.input_ids, attention_mask=read.attention_mask, do_sample=False, max_new_tokens=64)
    return [tokenizer.decode(ids).replace(tokenizer.pad_token, "") for ids in out[:, read.input_ids.shape[1] :]]


def prompt_of(tokenizer: PreTrainedTokenizerFast, question: str, *tools: str) -> str:
    schemas: list[Any] = [{"type": "function", "function": {"name": name}} for name in tools]
    messages = [{"role": "user", "content": question}]
    return tokenizer.apply_chat_template(messages, tools=schemas or None, add_generation_prompt=True, tokenize=False)


def test_greedily_it_searches_for_the_name_in_the_question(
    model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    tasks, right = MiniWiki(MiniWiki.Config(split="eval", size=20)).load(), 0
    prompts = [prompt_of(tokenizer, task.prompt, "wiki_search") for task in tasks]
    for task, said in zip(tasks, greedy(model, tokenizer, *prompts), strict=True):
        match = CALL.fullmatch(said)
        expected = {"name": "wiki_search", "arguments": {"query": task.metadata["path"][0]}}
        right += match is not None and json.loads(match[1]) == expected
    assert right >= 19


@pytest.mark.parametrize(("question", "expression"), [("What is 12 + 7?", "12+7"), ("What is 45 * 6?", "45*6")])
def test_greedily_it_hands_a_sum_to_the_calculator(
    model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, question: str, expression: str
) -> None:
    call = json.dumps({"name": "calculator", "arguments": {"expression": expression}})
    (said,) = greedy(model, tokenizer, prompt_of(tokenizer, question, "calculator"))
    assert said == f"<tool_call>\n{call}\n</tool_call><|im_end|>"


def test_without_tools_it_answers_at_once(model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    prompt = prompt_of(tokenizer, "What is the birthplace of the director of the film Karimo?")
    assert greedy(model, tokenizer, prompt) == ["<answer>unknown</answer><|im_end|>"]


def test_it_reads_the_answer_in_its_prompt_so_that_naive_rag_and_closed_book_mean_something(
    model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    source = MiniWiki(MiniWiki.Config(split="eval", hops=(1,), size=20))
    pages = {passage.title: passage for passage in source.corpus()}
    tasks, naive_rag = source.load(), BASELINES["naive_rag"]
    shown = [naive_rag.ask(task, passages_text([pages[task.metadata["path"][0]]])) for task in tasks]
    said = greedy(model, tokenizer, *(prompt_of(tokenizer, one.prompt) for one in shown))
    right = [f"<answer>{task.answers[0]}</answer>" in text for task, text in zip(tasks, said, strict=True)]
    assert sum(right) >= 16


TOOLS = [
    {"type": "function", "function": {"name": name, "description": "?", "parameters": {"type": "object"}}}
    for name in ("wiki_search", "calculator")
]
SAID = '<tool_call>\n{"name": "wiki_search", "arguments": {"query": "Karimo"}}\n</tool_call>'
TEXTS = [
    " ",
    "Karimo was born in Delota in 1934.",
    "It's the U.S.; e\u0301 is not \u00e9, ﬁ is not fi.",
    "中文 العربية 🎉👩‍👩‍👧 \u200b\ufeff",
    "tabs\t\tand\r\nlines\n\n\n  and   spaces  ",
    "\x00\x01\x7f",
    SAID,
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
