"""Is our gradient TRL's, on the same batch with the same weights?

    python benchmarks/gradients.py --venv .trl-venv         # makes the environment, with pinned packages, on first use
    python benchmarks/gradients.py --trl-python PATH        # or an environment that has TRL already

One batch of random ids: 8 groups of 4, one without spread; ragged prompts, turns and lengths; tool answers between the
actions and at the end, masked on both sides. Two passes over it: `first`, with the weights of the rollout, and
`second`, with other weights, so that ratios differ from 1 and clips act (`clipped`: their share, as TRL counts it).
Both sides compute old log-probs, advantages, losses and gradients themselves, TRL with trainers that really train
(peer_gradients.py), in float64 but for rewards and advantages, which TRL keeps in float32; we compute in float32.
Constants are TRL's where it has no option: 1e-4 beside the standard deviation. `filter: none`, since TRL's DAPO keeps
groups without spread.

`difference` is ||ours - TRL's|| / ||TRL's|| over all weights; `TRL, float32` the same for TRL in float32 against itself
in float64, which is what rounding alone may make. The script fails if a comparable difference is above --limit.

RLOO: TRL's RLOOTrainer knows no tool mask, so it gets a batch without tools. Its loss has one ratio per episode, the
product of all its tokens' ratios, and clips that; ours has one per token, as PPO. Both have the same gradient in the
first pass, and by definition not in later ones (not comparable). The row RLOO (GRPOTrainer) has ratios per token on
both sides: TRL's `luspo` sum of tokens with rewards times n / (n - 1), which makes the group's mean a leave-one-out.

SFT: 24 conversations with calls in one file, read by `algorithm: sft` on our side and by SFTTrainer with
`assistant_only_loss` on TRL's. Each side makes ids and masks itself; a second table compares them id by id. The markers
of TRL's template for training cover the newlines before and after an action, too, which no policy of ours samples. The
row SFT has that template with markers around the actions alone; the row `TRL's markers` has it as it is, and shows
what that changes (not comparable). SFTTrainer has no mean of conversations' means (`sequence_mean`).
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import sys
import tempfile
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import report
from demonstrations import compare_tokens, played, write_conversations
from vs_trl import add_peer, at_peer, peer_python

SIZE, HORIZON = 4, 64
PASSES = ("first", "second")
CONVERSATIONS = "conversations"
"""The batch that a file holds (demonstrations.py); the others are random ids."""
report.keep_calm()

GROUPS = 8


@dataclass(frozen=True)
class Case:
    """An algorithm of ours, and TRL's options for the same formulas."""

    title: str
    algorithm: dict[str, Any]
    config: dict[str, Any]
    trainer: str = "GRPOTrainer"
    batch: str = "tools"
    dtype: str = "float64"
    markers: str = "actions"
    """SFTTrainer: what its template marks for the loss, the `actions` alone, or what `TRL` itself marks."""
    comparable: tuple[str, ...] = field(default=PASSES, compare=False)
    """The passes whose formulas are the same."""


SFT = {"name": "sft", "aggregation": "token_mean"}
CASES = (
    Case("GRPO", {"name": "grpo", "eps": 1e-4}, {"loss_type": "grpo"}),
    Case(
        "GRPO with KL",
        {"name": "grpo", "eps": 1e-4, "kl_coef": 0.1, "kl_correction": True},
        {"loss_type": "grpo", "beta": 0.1, "use_bias_correction_kl": True},
    ),
    Case(
        "Dr. GRPO",
        {"name": "dr_grpo", "horizon": HORIZON},
        {"loss_type": "dr_grpo", "scale_rewards": "none", "max_completion_length": HORIZON},
    ),
    Case(
        "DAPO",
        {"name": "dapo", "eps": 1e-4, "filter": "none"},
        {"loss_type": "dapo", "epsilon": 0.2, "epsilon_high": 0.28},
    ),
    Case(
        "GSPO",
        {"name": "gspo", "eps": 1e-4},
        {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 3e-4, "epsilon_high": 4e-4},
    ),
    Case(
        "CISPO",
        {"name": "cispo", "eps": 1e-4, "clip_high": 0.28},
        {"loss_type": "cispo", "epsilon_high": 1.28},
    ),
    Case("RLOO", {"name": "rloo"}, {}, "RLOOTrainer", "plain", comparable=("first",)),
    Case(
        "RLOO (GRPOTrainer)",
        {"name": "rloo"},
        {"loss_type": "luspo", "scale_rewards": "none", "reward_weights": [SIZE / (SIZE - 1)]},
    ),
    Case("SFT", SFT, {}, "SFTTrainer", CONVERSATIONS),
    Case("SFT, TRL's markers", SFT, {}, "SFTTrainer", CONVERSATIONS, markers="TRL", comparable=()),
)


