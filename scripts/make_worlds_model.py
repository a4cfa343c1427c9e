"""Makes the bundled worlds model: tokenizer, supervised training on aimless play, measurements, model card.

    python scripts/make_worlds_model.py --out agent_r1_core/bundled/tiny-worlds
    python scripts/make_worlds_model.py --out agent_r1_core/bundled/tiny-worlds --measure-only

Takes about ten minutes on one core. The same seed gives the same weights on the same kind of processor with the same
version of torch; elsewhere bfloat16 rounds differently and the measurements differ slightly.
"""

from __future__ import annotations

from pathlib import Path

import torch
from make_tiny_model import arguments, fill_card, save
from tiny_model.tokenizer import build
from tiny_model.training import batches, imitate, new_model
from transformers import PreTrainedTokenizerFast, Qwen2ForCausalLM
from worlds_model.aimless import MIXTURE, Aimless

from agent_r1_core.evaluation.evaluator import EvaluationPlan
from agent_r1_core.training.api import evaluate, resolve

STEPS, BATCH = 420, 24
TINY = Path(__file__).resolve().parents[1] / "agent_r1_core" / "bundled" / "tiny"
EMBEDDINGS = "model.embed_tokens.weight"
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
SIZE = 200
HELD_OUT = 1_000_000
WORLDS: dict[str, str] = {
    "frozen_lake": "{name: frozen_lake, view: around, max_turns: 12}",
    "sokoban": "{name: sokoban, max_turns: 10}",
    "bandit": "{name: bandit}",
    "countdown": "{name: countdown}",
}
"""The environments of the measurements, as in a recipe."""

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


def main() -> None:
    """Train unless --measure-only is given; then measure, print and write the model card."""
    options = arguments(__doc__, STEPS, BATCH).parse_args()
    torch.set_num_threads(options.threads)
    if not options.measure_only:
        tokenizer = build(CHUNKS)
        model = from_tiny(tokenizer, options.seed)
        # What an action leads to is learnt, too: a model that can tell it has read where it stands.
        imitate(model, batches(tokenizer, Aimless(options.seed), options.batch, answers=True), options.steps)
        save(model, tokenizer, options.out)
    fill_card(CARD, options, measure(options.out), MIXTURE, size=SIZE)


@torch.no_grad()
def from_tiny(tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen2ForCausalLM:
    """A model with tiny's weights; what stands in both vocabularies keeps its embedding, new pieces get random ones."""
    model, tiny = new_model(tokenizer, seed), Qwen2ForCausalLM.from_pretrained(TINY, dtype=torch.float32)
    known = PreTrainedTokenizerFast.from_pretrained(TINY).get_vocab()
    weights = {name: weight for name, weight in tiny.state_dict().items() if name not in (EMBEDDINGS, "lm_head.weight")}
    model.load_state_dict(weights, strict=False)
    embeddings = model.model.embed_tokens.weight
    for token, index in tokenizer.get_vocab().items():
        if token in known:
            embeddings[index] = tiny.model.embed_tokens.weight[known[token]]
    return model


def measure(folder: Path, size: int = SIZE) -> dict[str, float]:
    """Share of legal turns and share of successes at temperature 1, by world, on held-out seeds; an episode each."""
    out: dict[str, float] = {}
    for name, env in WORLDS.items():
        overrides = [
            *(f"model.name={folder}", "model.dtype=float32", "threads=1", f"env={env}", "tools=[]", "rewards=[]"),
            f"tasks={{train: {{name: seeds}}, eval: {{name: seeds, first: {HELD_OUT}, size: {size}}}}}",
            *("evaluation.greedy=false", "engine.max_new_tokens=32"),
        ]
        found, _ = evaluate(EvaluationPlan(resolve(None, overrides, training=False)))
        turns = [turn for trajectory in found.trajectories for turn in trajectory.turns]
        out[f"legal turns, {name}"] = sum(not turn.errors for turn in turns) / len(turns)
        out[f"success, {name}"] = found.result.metrics["success"].mean
    return out


if __name__ == "__main__":
    main()
