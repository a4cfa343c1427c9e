"""Messages to token ids and back, exactly (LAW 1)."""

from __future__ import annotations

from agent_r1_core.chat.conversation import Conversation
from agent_r1_core.chat.drift import DriftGuard, Sampled
from agent_r1_core.chat.text import (
    clip_text,
    split_tagged,
    thought_spans,
    thoughts_of,
    without_first_thought,
    without_thinking,
)
from agent_r1_core.chat.tokenizer import ChatTokenizer

__all__ = [
    "ChatTokenizer",
    "Conversation",
    "DriftGuard",
    "Sampled",
    "clip_text",
    "split_tagged",
    "thought_spans",
    "thoughts_of",
    "without_first_thought",
    "without_thinking",
]