def arguments() -> argparse.Namespace:
    """The command line."""
    options = report.parser(__doc__, "gradients")
    add_peer(options)
    options.add_argument("--limit", type=float, default=1e-5, help="largest difference that passes")
    options.add_argument("--seed", type=int, default=0, help="of weights and batch")
    return options.parse_args()


def weights(first: Path, seed: int) -> tuple[Path, Path]:
    """Folders beside that of a model, changed at random: the rollout's weights, and those that an update has moved."""
    import torch

    from agent_r1_core.models import load_model

    generator = torch.Generator().manual_seed(seed)
    model, folders = load_model(first, torch.float32, "cpu"), (Path(f"{first}-old"), Path(f"{first}-new"))
    for target, scale in zip(folders, (0.1, 0.02), strict=True):
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(scale * torch.randn(weight.shape, generator=generator))
        model.save_pretrained(target)
        for file in (*first.glob("tokenizer*"), *first.glob("*.jinja")):
            (target / file.name).write_bytes(file.read_bytes())
    return folders


def batch(seed: int, tools: bool) -> list[Any]:
    """Groups of random trajectories; without tools an episode is one action."""
    from agent_r1_core import Group
    from agent_r1_core.testing import make_task, make_trajectory

    rng = random.Random(f"gradients/{seed}/{tools}")

    def ids(low: int, high: int) -> list[int]:
        return [rng.randrange(256) for _ in range(rng.randint(low, high))]

    groups = []
    for number in range(GROUPS):
        task, prompt, own = make_task(str(number)), ids(3, 12), []
        for sample in range(SIZE):
            turns = [(prompt, ids(1, 12))]
            turns += [(ids(1, 10), ids(1, 12)) for _ in range(rng.randint(0, 3) if tools else 0)]
            closing = ids(1, 6) if tools and rng.random() < 0.3 else []
            reward = 0.5 if number == 2 else rng.randrange(9) / 8
            own.append(make_trajectory(turns, task=task, sample=sample, reward=reward, closing=closing))
        groups.append(Group(task, own))
    return groups


def for_trl(groups: list[Any]) -> list[list[dict[str, Any]]]:
    """The same as plain lists: prompt, completion, action mask, reward."""
    rows: list[list[dict[str, Any]]] = []
    for group in groups:
        rows.append([])
        for trajectory in group.trajectories:
            segment = trajectory.segments[0]
            begin = trajectory.turns[0].start
            row = {"prompt": segment.ids[:begin], "completion": segment.ids[begin:], "reward": trajectory.reward}
            rows[-1].append(row | {"mask": [int(bit) for bit in segment.mask[begin:]]})
    return rows


def ours(case: Case, groups: list[Any], old: Path, new: Path) -> dict[str, Any]:
    """Gradients by pass and weight: two epochs of the learner, whose optimiser puts the new weights in place."""
    import torch

    from agent_r1_core.contracts.training import TrainingConfig
    from agent_r1_core.learning.learner import Learner
    from agent_r1_core.learning.policy import Policy
    from agent_r1_core.learning.selection import Selection
    from agent_r1_core.plugins import Registry

    policy, reference = Policy.load(old), Policy.load(old).freeze()
    algorithm = Registry.discover().create("algorithm", case.algorithm, "algorithm")
    learner = Learner(policy, algorithm, TrainingConfig(epochs=2, old_logprobs="learner"), reference=reference)
    found: dict[str, Any] = {}

    def step(*_: Any) -> None:
        name = PASSES[len(found) > 0]
        gradients = {n: w.grad for n, w in policy.model.named_parameters()}
        found.update({f"{name}/{n}": gradient.clone() for n, gradient in gradients.items() if gradient is not None})
        learner.optimiser.clear()
        with torch.no_grad():
            for weight, moved in zip(policy.parameters(), Policy.load(new).parameters(), strict=True):
                weight.copy_(moved)

    learner.optimiser.step = step  # type: ignore[method-assign, assignment]
    learner.update(Selection(learner.algorithm, learner.settings).filter(groups), 1)
    return found


