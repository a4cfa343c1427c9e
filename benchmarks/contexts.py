"""Do a window and a summary train where the whole episode does not fit?

    python benchmarks/contexts.py
    python benchmarks/contexts.py --steps 20 --seeds 0 1 2

The frozen lake of the recipe `frozen_lake`: the goal is six steps away at least, one a turn, and a context may have 92
tokens, which four turns fill. Arms: everything (`append`), which is truncated there; the opening and the last two turns
(`window`); the opening and what the policy itself writes after every third turn when asked where it is (`summary`, at
most 12 tokens). The summary replaces the newest answer, too: what it leaves out is gone. All else is the same.

Scores, per run, then mean and t interval over seeds: share of held-out maps that greedy play crosses before training
and after all steps; tokens of an episode, and the share of episodes that were truncated (by a context that was full, or
after twelve turns), in the last step. Differences are paired by seed.
"""

from __future__ import annotations

import argparse

import arms
import report

from agent_r1_core.runs.run import Run

RECIPE, SCORE = "frozen_lake", "success"
COMMON = (
    *("env.max_tokens=92", "checkpoint.best=null"),
    *("training.lr=4e-4", "algorithm={name: gigpo, entropy_coef: 0.005}"),
)
SUMMARY = "turns: 3, max_tokens: 78, summary_tokens: 12, prompt: 'Where are you?', heading: 'Notes:'"
ARMS = (
    arms.Arm("append", recipe=RECIPE),
    arms.Arm("window", ("context={name: window, turns: 2}",), RECIPE),
    arms.Arm("summary", (f"context={{name: summary, {SUMMARY}}}",), RECIPE),
)
PAIRS = (("window", "append"), ("summary", "append"), ("summary", "window"))
QUICK = ("training.tasks_per_step=2", "training.samples_per_task=2", "tasks.train.size=16")


def arguments() -> argparse.Namespace:
    """The command line."""
    options = arms.parser(__doc__, "contexts")
    options.add_argument("--steps", type=int, default=25, help="training steps of a run, 128 episodes each")
    options.add_argument("--maps", type=int, default=200, help="held-out maps of an evaluation")
    chosen = arms.parse(options)
    if chosen.quick:
        chosen.steps, chosen.maps = 2, 4
    return chosen


def after(run: Run) -> float:
    """The score after training."""
    return arms.last(run, SCORE)


def before(run: Run) -> float:
    """The score before training."""
    return arms.evaluated(run, SCORE)[0][1]


def tokens(run: Run) -> float:
    """Tokens of an episode in the last step, over all its segments."""
    return float(run.metrics()[-1]["episode/tokens"])


def truncated(run: Run) -> float:
    """The share of episodes that a budget cut in the last step."""
    return 1.0 - float(run.metrics()[-1]["episode/terminated"])


def main() -> None:
    options = arguments()
    common = [*COMMON, f"training.steps={options.steps}", f"evaluation.size={options.maps}"]
    common += QUICK if options.quick else ()
    runs = arms.run_all(options.home, ARMS, options.seeds, common)
    columns = {
        "before": arms.scores(runs, before),
        f"after {options.steps} steps": arms.scores(runs, after),
        "tokens": arms.scores(runs, tokens),
        "truncated": arms.scores(runs, truncated),
    }
    table, differences = arms.table(columns), arms.differences(columns, PAIRS)
    report.show(f"Success by context, mean over seeds {options.seeds} with 95 % t intervals", table)
    report.show("Differences, paired by seed", differences)
    report.save(options.out, options, {"arms": table, "differences": differences, "runs": list(arms.rows(columns))})


if __name__ == "__main__":
    main()
