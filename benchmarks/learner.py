"""What does each saving of the learner bring, in time and peak memory of an update?

    python benchmarks/learner.py
    python benchmarks/learner.py --only memory --limit 12

Three tables. `savings`: a rollout of 8 groups of 8 with a prompt of 200 tokens, half of the groups without spread; one
option at a time is switched. `memory`: a model whose vocabulary has 152k ids, a quarter of all tokens actions, no
prefix in common; the learner against a version that computes all logits. Memory is the peak over the loaded model, by
the end of the second update, gradients and Adam's moments included; the last columns leave the moments out, which are
the same on both sides. `fits` says whether it runs in --limit GiB of data. Every row is a fresh process.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import report

report.keep_calm()

GIB = 2.0**30
SAVINGS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "share_prefixes=false": {"share_prefixes": False},
    "skip_without_gradient=false": {"skip_without_gradient": False},
    "both false": {"share_prefixes": False, "skip_without_gradient": False},
    "bfloat16": {"dtype": "bfloat16"},
    "gradient_checkpointing=true": {"gradient_checkpointing": True},
    "max_tokens_per_microbatch=1024": {"max_tokens_per_microbatch": 1024},
    "max_tokens_per_microbatch=16384": {"max_tokens_per_microbatch": 16384},
    "minibatches=4, old_logprobs=engine": {"minibatches": 4, "old_logprobs": "engine"},
    "minibatches=4, old_logprobs=learner": {"minibatches": 4, "old_logprobs": "learner"},
}
OPTIONS = ("share_prefixes", "skip_without_gradient", "max_tokens_per_microbatch", "minibatches", "old_logprobs")


def arguments() -> argparse.Namespace:
    """The command line."""
    options = report.parser(__doc__, "learner")
    options.add_argument("--only", choices=["savings", "memory"])
    options.add_argument("--repeats", type=int, default=2, help="updates per process after the first")
    options.add_argument("--limit", type=float, default=15.0, help="memory limit of a process in GiB")
    options.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    options.add_argument("--case", help=argparse.SUPPRESS)
    return options.parse_args()


def rollout(groups: int, size: int, tokens: int, prompt: int, vocabulary: int, flat: bool) -> list[Any]:
    """Random groups: a prompt, then observations and actions in turn, a quarter of all tokens actions.

    Args:
        prompt: tokens that the trajectories of a group have in common.
        flat: every second group has no spread.
    """
    from agent_r1_core import Group
    from agent_r1_core.testing import make_task, make_trajectory

    rng = random.Random(0)

    def some(count: int) -> list[int]:
        return [rng.randrange(vocabulary) for _ in range(count)]

    made, turns = [], 4
    action = tokens // 4 // turns
    seen = (tokens - prompt) // turns - action
    for number in range(groups):
        task, begins = make_task(f"task-{number}"), some(prompt)
        own = []
        for sample in range(size):
            pairs = [((begins if turn == 0 else []) + some(max(1, seen)), some(action)) for turn in range(turns)]
            reward = 0.0 if flat and number % 2 else float(sample % 2)
            own.append(make_trajectory(pairs, task=task, sample=sample, reward=reward))
        made.append(Group(task, own))
    return made


def run_case(case: dict[str, Any]) -> dict[str, Any]:
    """Measure in this process."""
    if case["limit"] and case["device"] == "cpu":
        bytes_ = int(case["limit"] * GIB)
        resource.setrlimit(resource.RLIMIT_DATA, (bytes_, bytes_))
    import torch

    torch.set_num_threads(1)
    try:
        return _measure(case) | {"fits": True}
    except (RuntimeError, MemoryError) as error:
        if "memory" not in str(error).lower():
            raise
        return {"fits": False, "seconds": None, "bytes": None}


def _measure(case: dict[str, Any]) -> dict[str, Any]:
    from memory import peak

    from agent_r1_core.learning.policy import Policy

    groups = rollout(**case["rollout"])
    policy = Policy.load(
        case["folder"],
        dtype=case.get("dtype", "float32"),
        device=case["device"],
        gradient_checkpointing=case.get("gradient_checkpointing", False),
    )
    update = _full_logits(policy, groups) if case.get("full") else _learner(policy, groups, case)
    seconds = []
    with peak(case["device"]) as found:
        for _ in range(case["repeats"] + 1):
            begun = time.perf_counter()
            update()
            seconds.append(time.perf_counter() - begun)
    weights = sum(parameter.numel() * 4 for parameter in policy.parameters())
    return {"seconds": statistics.median(seconds[1:] or seconds), "bytes": found.bytes, "weights": weights}


def _learner(policy: Any, groups: list[Any], case: dict[str, Any]) -> Any:
    from agent_r1_core.contracts.training import TrainingConfig
    from agent_r1_core.learning.learner import Learner
    from agent_r1_core.plugins import Registry

    algorithm = Registry.discover().create("algorithm", {"name": "grpo", "aggregation": "token_mean"}, "algorithm")
    own = {name: case[name] for name in OPTIONS if name in case}
    learner = Learner(policy, algorithm, TrainingConfig(lr=1e-6, **own))
    return lambda: learner.update(groups, 1)


def _full_logits(policy: Any, groups: list[Any]) -> Any:
    """The same update without any saving: padded, logits of all tokens, one log-softmax over them."""
    import torch

    from agent_r1_core.learning.batch import Batch

    batch = Batch.from_groups(groups)
    optimiser = torch.optim.AdamW(policy.parameters(), lr=1e-6, fused=True)
    device = policy.device
    ids, valid, mask = batch.ids.to(device), batch.valid.to(device), batch.action_mask.to(device)[:, 1:]
    advantages = (batch.returns - batch.returns.mean()).to(device)[:, None]

    def update() -> None:
        logits = policy.model(input_ids=ids, attention_mask=valid.long(), use_cache=False).logits.float()
        chosen = torch.log_softmax(logits[:, :-1], -1).gather(2, ids[:, 1:, None])[:, :, 0]
        ratio = (chosen - chosen.detach()).exp()
        (-(ratio * advantages)[mask].mean()).backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return update


def ask(case: dict[str, Any]) -> dict[str, Any]:
    """Measure in a fresh process."""
    return report.fresh([sys.executable, __file__, "--case", json.dumps(case)])


def savings(options: argparse.Namespace, home: Path) -> list[dict[str, Any]]:
    """Each option on its own."""
    from workload import make_folder

    folder = make_folder(home / "small", "tiny" if options.quick else "small")
    form = {"groups": 8, "size": 8, "tokens": 320, "prompt": 200, "vocabulary": 256, "flat": True}
    chosen = dict(list(SAVINGS.items())[:2]) if options.quick else SAVINGS
    if options.quick:
        form |= {"groups": 2, "tokens": 64, "prompt": 24}
    rows: list[dict[str, Any]] = []
    for name, own in chosen.items():
        found = ask(_case(options, folder, form) | own)
        rows.append({"options": name, "s/update": found["seconds"], "peak MiB": found["bytes"] / 2**20})
        rows[-1] |= {
            "time": found["seconds"] / rows[0]["s/update"],
            "memory": rows[-1]["peak MiB"] / rows[0]["peak MiB"],
        }
    return rows


def memory(options: argparse.Namespace, home: Path) -> list[dict[str, Any]]:
    """Compared with computing all logits."""
    from workload import make_folder

    folder = make_folder(home / "wide", "tiny" if options.quick else "wide-vocabulary")
    vocabulary, rows = 256 if options.quick else 151936, list[dict[str, Any]]()
    for size in (4,) if options.quick else (4, 16):
        form = {"groups": 1, "size": size, "tokens": 512, "prompt": 0, "vocabulary": vocabulary, "flat": False}
        both = {}
        for name, own in {"all logits": {"full": True}, "learner": {}}.items():
            found = both[name] = ask(_case(options, folder, form) | {"repeats": 1, "limit": options.limit} | own)
            row = {"tokens": f"{size} x 512", "version": name, "fits": found["fits"], "s/update": found["seconds"]}
            moments = 2 * found["weights"] if found["fits"] else 0
            row["GiB over the model"] = found["bytes"] / GIB if found["fits"] else None
            row["without moments GiB"] = (found["bytes"] - moments) / GIB if found["fits"] else None
            rows.append(row)
        if both["all logits"]["fits"]:
            for column in ("GiB over the model", "without moments GiB"):
                rows[-1][f"all / learner, {column}"] = rows[-2][column] / rows[-1][column]
                rows[0].setdefault(f"all / learner, {column}", None)
    return rows


def _case(options: argparse.Namespace, folder: Path, form: dict[str, Any]) -> dict[str, Any]:
    repeats = 1 if options.quick else options.repeats
    return {"folder": str(folder), "rollout": form, "repeats": repeats, "limit": None, "device": options.device}


def main() -> None:
    options = arguments()
    if options.case:
        print(json.dumps(run_case(json.loads(options.case))))
        return
    tables: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as home:
        for name, table in (("savings", savings), ("memory", memory)):
            if options.only in (None, name):
                tables[name] = table(options, Path(home))
                report.show(f"Learner: {name}", tables[name])
    report.save(options.out, options, tables)


if __name__ == "__main__":
    main()
