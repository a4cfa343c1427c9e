"""Records a run that nobody trained, for tests of what reads runs: every kind of episode, and a hostile tool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy

import agent_r1_core
from agent_r1_core.contracts.token_numbers import TokenNumbers
from agent_r1_core.runs.run import Run
from agent_r1_core.runs.trajectory_file import write_trajectories
from agent_r1_core.testing.trajectories import make_task, make_trajectory
from agent_r1_core.trajectory import CallRecord, EndStatus, Trajectory

CONFIG = {
    "model": {"name": "tiny"},
    "algorithm": {"name": "grpo"},
    "training": {"steps": 3},
    "checkpoint": {"best": "eval/exact_match"},
    "sources": {"training.steps": "override 'training.steps=3'"},
}
_BUNDLED = Path(agent_r1_core.__file__).parent / "bundled" / "tiny"
HOSTILE = "<script>document.title = 1</script> \x1b[31m \u202e"
"""What a tool may answer."""


def episode(task: str, sample: int, *, reward: float, **more: Any) -> Trajectory:
    """Two turns, the second in a segment of its own; a tool's call failed."""
    one = make_trajectory(
        [((506, 483, 9999), (484, 479, 507)), ((506, 200), (481, 507))],
        task=make_task(task, f"What is {task}?", (task.upper(),), seed=2**60),
        sample=sample,
        reward=reward,
        rewards={"exact_match": reward},
        turn_rewards=[0.25, 0.0],
        logprobs=[[-0.5, -0.25, -0.125], [-1.0, -2.0]],
        texts=["I look it up", f"It is {task} {sample}"],
        new_segment_at={1},
        answer=f"{task} {sample}",
        reason="answer",
        **more,
    )
    one.turns[0].observation = [{"role": "user", "content": str(one.task.prompt)}]
    one.turns[0].calls = [CallRecord("wiki_search", {"query": task}, "Error: no such page.", 0.5)]
    one.turns[0].rewards = {"valid_call": 0.5}
    one.turns[0].versions, one.turns[1].versions = ((1, 2), (2, 1)), ((2, 2),)
    one.turns[1].observation = [{"role": "tool", "name": "wiki_search", "content": HOSTILE}]
    return one


def step_episodes(step: int) -> list[Trajectory]:
    """Two groups of three, a greedy baseline of the second one, and a sample of it that was dropped."""
    groups = [episode(f"{name}{step}", sample, reward=float(sample == 1)) for name in "ab" for sample in range(3)]
    baseline = episode(f"b{step}", 3, reward=1.0, baseline=True)
    dropped = episode(f"b{step}", 4, reward=0.0, status=EndStatus.FAILED)
    dropped.reason = "the tool's server is gone"
    return [*groups, baseline, dropped]


_KNOWN = lambda place, _: (0.5 * place, -0.25 * place, place / 8)


def numbers(episodes: Sequence[Trajectory], known: Callable[[int, float], Sequence[float]] = _KNOWN) -> TokenNumbers:
    """What an update knows of the tokens of some episodes: of each sampled token something else."""
    spans: dict[str, tuple[int, int]] = {}
    rows: list[Sequence[float]] = []
    for one in episodes:
        start = len(rows)
        for segment in one.segments:
            for sampled, logprob in zip(segment.mask, segment.logprobs, strict=True):
                rows.append(known(len(rows), logprob) if sampled else (0.0, numpy.nan, numpy.nan))
        spans[one.id] = (start, len(rows))
    return TokenNumbers(spans, *numpy.asarray(rows, dtype=numpy.float32).T)


def record(folder: Path, name: str = "small", steps: int = 3) -> Path:
    """The folder of a run that ended in order."""
    with Run.create(folder, name, CONFIG, [{"name": "grpo", "status": "ok"}]) as run:
        run.keep_model_files(_BUNDLED)
        run.append_event(0, "started", "training begins")
        for step in range(1, steps + 1):
            episodes = step_episodes(step)
            write_trajectories(run.trajectory_file(step), step, episodes, numbers(episodes[:6]))
            run.append_metrics(step, {"reward/mean": step / 10, "time/step": 2.0, "update/loss": float("nan")})
        for step, score in ((0, 0.0), (steps, 0.5)):
            evaluate(run, step, score)
        run.append_event(steps, "finished", "all steps are done")
        return run.path


def evaluate(run: Run, step: int, score: float) -> None:
    """An evaluation of two questions, with its episodes."""
    estimate = {"mean": score, "low": 0.0, "high": 1.0, "method": "wilson", "n": 2}
    episodes = [episode(task, 0, reward=2 * score * (task == "x")) for task in "xy"]
    lines = [
        {
            "task": one.task.id, "question": str(one.task.prompt), "answers": list(one.task.answers), "set": "",
            "prediction": one.answer, "status": "terminated", "rewards": one.rewards, "total": one.total_reward,
        }
        for one in episodes
    ]  # fmt: skip
    name = f"step_{step:06d}"
    write_trajectories(run.path / "evaluations" / f"{name}.parquet", step, episodes)
    result = {"metrics": {"exact_match": estimate}, "trajectories": {"": f"{name}.parquet"}}
    run.write_evaluation(name, result, step, lines)
