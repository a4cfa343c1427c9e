"""Makes the bundled worlds model: tokenizer, supervised training on aimless play, measurements, model card.

    python scripts/make_worlds_model.py --out agent_r1_core/bundled/tiny-worlds
    python scripts/make_worlds_model.py --out agent_r1_core/bundled/tiny-worlds --measure-only

Takes about ten minutes on one core. The same seed gives the same weights on the same kind of processor with the same
version of torch; elsewhere bfloat16 rounds differently and the measurements differ slightly.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from tiny_model.tokenizer import save
from tiny_model.training import batches, imitate
from worlds_model import tokenizer as worlds_tokenizer
from worlds_model.aimless import Aimless
from worlds_model.card import write_card
from worlds_model.measure import measure
from worlds_model.start import from_tiny

STEPS, BATCH = 420, 24


def main() -> None:
    """Train unless --measure-only is given; then measure, print and write the model card."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the model")
    parser.add_argument("--steps", type=int, default=STEPS, help="supervised steps")
    parser.add_argument("--batch", type=int, default=BATCH, help="episodes per step")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--measure-only", action="store_true", help="only measure the model in --out")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if not options.measure_only:
        make(options)
    figures = measure(options.out)
    for name, value in figures.items():
        print(f"{name:<50} {value:.3f}")
    write_card(options.out, figures, steps=options.steps, batch=options.batch)


def make(options: argparse.Namespace) -> None:
    """Train from the weights of `tiny` and save the model in bfloat16 beside its tokenizer."""
    tokenizer = worlds_tokenizer.build()
    model = from_tiny(tokenizer, options.seed)
    # What an action leads to is learnt, too: a model that can tell it has read where it stands.
    imitate(model, batches(tokenizer, Aimless(options.seed), options.batch, answers=True), options.steps)
    options.out.mkdir(parents=True, exist_ok=True)
    model.to(torch.bfloat16).save_pretrained(options.out)
    save(tokenizer, options.out)


if __name__ == "__main__":
    main()
