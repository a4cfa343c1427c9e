"""The peer's side of the comparisons: TRL's GRPOTrainer; runs in TRL's environment.

    python peer_trl.py multiply --model FOLDER --steps 8 --rollouts 64 --latency 0.05 --bf16
    python peer_trl.py continue --model FOLDER --steps 4 --rollouts 64 --prompt 512 --completion 256 --bf16
    python peer_trl.py gradients JOB.json OUT

`multiply`: "What is a * b?" with an asynchronous tool, groups of 8, at most two rounds of calls, 96 tokens of
completion. `continue`: one turn without tools after prompts of random words, for models that have learnt nothing.
A step is all that happens between on_step_begin and on_step_end: rollout, rewards, gradient, optimiser; neither
logging nor saving. The last line is JSON: seconds and processor seconds of every step, and what TRL says of rollouts.

`gradients` is TRL's side of gradients.py, on a given batch. The trainer really trains: two passes over one rollout at a
learning rate of 0. The batch takes the place of what the model would sample; TRL itself computes old log-probs,
advantages and losses. Between the passes the weights become those of the second folder. Each configuration leaves the
gradients of both passes in OUT/<number>-<dtype>.safetensors. The last line says what TRL does about clipping in the
second pass.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import wraps
from itertools import product
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

QUIET: dict[str, Any] = {
    **{"gradient_checkpointing": False, "logging_steps": 1, "save_strategy": "no", "report_to": "none"},
    **{"disable_tqdm": True, "dataloader_pin_memory": False, "beta": 0.0},
}
"""Fields of every trainer's configuration."""


def multiply(a: int, b: int) -> int:
    """
    Multiplies two integers.

    Args:
        a: The first integer.
        b: The second integer.

    Returns:
        The product of the two integers.
    """
    return a * b


def slowly(latency: float) -> Any:
    """The tool, which takes its time."""

    @wraps(multiply)
    async def waiting(a: int, b: int) -> int:
        await asyncio.sleep(latency)
        return a * b

    return waiting


def correct(completions: list[Any], answer: list[int], **kwargs: Any) -> list[float]:
    """1 if the last message is the product."""
    pairs = zip(completions, answer, strict=True)
    return [float(completion[-1]["content"].strip() == str(right)) for completion, right in pairs]


def parity(completion_ids: list[list[int]], **kwargs: Any) -> list[float]:
    """Noise of spread 1/2 in every group: whether the sum of the ids is even."""
    return [float(sum(ids) % 2) for ids in completion_ids]


def products() -> list[dict[str, Any]]:
    system = {"role": "system", "content": "Use tools."}
    asked = lambda a, b: [system, {"role": "user", "content": f"What is {a} * {b}?"}]
    return [{"prompt": asked(a, b), "answer": a * b} for a in range(1, 10) for b in range(1, 10)]


def words(tokenizer: Any, length: int, count: int = 256) -> list[dict[str, Any]]:
    """Prompts of about `length` tokens."""
    rng = random.Random(0)
    letters = [tokenizer.encode(letter, add_special_tokens=False)[0] for letter in "abcdefghijklmnopqrstuvwxyz"]
    return [{"prompt": tokenizer.decode(rng.choices(letters, k=length))} for _ in range(count)]


def arguments() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("task", choices=["multiply", "continue"])
    options.add_argument("--model", required=True)
    options.add_argument("--steps", type=int, default=8)
    options.add_argument("--rollouts", type=int, default=64, help="a multiple of 8")
    options.add_argument("--latency", type=float, default=0.0, help="seconds of a call")
    options.add_argument("--prompt", type=int, default=512, help="tokens of a prompt of `continue`")
    options.add_argument("--completion", type=int, default=96)
    options.add_argument("--bf16", action="store_true", help="bfloat16 autocast")
    options.add_argument("--micro", type=int, help="rollouts per backward pass; default: all")
    return options.parse_args()


