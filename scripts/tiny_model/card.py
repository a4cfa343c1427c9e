"""The model card of the tiny model, written from its files and measurements."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import load_file

from tiny_model.demonstrations import MIXTURE
from tiny_model.measure import SIZE

CARD = """# tiny

A Qwen2 model of {parameters:,} parameters ({bytes:,} bytes in bfloat16) with its own tokenizer and chat template. It
exists so that reinforcement learning of tool use can be run, watched and tested on a laptop. It knows no English beyond
the sentences of `miniwiki`, and no fact: every name that it meets is new to it.

- {layers} layers of {hidden}, {heads} heads ({kv_heads} for keys and values), {positions} positions, tied embeddings,
  {vocabulary} ids.
- Tokenizer: bytes, so that every text round-trips; the syllables of which names are made; the words of miniwiki; pieces
  of tool calls; digits singly; the tags of the tool formats; 64 reserved ids. Pad is `<|endoftext|>`, a turn ends with
  `<|im_end|>`. Load it with `PreTrainedTokenizerFast`; `AutoTokenizer` gives the same ids (`trust_remote_code` must
  stay off).
- Chat template: as Qwen2.5's, but short: the system block names the tools and leaves out their schemas, content is
  verbatim.

## How it was made

`python scripts/make_tiny_model.py --out agent_r1_core/bundled/tiny`: {lesson} supervised steps of saying things
again, then {steps} of a mixture, {batch} demonstrations each, from random weights and in training worlds only.
The demonstrator says the fact that it acts on first, in `<think>` tags. It copies names faultlessly and decides badly
on purpose: early answers, wrong hops, unfinished calls
(`scripts/tiny_model/demonstrations.py` has the rates). Shares of the demonstrations: {mixture}.

## What it can do

Measured by the same script in evaluation worlds, which share no name with the training worlds: {size} questions each,
exact match to the letter, BM25 search with one passage, at most 5 turns.

| | |
|---|---|
{table}

Failures are shares of the {size} greedy 2-hop episodes. copying: a query or answer that stands nowhere in what it had
read; syntax: malformed calls or no answer; wrong hop: it read a passage off the path; early answer: it answered before
it had read the whole path; misreading: it had read the path and answered another name.
"""


def write_card(folder: Path, figures: Mapping[str, float], **settings: object) -> None:
    """Write `README.md` into the model's folder."""
    fill_card(CARD, folder, figures, MIXTURE, size=SIZE, **settings)


def fill_card(
    card: str, folder: Path, figures: Mapping[str, float], mixture: Mapping[str, float], **settings: object
) -> None:
    """Write a card as `README.md` into a model's folder: its sizes from its files, its table from the figures."""
    config = json.loads((folder / "config.json").read_text())
    weights = load_file(folder / "model.safetensors")
    (folder / "README.md").write_text(
        card.format(
            parameters=sum(tensor.numel() for tensor in weights.values()),
            bytes=(folder / "model.safetensors").stat().st_size,
            layers=config["num_hidden_layers"],
            hidden=config["hidden_size"],
            heads=config["num_attention_heads"],
            kv_heads=config["num_key_value_heads"],
            positions=config["max_position_embeddings"],
            vocabulary=config["vocab_size"],
            table="\n".join(f"| {name} | {value:.3f} |" for name, value in figures.items()),
            mixture=", ".join(f"{name} {share:.0%}" for name, share in mixture.items()),
            **settings,
        )
    )
