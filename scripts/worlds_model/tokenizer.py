"""The tokenizer of the worlds model: the tiny model's, with the pieces of the worlds' sentences and grids."""

from __future__ import annotations

from tiny_model import tokenizer as tiny_tokenizer
from transformers import PreTrainedTokenizerFast

DIRECTIONS = ("left", "down", "right", "up")
CHUNKS = (
    *(f"at {row} {column}:" for row in range(4) for column in range(4)),
    *(f" {name} {cell}" for name in DIRECTIONS for cell in "_#OG"),
    *(str(number) for number in range(10, 21)),
    *("√", "phoenix", "dragon", "Pull", "It pays ", "Pull again.", "0.1", "Actions: ", "Write it as "),
    *(" in order, as ", "Write one, or up to ", "Numbers: ", ". Target: ", "That is ", ", not ", ". Try again."),
    *("(1 + 2) * 3", ", or "),
    *("Reach the target with + - * / and brackets; use each number once. Write the expression as ", "no action"),
    *("; write it between ", "no expression", " is no action; the actions are "),
    " actions are too many; a turn has at most ",
    *("Where are you?", "Notes:"),
)
"""Cells around a player are one id with their direction, and so is each number up to 20, so that a small model need not
put them together."""


def build() -> PreTrainedTokenizerFast:
    """The tokenizer, with the tiny model's chat template."""
    return tiny_tokenizer.build(CHUNKS)
