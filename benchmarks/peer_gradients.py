"""TRL's side of gradients.py: the gradients of GRPOTrainer and RLOOTrainer on a given batch; runs in TRL's environment.

    python peer_gradients.py JOB.json OUT

The trainers are TRL's own and really train: two passes over one rollout at a learning rate of 0. The batch takes the
place of what the model would sample; TRL itself computes old log-probs, advantages and losses. Between the passes the
weights become those of the folder `new`. Each case is a file OUT/<number>.safetensors with the gradients of `first` and
`second` pass. The last line is JSON: what TRL says about clipping.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import torch
from datasets import Dataset
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

PASSES = ("first", "second")


class Batch:
    """The samples of every group; a prompt's text is the number of its group."""

    def __init__(self, groups: Sequence[Sequence[dict[str, Any]]]) -> None:
        self.groups = groups

    def samples(self, prompts: Sequence[str]) -> list[dict[str, Any]]:
        """The sample in the place of each prompt: the first, second, ... time that a group is asked for."""
        asked: Counter[str] = Counter()
        chosen = []
        for prompt in prompts:
            chosen.append(self.groups[int(prompt)][asked[prompt]])
            asked[prompt] += 1
        return chosen

    def rollout(self, prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
        """What GRPOTrainer's `rollout_func` returns; TRL's `env_mask` is the action mask."""
        samples = self.samples(prompts)
        return {
            "prompt_ids": [sample["prompt"] for sample in samples],
            "completion_ids": [sample["completion"] for sample in samples],
            "env_mask": [sample["mask"] for sample in samples],
            "logprobs": [[0.0] * len(sample["completion"]) for sample in samples],
        }

    def reward(self, prompts: Sequence[str], completions: Any, **kwargs: Any) -> list[float]:
        """The samples' rewards."""
        return [sample["reward"] for sample in self.samples(prompts)]


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


def settings(batch: Batch, own: dict[str, Any]) -> dict[str, Any]:
    """What both configurations share: a step is the whole batch, unclipped gradients, weights that stay."""
    return {
        "output_dir": tempfile.mkdtemp(),
        "use_cpu": True,
        "bf16": False,
        "max_steps": 2,
        "num_iterations": 2,
        "per_device_train_batch_size": sum(map(len, batch.groups)),
        "num_generations": len(batch.groups[0]),
        "shuffle_dataset": False,
        "learning_rate": 0.0,
        "max_grad_norm": 0.0,
        "gradient_checkpointing": False,
        "beta": 0.0,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
    } | own


def train(case: dict[str, Any], job: dict[str, Any]) -> tuple[dict[str, torch.Tensor], float]:
    """The gradients of both passes, and the share of clipped tokens (or sequences) in the second."""
    batch, old = Batch(job["batches"][case["batch"]]), Path(job["old"])
    model = AutoModelForCausalLM.from_pretrained(old, dtype=getattr(torch, case["dtype"]))
    watch = Watch(Path(job["new"]))
    common = {
        "model": model,
        "reward_funcs": batch.reward,
        "train_dataset": Dataset.from_list([{"prompt": str(number)} for number in range(len(batch.groups))]),
        "processing_class": PreTrainedTokenizerFast.from_pretrained(old, padding_side="left"),
        "callbacks": [watch],
    }
    own = settings(batch, case["config"])
    if case["trainer"] == "RLOOTrainer":

        class Played(RLOOTrainer):
            """RLOOTrainer has no `rollout_func`."""

            def _generate(self, prompts: Any) -> tuple[Any, Any, Any]:
                samples = batch.samples(prompts)
                texts = ["" for _ in samples]
                return [s["prompt"] for s in samples], [s["completion"] for s in samples], texts

        trainer: Any = Played(args=RLOOConfig(**own), **common)
    else:
        trainer = GRPOTrainer(args=GRPOConfig(**own), rollout_func=batch.rollout, **common)
    trainer.train()
    if watch.passes != 2:
        raise SystemExit(f"TRL took {watch.passes} optimiser steps instead of 2")
    names = ("clip_ratio/region_mean", "cispo_clip_ratio")
    clipped = [line[name] for line in trainer.state.log_history for name in names if name in line]
    return watch.gradients, clipped[1]


def main() -> None:
    job, out = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2])
    torch.set_num_threads(1)
    clipped = []
    for number, case in enumerate(job["cases"]):
        gradients, share = train(case, job)
        save_file(gradients, out / f"{number}.safetensors")
        clipped.append(share)
    print(json.dumps({"clipped": clipped}))


if __name__ == "__main__":
    main()
