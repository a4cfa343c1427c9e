"""TRL's side of gradients.py: the gradients of TRL's trainers on a given batch; runs in TRL's environment.

    python peer_gradients.py JOB.json OUT

The trainers are TRL's own and really train: two passes over one rollout at a learning rate of 0. The batch takes the
place of what the model would sample; TRL itself computes old log-probs, advantages and losses. Between the passes the
weights become those of the folder `new`. Each case is a file OUT/<number>.safetensors with the gradients of `first` and
`second` pass. The last line is JSON: what TRL says about clipping, and the tokens that SFTTrainer made of the
conversations, which it reads itself with `assistant_only_loss`.
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
from peer_trl import QUIET, multiply
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from transformers.utils import get_json_schema
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer, SFTConfig, SFTTrainer
from trl.chat_template_utils import get_training_chat_template

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


def settings(rows: int) -> dict[str, Any]:
    """What all configurations share: a step is the whole batch, unclipped gradients, weights that stay."""
    return QUIET | {
        "output_dir": tempfile.mkdtemp(),
        "use_cpu": True,
        "bf16": False,
        "max_steps": 2,
        "per_device_train_batch_size": rows,
        "shuffle_dataset": False,
        "learning_rate": 0.0,
        "max_grad_norm": 0.0,
    }


def policy_trainer(case: dict[str, Any], batch: Batch, common: dict[str, Any]) -> Any:
    """GRPOTrainer or RLOOTrainer, whose samples are the batch's."""
    own = settings(sum(map(len, batch.groups)))
    own |= {"num_iterations": 2, "num_generations": len(batch.groups[0]), "beta": 0.0} | case["config"]
    prompts = Dataset.from_list([{"prompt": str(number)} for number in range(len(batch.groups))])
    common |= {"reward_funcs": batch.reward, "train_dataset": prompts}
    if case["trainer"] == "RLOOTrainer":

        class Played(RLOOTrainer):
            """RLOOTrainer has no `rollout_func`."""

            def _generate(self, prompts: Any) -> tuple[Any, Any, Any]:
                samples = batch.samples(prompts)
                texts = ["" for _ in samples]
                return [s["prompt"] for s in samples], [s["completion"] for s in samples], texts

        return Played(args=RLOOConfig(**own), **common)
    return GRPOTrainer(args=GRPOConfig(**own), rollout_func=batch.rollout, **common)


def sft_trainer(case: dict[str, Any], file: Path, common: dict[str, Any]) -> Any:
    """SFTTrainer on the file's conversations, in one batch."""
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    tools = json.dumps([get_json_schema(multiply)])
    rows = Dataset.from_list([{"messages": line["messages"], "tools": tools} for line in lines])
    if case["markers"] == "actions":
        tokenizer = common["processing_class"]
        tokenizer.chat_template = around_actions(get_training_chat_template(tokenizer))
    own = settings(len(lines)) | {"assistant_only_loss": True, "max_length": None} | case["config"]
    return SFTTrainer(args=SFTConfig(**own), train_dataset=rows, **common)


def around_actions(template: str) -> str:
    """TRL's training template without the newlines before and after an action between its markers; the same text."""
    for marker, instead in (
        ("{%- generation %}", "{%- set said %}"),
        (
            "{%- endgeneration %}",
            "{%- endset %}{{- said[:1] }}{%- generation %}{{- said[1:-1] }}{%- endgeneration %}{{- said[-1:] }}",
        ),
    ):
        assert template.count(marker) == 1, "the template has one place where an assistant speaks"
        template = template.replace(marker, instead)
    return template


def train(case: dict[str, Any], job: dict[str, Any]) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The gradients of both passes; the share of clipped tokens (or sequences) in the second; SFTTrainer's tokens."""
    old, new = map(Path, job["folders"][case["batch"]])
    watch = Watch(new)
    common = {
        "model": AutoModelForCausalLM.from_pretrained(old, dtype=getattr(torch, case["dtype"])),
        "processing_class": PreTrainedTokenizerFast.from_pretrained(old, padding_side="left"),
        "callbacks": [watch],
    }
    if case["trainer"] == "SFTTrainer":
        trainer = sft_trainer(case, Path(job["conversations"]), common)
    else:
        trainer = policy_trainer(case, Batch(job["batches"][case["batch"]]), common)
    trainer.train()
    if watch.passes != 2:
        raise SystemExit(f"TRL took {watch.passes} optimiser steps instead of 2")
    if case["trainer"] == "SFTTrainer":
        tokens = [{"ids": r["input_ids"], "mask": [int(k != -100) for k in r["labels"]]} for r in trainer.train_dataset]
        return watch.gradients, {"clipped": 0.0, "tokens": tokens}
    names = ("clip_ratio/region_mean", "cispo_clip_ratio")
    clipped = [line[name] for line in trainer.state.log_history for name in names if name in line]
    return watch.gradients, {"clipped": clipped[1]}


def main() -> None:
    job, out = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2])
    torch.set_num_threads(1)
    said = []
    for number, case in enumerate(job["cases"]):
        gradients, more = train(case, job)
        save_file(gradients, out / f"{number}.safetensors")
        said.append(more)
    print(json.dumps({"cases": said}))


if __name__ == "__main__":
    main()
