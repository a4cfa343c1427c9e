"""TRL's side of gradients.py: the gradients of its GRPOTrainer on a given batch; runs in TRL's environment.

    python peer_gradients.py JOB.json OUT

The trainer really trains: two passes over one rollout at a learning rate of 0. The batch takes the place of what the
model would sample; TRL itself computes old log-probs, advantages and losses. Between the passes the weights become
those of the second folder. Each configuration leaves the gradients of both passes in OUT/<number>-<dtype>.safetensors.
The last line is JSON: what TRL says about clipping in the second pass.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import torch
from datasets import Dataset
from peer_trl import QUIET
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

PASSES = ("first", "second")


class Watch(TrainerCallback):
    """Keeps the gradient of each step, and puts the new weights in place after the first."""

    def __init__(self, new: Path) -> None:
        self.new = new
        self.gradients: dict[str, torch.Tensor] = {}
        self.passes = 0

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        for name, weight in model.named_parameters():
            self.gradients[f"{PASSES[self.passes]}/{name}"] = weight.grad.detach().clone()
        self.passes += 1

    def on_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        if self.passes == 1:
            missing, unexpected = model.load_state_dict(load_file(self.new / "model.safetensors"), strict=False)
            assert not unexpected
            assert set(missing) <= {"lm_head.weight"}, "a tied head is the only weight that a folder may lack"


def train(config: dict[str, Any], groups: list[list[dict[str, Any]]], old: Path, new: Path, dtype: str) -> Any:
    """The gradients of both passes, and the share of clipped tokens (or sequences) in the second."""

    def samples(prompts: Sequence[str]) -> Iterator[dict[str, Any]]:
        """The next sample of the group whose number a prompt is."""
        left = {str(number): iter(group) for number, group in enumerate(groups)}
        return (next(left[prompt]) for prompt in prompts)

    def rollout(prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
        """What `rollout_func` returns; TRL's `env_mask` is the action mask."""
        chosen = list(samples(prompts))
        found = {"prompt_ids": "prompt", "completion_ids": "completion", "env_mask": "mask"}
        logprobs = [[0.0] * len(sample["completion"]) for sample in chosen]
        return {name: [sample[own] for sample in chosen] for name, own in found.items()} | {"logprobs": logprobs}

    def reward(prompts: Sequence[str], completions: Any, **kwargs: Any) -> list[float]:
        return [sample["reward"] for sample in samples(prompts)]

    watch = Watch(new)
    settings = QUIET | {
        "output_dir": tempfile.mkdtemp(),
        "use_cpu": True,
        "bf16": False,
        "max_steps": 2,
        "per_device_train_batch_size": sum(map(len, groups)),
        "shuffle_dataset": False,
        "learning_rate": 0.0,
        "max_grad_norm": 0.0,
        "num_iterations": 2,
        "num_generations": len(groups[0]),
        "beta": 0.0,
    }
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(old, dtype=getattr(torch, dtype)),
        processing_class=PreTrainedTokenizerFast.from_pretrained(old, padding_side="left"),
        callbacks=[watch],
        args=GRPOConfig(**(settings | config)),
        train_dataset=Dataset.from_list([{"prompt": str(number)} for number in range(len(groups))]),
        reward_funcs=reward,
        rollout_func=rollout,
    )
    trainer.train()
    if watch.passes != 2:
        raise SystemExit(f"TRL took {watch.passes} optimiser steps instead of 2")
    names = ("clip_ratio/region_mean", "cispo_clip_ratio")
    clipped = [line[name] for line in trainer.state.log_history for name in names if name in line]
    return watch.gradients, clipped[1]


def main() -> None:
    job, out = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2])
    torch.set_num_threads(1)
    old, new = map(Path, job["folders"])
    clipped: dict[str, list[float]] = {"float64": [], "float32": []}
    for dtype, shares in clipped.items():
        for number, config in enumerate(job["configs"]):
            gradients, share = train(config, job["groups"], old, new, dtype)
            save_file(gradients, out / f"{number}-{dtype}.safetensors")
            shares.append(share)
    print(json.dumps({"clipped": clipped["float64"]}))


if __name__ == "__main__":
    main()
