"""Hand-written chat templates, each with one habit of the real ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.testing import tiny_tokenizer

GENERATION = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"

QWEN25 = (
    "{% if tools %}{{ '<|im_start|>system\\n' }}"
    "{% if messages[0]['role'] == 'system' %}{{ messages[0]['content'] }}"
    "{% else %}{{ 'You are a helpful assistant.' }}{% endif %}"
    "{{ '\\n\\n# Tools' }}{% for tool in tools %}{{ '\\n' + (tool | tojson) }}{% endfor %}{{ '<|im_end|>\\n' }}"
    "{% elif messages[0]['role'] == 'system' %}{{ '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}"
    "{% else %}{{ '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}{% endif %}"
    "{% for message in messages %}"
    "{% if message.role == 'tool' %}"
    "{% if loop.index0 == 0 or messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>user' }}{% endif %}"
    "{{ '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}"
    "{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\\n' }}{% endif %}"
    "{% elif not (loop.first and message.role == 'system') %}"
    "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{% endif %}"
    "{% endfor %}" + GENERATION
)

QWEN3 = (
    "{% set state = namespace(last=-1) %}"
    "{% for message in messages %}{% if message.role == 'user' %}{% set state.last = loop.index0 %}{% endif %}"
    "{% endfor %}"
    "{% for message in messages %}"
    "{% set content = message.content %}"
    "{% if message.role == 'assistant' and '</think>' in content and loop.index0 < state.last %}"
    "{% set content = content.split('</think>')[-1].lstrip('\\n') %}{% endif %}"
    "{{ '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}"
    "{% endfor %}" + GENERATION
)

TRIMMING = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\\n' + (message.content | trim) + '<|im_end|>\\n' }}"
    "{% endfor %}" + GENERATION
)

STRICT = (
    "{% for message in messages %}"
    "{% if message.role not in ['user', 'assistant'] %}{{ raise_exception('only user and assistant') }}{% endif %}"
    "{% if (message.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{% endfor %}" + GENERATION
)

TEMPLATES = {"qwen25": QWEN25, "qwen3": QWEN3, "trimming": TRIMMING, "strict": STRICT}


@pytest.fixture(scope="session")
def chat_tokenizer() -> Callable[[str], ChatTokenizer]:
    """A byte-level tokenizer with the named template."""
    return lambda name: ChatTokenizer(tiny_tokenizer(TEMPLATES[name]), name=f"model-{name}")
