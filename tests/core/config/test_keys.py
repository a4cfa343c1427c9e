"""Keys are written in one way, read in two, and a mistyped one finds its neighbour."""

from __future__ import annotations

import pytest

from agent_r1_core.config.keys import key_text, nearest, parse_key

VALID = [
    "seed",
    "training",
    "training.lr",
    "training.steps",
    "training.critic_lr",
    "env",
    "env.max_turns",
    "tools[0].top_k",
]


def test_both_spellings_of_an_index_are_read() -> None:
    assert parse_key("tools[0].top_k") == parse_key("tools.0.top_k") == ("tools", "0", "top_k")
    assert key_text(("tools", 0, "top_k")) == "tools[0].top_k"


@pytest.mark.parametrize("text", ["", "a..b", "a b", ".a", "a.", "-a", "a[x]"])
def test_what_is_no_key(text: str) -> None:
    assert parse_key(text) is None


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("training.lrr", "training.lr"),
        ("training.setps", "training.steps"),
        ("lr", "training.lr"),
        ("max_turns", "env.max_turns"),
        ("training.max_turns", "env.max_turns"),
        ("tools[0].topk", "tools[0].top_k"),
        ("sede", "seed"),
        ("trainnig", "training"),
        ("max_turn", "env.max_turns"),
    ],
)
def test_the_nearest_key(wrong: str, right: str) -> None:
    assert nearest(wrong, VALID) == right


def test_nothing_is_near_to_nonsense() -> None:
    assert nearest("xyzzy", VALID) is None
