"""Makes the bundled tiny model from scratch: tokenizer, supervised training, measurements, model card.

    python scripts/make_tiny_model.py --out agent_r1_core/bundled/tiny
    python scripts/make_tiny_model.py --out agent_r1_core/bundled/tiny --measure-only

Takes about 20 minutes on one core. The same seed gives the same weights on the same kind of processor with the same
version of torch; elsewhere bfloat16 rounds differently and the measurements differ slightly.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from tiny_model import tokenizer as tiny_tokenizer
from tiny_model.card import write_card
from tiny_model.measure import measure
from tiny_model.training import new_model, train
from transformers import PreTrainedTokenizerFast, Qwen2ForCausalLM

LESSON, STEPS, BATCH = 200, 700, 48


def main() -> None:
    """Train unless --measure-only is given; then measure, print and write the model card."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the model")
    parser.add_argument("--lesson", type=int, default=LESSON, help="first steps: repeating text, half the batch")
    parser.add_argument("--steps", type=int, default=STEPS, help="supervised steps on the whole mixture after it")
    parser.add_argument("--batch", type=int, default=BATCH, help="demonstrations per step")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--measure-only", action="store_true", help="only measure the model in --out")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if not options.measure_only:
        make(options)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(options.out)
    model = Qwen2ForCausalLM.from_pretrained(options.out, dtype=torch.float32)
    figures = measure(model, tokenizer)
    for name, value in figures.items():
        print(f"{name:<50} {value:.3f}")
    write_card(options.out, figures, lesson=options.lesson, steps=options.steps, batch=options.batch)


def make(options: argparse.Namespace) -> None:
    """Train from random weights and save the model in bfloat16 beside its tokenizer."""
    tokenizer = tiny_tokenizer.build()
    model = new_model(tokenizer, options.seed)
    sizes = {"lesson": options.lesson, "steps": options.steps, "size": options.batch}
    train(model, tokenizer, **sizes, seed=options.seed)
    options.out.mkdir(parents=True, exist_ok=True)
    model.to(torch.bfloat16).save_pretrained(options.out)
    tiny_tokenizer.save(tokenizer, options.out)


if __name__ == "__main__":
    main()
