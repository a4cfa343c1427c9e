"""Is our gradient TRL's, on the same batch with the same weights?

    python benchmarks/gradients.py --venv .trl-venv         # makes the environment, with pinned packages, if missing

One batch of random ids: 8 groups of 4, one without spread; ragged prompts, turns and lengths; tool answers between the
actions and at the end, masked on both sides. Two passes over it: `first`, with the weights of the rollout, and
`second`, with other weights, so that ratios differ from 1 and clips act (`clipped`: their share, as TRL counts it).
Both sides compute old log-probs, advantages, losses and gradients themselves, TRL with a GRPOTrainer that really trains
(peer_trl.py), in float64 but for rewards and advantages, which TRL keeps in float32; we compute in float32.
Constants are TRL's where it has no option: 1e-4 beside the standard deviation. `filter: none`, since TRL's DAPO keeps
groups without spread. RLOO is TRL's `luspo` sum of tokens with rewards times n / (n - 1), which makes the group's mean
a leave-one-out.

`difference` is ||ours - TRL's|| / ||TRL's|| over all weights; `TRL, float32` the same for TRL in float32 against itself
in float64, which is what rounding alone may make. The script fails if a difference is above 1e-5.
"""

from __future__ import annotations

import copy
import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import report
from vs_trl import at_peer, peer_python

report.keep_calm()

GROUPS, SIZE, HORIZON = 8, 4, 64
PASSES = ("first", "second")
EPS = {"eps": 1e-4}
OURS: dict[str, dict[str, Any]] = {
    "GRPO": {"name": "grpo", **EPS},
    "GRPO with KL": {"name": "grpo", **EPS, "kl_coef": 0.1, "kl_correction": True},
    "Dr. GRPO": {"name": "dr_grpo", "horizon": HORIZON},
    "DAPO": {"name": "dapo", **EPS, "filter": "none"},
    "GSPO": {"name": "gspo", **EPS},
    "CISPO": {"name": "cispo", **EPS, "clip_high": 0.28},
    "RLOO": {"name": "rloo"},
}
SEQUENCE = {"importance_sampling_level": "sequence", "epsilon": 3e-4, "epsilon_high": 4e-4}
TRLS: dict[str, dict[str, Any]] = {
    "GRPO": {"loss_type": "grpo"},
    "GRPO with KL": {"loss_type": "grpo", "beta": 0.1, "use_bias_correction_kl": True},
    "Dr. GRPO": {"loss_type": "dr_grpo", "scale_rewards": "none", "max_completion_length": HORIZON},
    "DAPO": {"loss_type": "dapo", "epsilon": 0.2, "epsilon_high": 0.28},
    "GSPO": {"loss_type": "grpo", **SEQUENCE},
    "CISPO": {"loss_type": "cispo", "epsilon_high": 1.28},
    "RLOO": {"loss_type": "luspo", "scale_rewards": "none", "reward_weights": [SIZE / (SIZE - 1)]},
}
"""TRL's options for the same formulas."""


def weights(first: Path) -> tuple[Path, Path]:
    """Folders beside that of a model, changed at random: the rollout's weights, and those that an update has moved."""
    import torch

    from agent_r1_core.models import load_model

    generator = torch.Generator().manual_seed(0)
    model, folders = load_model(first, torch.float32, "cpu"), (Path(f"{first}-old"), Path(f"{first}-new"))
    for target, scale in zip(folders, (0.1, 0.02), strict=True):
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(scale * torch.randn(weight.shape, generator=generator))
        model.save_pretrained(target)
        for file in first.glob("tokenizer*"):
            (target / file.name).write_bytes(file.read_bytes())
    return folders


def batch() -> list[Any]:
    from agent_r1_core import Group
    from agent_r1_core.testing import make_task, make_trajectory

    rng = random.Random("gradients/0/True")  # as when the table of the README was measured

    def ids(low: int, high: int) -> list[int]:
        return [rng.randrange(256) for _ in range(rng.randint(low, high))]

    groups = []
    for number in range(GROUPS):
        task, prompt, own = make_task(str(number)), ids(3, 12), []
        for sample in range(SIZE):
            turns = [(prompt, ids(1, 12)), *((ids(1, 10), ids(1, 12)) for _ in range(rng.randint(0, 3)))]
            closing = ids(1, 6) if rng.random() < 0.3 else []
            reward = 0.5 if number == 2 else rng.randrange(9) / 8
            own.append(make_trajectory(turns, task=task, sample=sample, reward=reward, closing=closing))
        groups.append(Group(task, own))
    return groups


def for_trl(one: Any) -> dict[str, Any]:
    """A trajectory as plain lists: prompt, completion, action mask, reward."""
    segment, begin = one.segments[0], one.turns[0].start
    mask = [int(bit) for bit in segment.mask[begin:]]
    return {"prompt": segment.ids[:begin], "completion": segment.ids[begin:], "mask": mask, "reward": one.reward}


def ours(algorithm: dict[str, Any], groups: list[Any], old: Path, new: Path) -> dict[str, Any]:
    """Gradients by pass and weight: two epochs of the learner, whose optimiser puts the new weights in place."""
    import torch

    from agent_r1_core.contracts.training import TrainingConfig
    from agent_r1_core.learning.learner import Learner
    from agent_r1_core.learning.policy import Policy
    from agent_r1_core.learning.selection import Selection
    from agent_r1_core.plugins import Registry

    policy, reference = Policy.load(old), Policy.load(old).freeze()
    made = Registry.discover().create("algorithm", algorithm)
    learner = Learner(policy, made, TrainingConfig(epochs=2, old_logprobs="learner"), reference=reference)
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


def compare(peer: Path, home: Path, titles: list[str]) -> list[dict[str, Any]]:
    from safetensors.torch import load_file
    from workload import make_folder

    groups, folders = batch(), weights(make_folder(home / "random", "tiny"))
    plain = [[for_trl(one) for one in group.trajectories] for group in groups]
    job = {"configs": [TRLS[title] for title in titles], "groups": plain, "folders": folders}
    (home / "job.json").write_text(json.dumps(job, default=str), encoding="utf-8")
    clipped = at_peer(peer, "peer_trl.py", "gradients", home / "job.json", home)["clipped"]
    rows = []
    for number, title in enumerate(titles):
        own = ours(OURS[title], copy.deepcopy(groups), *folders)
        exact, rounded = (load_file(home / f"{number}-{dtype}.safetensors") for dtype in ("float64", "float32"))
        for which in PASSES:
            row = {"algorithm": title, "pass": which, "clipped": clipped[number] if which == "second" else 0.0}
            apart = {"difference": distance(own, exact, which), "TRL, float32": distance(rounded, exact, which)}
            rows.append(row | apart)
    return rows


def main() -> None:
    parser = report.parser(__doc__, "gradients")
    parser.add_argument("--venv", type=Path, required=True, help="folder of TRL's environment, made if missing")
    options = parser.parse_args()
    peer = peer_python(options.venv)
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as home:
        rows = compare(peer, Path(home), ["GRPO"] if options.quick else list(OURS))
    report.show("||ours - TRL's|| / ||TRL's||", rows)
    worst = max(row["difference"] for row in rows)
    print(f"\nlargest difference: {worst:.1e}")
    report.save(options.out, options, {"gradients": rows, "largest": worst})
    if worst > 1e-5:
        sys.exit(1)


if __name__ == "__main__":
    main()