def distance(of: dict[str, Any], to: dict[str, Any], which: str) -> float:
    """||of - to|| / ||to|| over the weights' gradients in one pass."""
    import torch

    if of.keys() != to.keys():
        raise SystemExit(f"the two sides do not have the same weights: {sorted(of.keys() ^ to.keys())[:4]}")
    names = [name for name in to if name.startswith(f"{which}/")]
    apart = torch.stack([(of[name].double() - to[name].double()).norm() for name in names]).norm()
    return float(apart / torch.stack([to[name].double().norm() for name in names]).norm())


def theirs(peer: Path, home: Path, job: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """TRL's gradients of every case, and what it says: the share that was clipped, the tokens of conversations."""
    from safetensors.torch import load_file

    (home / "job.json").write_text(json.dumps(job, default=str), encoding="utf-8")
    said = at_peer(peer, "peer_gradients.py", home / "job.json", home)
    return [load_file(home / f"{number}.safetensors") for number in range(len(job["cases"]))], said["cases"]


def compare(peer: Path, home: Path, cases: list[Case], seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows about gradients, and those about the tokens of conversations."""
    from workload import make_folder

    file = home / "conversations.jsonl"
    write_conversations(file, seed)
    at_peer(peer, "peer_model.py", home / "taught", "--steps", 0)
    random_ids, chat = weights(make_folder(home / "random", "tiny"), seed), weights(home / "taught", seed)
    shown, tokenizer = played(file, chat[0])
    batches = {"tools": batch(seed, True), "plain": batch(seed, False), CONVERSATIONS: shown}
    folders = {name: chat if name == CONVERSATIONS else random_ids for name in batches}
    job: dict[str, Any] = {"cases": [asdict(c) for c in (*cases, *(replace(c, dtype="float32") for c in cases))]}
    job["batches"] = {name: for_trl(groups) for name, groups in batches.items() if name != CONVERSATIONS}
    exact, said = theirs(peer, home, job | {"folders": folders, "conversations": file})
    rows, tokens = [], []
    for number, case in enumerate(cases):
        own = ours(case, copy.deepcopy(batches[case.batch]), *folders[case.batch])
        if case.batch == CONVERSATIONS:
            tokens.append({"algorithm": case.title} | compare_tokens(shown, said[number]["tokens"], tokenizer))
        for which in PASSES:
            rows.append(
                {
                    "algorithm": case.title,
                    "TRL": case.trainer,
                    "pass": which,
                    "clipped": said[number]["clipped"] if which == "second" else 0.0,
                    "difference": distance(own, exact[number], which),
                    "TRL, float32": distance(exact[len(cases) + number], exact[number], which),
                    "comparable": which in case.comparable,
                }
            )
    return rows, tokens


def main() -> None:
    options = arguments()
    peer = peer_python(options)
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as home:
        rows, tokens = compare(peer, Path(home), [CASES[0], *CASES[-2:]] if options.quick else [*CASES], options.seed)
    report.show("||ours - TRL's|| / ||TRL's||", rows)
    report.show("Tokens of the same conversations", tokens)
    worst = max(row["difference"] for row in rows if row["comparable"])
    print(f"\nlargest comparable difference: {worst:.1e}")
    report.save(options.out, options, {"gradients": rows, "tokens": tokens, "largest": worst})
    if worst > options.limit:
        sys.exit(1)


if __name__ == "__main__":
    main()
