"""Greedy episodes of the engine, turn after turn with a cache that lives across them, against `model.generate`."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedTokenizerFast, Qwen2ForCausalLM

import agent_r1_core
from agent_r1_core.evaluation.evaluator import EvaluationPlan
from agent_r1_core.training.api import evaluate, resolve
from agent_r1_core.trajectory import Trajectory

TIE = 1e-4
"""Best logits closer than this may change places."""


def played(folder: Path, episodes: int) -> list[Trajectory]:
    """Greedy episodes of the default recipe in float32, all at once."""
    keys = ["model.dtype=float32", "threads=1", f"tasks.eval.size={episodes}", f"run.dir={folder}"]
    found, _ = evaluate(EvaluationPlan(resolve("default", keys, training=False)))
    return list(found.trajectories)


def generated(model: Qwen2ForCausalLM, contexts: list[list[int]], longest: int, stop: int) -> list[list[int]]:
    """What `generate` says after contexts of one length, up to and with the stop id."""
    ids = torch.tensor(contexts)
    options = {"do_sample": False, "eos_token_id": stop, "pad_token_id": stop}
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=longest, **options)
    rows = out[:, ids.shape[1] :].tolist()
    return [row[: row.index(stop) + 1] if stop in row else row for row in rows]


def margin(model: Qwen2ForCausalLM, ids: list[int]) -> float:
    """Between the two best logits after the ids."""
    best = model(torch.tensor([ids])).logits[0, -1].topk(2).values
    return float(best[0] - best[1])


@pytest.mark.slow
@torch.inference_mode()
def test_greedy_ids_are_those_of_generate_over_a_hundred_episodes(tmp_path: Path) -> None:
    folder = Path(agent_r1_core.__file__).parent / "bundled" / "tiny"
    model = Qwen2ForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    stop = PreTrainedTokenizerFast.from_pretrained(folder).eos_token_id
    by_length: dict[int, list[tuple[list[int], list[int]]]] = defaultdict(list)
    for trajectory in played(tmp_path, 100):
        assert len(trajectory.segments) == 1
        ids = trajectory.segments[0].ids
        for turn in trajectory.turns:
            by_length[turn.start].append((ids[: turn.start], ids[turn.start : turn.stop]))
    turns = compared = 0
    for pairs in by_length.values():
        expected = generated(model, [context for context, _ in pairs], max(len(said) for _, said in pairs), stop)
        for (context, said), right in zip(pairs, expected, strict=True):
            turns += 1
            if said == right[: len(said)]:
                compared += 1
                continue
            first = next(place for place, pair in enumerate(zip(said, right, strict=False)) if pair[0] != pair[1])
            assert margin(model, context + said[:first]) < TIE
    assert turns > 200
    assert compared > 0.98 * turns
