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

import torch
from safetensors.torch import load_file
from tiny_model.demonstrations import AGAIN, MIXTURE, UNKNOWN, Demonstrator
from tiny_model.model import batches, build, imitate, new_model, save

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

- {num_hidden_layers} layers of {hidden_size}, {num_attention_heads} heads ({num_key_value_heads} for keys and \
values), {max_position_embeddings} positions, tied embeddings,
  {vocab_size} ids.
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


def main() -> None:
    options = arguments(__doc__)
    if not options.measure_only:
        tokenizer = build()
        model = new_model(tokenizer, options.seed)
        first = batches(tokenizer, Demonstrator(2 * options.seed, AGAIN), BATCH // 2)
        rest = batches(tokenizer, Demonstrator(2 * options.seed + 1), BATCH)
        imitate(model, chain(islice(first, LESSON), rest), LESSON + STEPS)
        save(model, tokenizer, options.out)
    mixture = ", ".join(f"{name} {share:.0%}" for name, share in MIXTURE.items())
    settings = {"mixture": mixture, "steps": STEPS, "batch": BATCH, "size": SIZE, "lesson": LESSON}
    fill_card(CARD, options.out, measure(options.out), settings)


def arguments(document: str | None) -> argparse.Namespace:
    """The options that the makers of both bundled models have."""
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=(document or "").split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--measure-only", action="store_true", help="only measure the model in --out")
    return parser.parse_args()


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


def fill_card(card: str, folder: Path, figures: Mapping[str, float], settings: Mapping[str, object]) -> None:
    """Print the figures, and write the card into the model's folder: sizes from its files, its table from figures."""
    for name, value in figures.items():
        print(f"{name:<50} {value:.3f}")
    config, file = json.loads((folder / "config.json").read_text()), folder / "model.safetensors"
    parameters, size = sum(tensor.numel() for tensor in load_file(file).values()), file.stat().st_size
    table = "\n".join(f"| {name} | {value:.3f} |" for name, value in figures.items())
    text = card.format(parameters=parameters, bytes=size, table=table, **config, **settings)
    (folder / "README.md").write_text(text)


if __name__ == "__main__":
    main()
