"""Makes the bundled tiny model from scratch: tokenizer, supervised training, measurements, model card.

    python scripts/make_tiny_model.py --out agent_r1_core/bundled/tiny
    python scripts/make_tiny_model.py --out agent_r1_core/bundled/tiny --measure-only

Takes about 20 minutes on one core. The same seed gives the same weights on the same kind of processor with the same
version of torch; elsewhere bfloat16 rounds differently and the measurements differ slightly.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from tiny_model import tokenizer as tiny_tokenizer
from tiny_model.demonstrations import AGAIN, MIXTURE, UNKNOWN, Demonstrator
from tiny_model.training import batches, imitate, new_model
from transformers import PreTrainedTokenizerFast

from agent_r1_core import Trajectory
from agent_r1_core.evaluation.evaluator import Evaluation, EvaluationPlan
from agent_r1_core.training.api import evaluate, resolve

LESSON, STEPS, BATCH = 200, 700, 48
SAMPLES = 8
SIZE = 200
CAUSES = ("copying", "syntax", "wrong hop", "early answer", "misreading")

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
exact match, BM25 search with one passage, at most 5 turns.

| | |
|---|---|
{table}

Failures are shares of the {size} greedy 2-hop episodes. copying: a query or answer that stands nowhere in what it had
read; syntax: malformed calls or no answer; wrong hop: it read a passage off the path; early answer: it answered before
it had read the whole path; misreading: it had read the path and answered another name.
"""


def main() -> None:
    """Train unless --measure-only is given; then measure, print and write the model card."""
    parser = arguments(__doc__, STEPS, BATCH)
    parser.add_argument("--lesson", type=int, default=LESSON, help="first steps: saying things again, half the batch")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if not options.measure_only:
        tokenizer = tiny_tokenizer.build()
        model = new_model(tokenizer, options.seed)
        first = batches(tokenizer, Demonstrator(2 * options.seed, AGAIN), options.batch // 2)
        rest = batches(tokenizer, Demonstrator(2 * options.seed + 1), options.batch)
        imitate(model, chain(islice(first, options.lesson), rest), options.lesson + options.steps)
        save(model, tokenizer, options.out)
    fill_card(CARD, options, measure(options.out), MIXTURE, size=SIZE, lesson=options.lesson)


def arguments(document: str | None, steps: int, batch: int) -> argparse.ArgumentParser:
    """The options that the makers of both bundled models have."""
    parser = argparse.ArgumentParser(description=(document or "").split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the model")
    parser.add_argument("--steps", type=int, default=steps, help="supervised steps on the whole mixture")
    parser.add_argument("--batch", type=int, default=batch, help="demonstrations per step")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--measure-only", action="store_true", help="only measure the model in --out")
    return parser


def save(model: Any, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Save a model in bfloat16 beside its tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    model.to(torch.bfloat16).save_pretrained(folder)
    tiny_tokenizer.save(tokenizer, folder)


def measure(folder: Path) -> dict[str, float]:
    """Greedy exact match by hops, pass@8 and mean exact match at temperature 1 on 2-hop questions, failures by cause
    (shares of all greedy 2-hop episodes), and exact match when the tool finds nothing."""

    def played(hops: int, samples: int = 1, silence_tools: bool = False) -> Evaluation:
        overrides = [
            *(f"model.name={folder}", "model.dtype=float32", "threads=1"),
            f"evaluation.greedy={str(samples == 1).lower()}",
            f"tasks.eval={{name: miniwiki, split: eval, hops: [{hops}], size: {SIZE}}}",
        ]
        plan = EvaluationPlan(resolve("default", overrides, training=False), samples, silence_tools=silence_tools)
        return evaluate(plan)[0]

    def exact(one: Evaluation) -> float:
        return one.result.metrics["exact_match"].mean

    out: dict[str, float] = {}
    for hops in (1, 2, 3):
        episodes = played(hops)
        out[f"greedy exact match, {hops} hops"] = exact(episodes)
        if hops == 2:
            causes = Counter(cause(one) for one in episodes.trajectories if one.answer not in one.task.answers)
            out |= {f"failure: {name}": causes[name] / SIZE for name in CAUSES}
            out["greedy exact match, 2 hops, tool finds nothing"] = exact(played(2, silence_tools=True))
            sampled = played(2, SAMPLES)
            out["exact match at temperature 1, 2 hops"] = exact(sampled)
            out[f"pass@{SAMPLES} at temperature 1, 2 hops"] = sampled.result.metrics[f"pass@{SAMPLES}"].mean
    return out


def cause(episode: Trajectory) -> str:
    """Why a failed episode failed; the first that applies.

    copying: a query or answer that is nowhere in the passages and question; syntax: malformed calls, or no answer;
    wrong hop: a passage off the path was read; early answer: not all of the path was read; misreading: all of it was,
    and another name answered.
    """
    path = set(episode.task.metadata["path"])
    queries = [call.arguments.get("query") for turn in episode.turns for call in turn.calls]
    read = [str(message["content"]) for turn in episode.turns[1:] for message in turn.observation]
    words = re.findall(r"\w+", " ".join([str(episode.task.prompt), *read]))
    if any(text not in (None, UNKNOWN, *words) for text in (*queries, episode.answer)):
        return "copying"
    if episode.answer is None or (not queries and any(turn.errors for turn in episode.turns)):
        return "syntax"
    titles = {title for title, line, _ in (text.partition("\n") for text in read) if line}
    if titles - path:
        return "wrong hop"
    return "early answer" if path - titles else "misreading"


def fill_card(
    card: str,
    options: argparse.Namespace,
    figures: Mapping[str, float],
    mixture: Mapping[str, float],
    **settings: object,
) -> None:
    """Print the figures, and write the card into the model's folder: sizes from its files, its table from figures."""
    for name, value in figures.items():
        print(f"{name:<50} {value:.3f}")
    folder = options.out
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
            steps=options.steps,
            batch=options.batch,
            **settings,
        )
    )


if __name__ == "__main__":
    main()
