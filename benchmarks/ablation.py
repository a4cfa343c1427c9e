"""What do the two masks do? The ablation of Agent-R1 (arXiv 2511.14460, section 4) on the embedded task.

    python benchmarks/ablation.py
    python benchmarks/ablation.py --steps 25 --tasks 16 --seeds 0 1 2

Arms: PPO with both masks; without the advantage mask (GAE also runs over the environment's tokens after the first
action, and the critic learns there); without both (the loss and its normaliser cover them, too); GRPO with and without
the loss mask. All else is the recipes `default` and `ppo` (the bundled model, 2-hop questions), but for fewer steps of
fewer episodes.

Scores, per run, then mean and t interval over seeds: exact match of greedy answers to held-out questions of unseen
worlds, after `--early` and after all steps; `area`, the mean height of the curve through all evaluations; `sampled`,
the mean exact match of all training episodes (no question comes twice before all have come once). Differences are
paired by seed.
"""

from __future__ import annotations

import argparse
import statistics

import arms
import report

from agent_r1_core.runs.run import Run

WITHOUT_ADVANTAGE, WITHOUT_LOSS = "algorithm.advantage_mask=false", "algorithm.loss_mask=false"
ARMS = (
    arms.Arm("PPO, both masks", recipe="ppo"),
    arms.Arm("PPO, no advantage mask", (WITHOUT_ADVANTAGE,), "ppo"),
    arms.Arm("PPO, no masks", (WITHOUT_ADVANTAGE, WITHOUT_LOSS), "ppo"),
    arms.Arm("GRPO, loss mask"),
    arms.Arm("GRPO, no loss mask", (WITHOUT_LOSS,)),
)
PAIRS = (
    ("PPO, no advantage mask", "PPO, both masks"),
    ("PPO, no masks", "PPO, no advantage mask"),
    ("PPO, no masks", "PPO, both masks"),
    ("GRPO, no loss mask", "GRPO, loss mask"),
)
QUICK = ("training.samples_per_task=2", "tasks.train.size=16", "engine.max_new_tokens=8")


def arguments() -> argparse.Namespace:
    """The command line."""
    options = arms.parser(__doc__, "ablation")
    options.add_argument("--steps", type=int, default=12, help="training steps of a run")
    options.add_argument("--tasks", type=int, default=8, help="questions of a step, 8 episodes each")
    options.add_argument("--early", type=int, default=4, help="steps between evaluations")
    options.add_argument("--questions", type=int, default=100, help="held-out questions of an evaluation")
    chosen = arms.parse(options)
    if chosen.quick:
        chosen.steps, chosen.tasks, chosen.early, chosen.questions = 2, 2, 1, 4
    return chosen


def sampled(run: Run) -> float:
    """Mean exact match of all training episodes."""
    return statistics.fmean(line["reward/exact_match"] for line in run.metrics())


def early(run: Run) -> float:
    """The score of the first evaluation after the start."""
    return arms.evaluated(run)[1][1]


def main() -> None:
    options = arguments()
    common = [f"training.steps={options.steps}", f"evaluation.every={options.early}"]
    common += [f"training.tasks_per_step={options.tasks}", f"evaluation.size={options.questions}"]
    common += QUICK if options.quick else ()
    chosen = ARMS[-2:] if options.quick else ARMS
    runs = arms.run_all(options.home, chosen, options.seeds, common)
    columns = {
        f"after {options.early} steps": arms.scores(runs, early),
        f"after {options.steps} steps": arms.scores(runs, arms.last),
        "area": arms.scores(runs, arms.area),
        "sampled": arms.scores(runs, sampled),
    }
    pairs = [pair for pair in PAIRS if pair[0] in runs and pair[1] in runs]
    table, differences = arms.table(columns), arms.differences(columns, pairs)
    report.show(f"Exact match, mean over seeds {options.seeds} with 95 % t intervals", table)
    report.show("Differences, paired by seed", differences)
    report.save(options.out, options, {"arms": table, "differences": differences, "runs": list(arms.rows(columns))})


if __name__ == "__main__":
    main()