def settings(options: argparse.Namespace, cuda: bool) -> dict[str, Any]:
    """Fields of GRPOConfig: group advantages, token mean, no KL."""
    micro = options.micro or options.rollouts
    return QUIET | {
        **{"output_dir": tempfile.mkdtemp(), "use_cpu": not cuda, "bf16": options.bf16, "use_vllm": False},
        **{"max_steps": options.steps, "num_generations": 8, "max_completion_length": options.completion},
        **{"per_device_train_batch_size": micro, "gradient_accumulation_steps": options.rollouts // micro},
        **{"learning_rate": 1e-4 if options.task == "multiply" else 1e-6, "loss_type": "dapo"},
    }


def gradients(job: dict[str, Any], out: Path) -> None:
    import torch
    from datasets import Dataset
    from safetensors.torch import load_file, save_file
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(1)
    groups, (old, new) = job["groups"], map(Path, job["folders"])

    class Watch(TrainerCallback):
        """Keeps the gradient of each step, and puts the new weights in place after the first."""

        def __init__(self) -> None:
            self.gradients: dict[str, torch.Tensor] = {}
            self.passes = 0

        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
            for name, weight in model.named_parameters():
                self.gradients[f"{('first', 'second')[self.passes]}/{name}"] = weight.grad.detach().clone()
            self.passes += 1

        def on_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
            if self.passes == 1:
                missing, unexpected = model.load_state_dict(load_file(new / "model.safetensors"), strict=False)
                assert not unexpected
                assert set(missing) <= {"lm_head.weight"}, "a tied head is the only weight that a folder may lack"

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

    settings = QUIET | {"use_cpu": True, "bf16": False, "max_steps": 2, "shuffle_dataset": False}
    settings |= {"learning_rate": 0.0, "max_grad_norm": 0.0, "num_iterations": 2, "num_generations": len(groups[0])}
    clipped: list[float] = []
    for dtype, (number, config) in product(("float64", "float32"), enumerate(job["configs"])):
        watch, own = Watch(), {"output_dir": tempfile.mkdtemp(), "per_device_train_batch_size": sum(map(len, groups))}
        trainer = GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(old, dtype=getattr(torch, dtype)),
            processing_class=PreTrainedTokenizerFast.from_pretrained(old, padding_side="left"),
            callbacks=[watch],
            args=GRPOConfig(**(settings | own | config)),
            train_dataset=Dataset.from_list([{"prompt": str(number)} for number in range(len(groups))]),
            reward_funcs=reward,
            rollout_func=rollout,
        )
        trainer.train()
        if watch.passes != 2:
            raise SystemExit(f"TRL took {watch.passes} optimiser steps instead of 2")
        names = ("clip_ratio/region_mean", "cispo_clip_ratio")
        clipped.append([line[name] for line in trainer.state.log_history for name in names if name in line][1])
        save_file(watch.gradients, out / f"{number}-{dtype}.safetensors")
    print(json.dumps({"clipped": clipped[: len(job["configs"])]}))


def main() -> None:
    if sys.argv[1:2] == ["gradients"]:
        gradients(json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")), Path(sys.argv[3]))
        return
    options = arguments()
    import torch
    from datasets import Dataset
    from transformers import PreTrainedTokenizerFast, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(1)
    cuda = torch.cuda.is_available()
    seconds: list[float] = []
    cpu: list[float] = []

    class Clock(TrainerCallback):
        begun = begun_cpu = 0.0

        def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
            self.begun, self.begun_cpu = time.perf_counter(), time.process_time()

        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            if cuda:
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - self.begun)
            cpu.append(time.process_time() - self.begun_cpu)

    tokenizer = PreTrainedTokenizerFast.from_pretrained(options.model, padding_side="left")
    own: dict[str, Any] = {"reward_funcs": parity}
    rows, more = words(tokenizer, options.prompt), dict[str, Any]()
    if options.task == "multiply":
        own = {"reward_funcs": correct, "tools": [slowly(options.latency)]}
        rows, more = products(), {"max_tool_calling_iterations": 2}
    trainer = GRPOTrainer(
        model=options.model,
        args=GRPOConfig(**(settings(options, cuda) | more)),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        callbacks=[Clock()],
        **own,
    )
    trainer.train()
    memory = torch.cuda.max_memory_allocated() if cuda else 1024 * getrusage(RUSAGE_SELF).ru_maxrss
    print(json.dumps({"seconds": seconds, "cpu": cpu, **said(trainer.state.log_history), "peak_bytes": memory}))


def said(history: list[dict[str, Any]]) -> dict[str, float | None]:
    """Means over the steps of TRL's logs."""
    names = {"reward": "reward", "without_spread": "frac_reward_zero_std"}
    names |= {"action_tokens": "completions/mean_length", "calls": "tools/call_frequency"}
    found = {own: [line[name] for line in history if name in line] for own, name in names.items()}
    return {own: statistics.fmean(values) if values else None for own, values in found.items()}


if __name__ == "__main__":
    main()
