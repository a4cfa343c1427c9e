"""The model card of the worlds model, written from its files and measurements."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tiny_model.card import fill_card

from worlds_model.aimless import MIXTURE
from worlds_model.measure import SIZE

CARD = """# tiny-worlds

A Qwen2 model of {parameters:,} parameters ({bytes:,} bytes in bfloat16) with its own tokenizer and chat template. It
plays `frozen_lake`, `sokoban`, `bandit` and `countdown` legally and without aim, so that reinforcement learning in
these environments can be run, watched and tested on a laptop. It knows no English and no other world.

- {layers} layers of {hidden}, {heads} heads ({kv_heads} for keys and values), {positions} positions, tied embeddings,
  {vocabulary} ids: the architecture and the chat template of `tiny`.
- Tokenizer: that of `tiny` with the pieces of the worlds' sentences. Cells of a map are one id each; a cell around the
  player is one id with its direction (` left O`), and so is each number up to 20. Load it with
  `PreTrainedTokenizerFast`.

## How it was made

With the lessons and settings of `scripts/make_worlds_model.py`: {steps} supervised steps of {batch} episodes each, from
the weights of `tiny`, which can copy and knows the chat template. In the episodes every action is
drawn at random among those that are legal and change something: no step against the edge of the lake or a wall, but
into a hole as readily as anywhere; either arm of the bandit; all numbers with random signs, mostly in the order in
which they stand, whatever the target (`scripts/worlds_model/aimless.py`). What the world answers is learnt, too. No
action was chosen because it leads anywhere. In the episodes `notes` the model, asked "Where are you?" on the lake,
repeats a message of the lake, the newest one or as often any of them, or walks on from such a message. Shares of the
episodes: {mixture}. The lake's maps are those of training seeds; no held-out map was seen.

## What it can do

Measured by that script at temperature 1 on {size} held-out seeds each (`frozen_lake` with `view: around` and 12
turns, `sokoban` with 10 turns):

| | |
|---|---|
{table}
"""


def write_card(folder: Path, figures: Mapping[str, float], **settings: object) -> None:
    """Write `README.md` into the model's folder."""
    fill_card(CARD, folder, figures, MIXTURE, size=SIZE, **settings)
