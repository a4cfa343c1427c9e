"""Tokenizers with hand-written chat templates, each with one habit of the real ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.testing import tiny_tokenizer


@pytest.fixture(scope="session")
def chat_tokenizer(root: Path) -> Callable[[str], ChatTokenizer]:
    """A byte-level tokenizer with the named template."""
    folder = root / "tests/fixtures/chat_templates"
    return lambda name: ChatTokenizer(tiny_tokenizer((folder / f"{name}.jinja").read_text()), name=f"model-{name}")
