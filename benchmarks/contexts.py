"""Do a window and a summary train where the whole episode does not fit?

    python benchmarks/contexts.py
    python benchmarks/contexts.py --steps 25 --seeds 0 1 2

Questions over two hops, as in the recipe `default`, but pages are long (long_pages.py): the question and two pages need
about 235 tokens, and a context may have 200. Arms: everything (`append`), which is truncated before the second page;
the question and the last turn (`window`); the question and a summary that the policy writes after every page
(`summary`), with at most 24 tokens. All else is the same, rewards included: exact match, and a share for each page.

Scores, per run, then mean and t interval over seeds: exact match of greedy answers to held-out questions of unseen
worlds before training and after all steps; tokens of an episode, and the share of episodes that were truncated, in the
last step. Differences are paired by seed; `append` can guess what it cannot read.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import arms
import report

from agent_r1_core.runs.run import Run

PAGES = Path(__file__).with_name("long_pages.py")
COMMON = (
    "-p",
    str(PAGES),
    "tools=[{name: long_pages/wiki_search, filler: 40}]",
    "rewards=[exact_match, {name: supporting_titles, weight: 0.3}]",
    "env.max_tokens=200",
    "env.max_turns=4",
)
SUMMARY = "max_tokens: 100, summary_tokens: 24, keep_thinking: true, prompt: 'What is known?', heading: Page"
ARMS = (
    arms.Arm("append"),
    arms.Arm("window", ("context={name: window, turns: 1}",)),
    arms.Arm("summary", (f"context={{name: summary, {SUMMARY}}}",)),
)
PAIRS = (("window", "append"), ("summary", "append"), ("summary", "window"))
QUICK = ("training.tasks_per_step=2", "training.samples_per_task=2", "tasks.train.size=16", "engine.max_new_tokens=8")


def arguments() -> argparse.Namespace:
    """The command line."""
    options = arms.parser(__doc__, "contexts")
    options.add_argument("--steps", type=int, default=40, help="training steps of a run")
    options.add_argument("--questions", type=int, default=200, help="held-out questions of an evaluation")
    chosen = arms.parse(options)
    if chosen.quick:
        chosen.steps, chosen.questions = 2, 4
    return chosen


def before(run: Run) -> float:
    """The score before training."""
    return arms.evaluated(run)[0][1]


def tokens(run: Run) -> float:
    """Tokens of an episode in the last step, over all its segments."""
    return float(run.metrics()[-1]["episode/tokens"])


def truncated(run: Run) -> float:
    """The share of episodes that a budget cut in the last step."""
    return 1.0 - float(run.metrics()[-1]["episode/terminated"])


def main() -> None:
    options = arguments()
    common = [*COMMON, f"training.steps={options.steps}", f"evaluation.size={options.questions}"]
    common += QUICK if options.quick else ()
    runs = arms.run_all(options.home, ARMS, options.seeds, common)
    columns = {
        "before": arms.scores(runs, before),
        f"after {options.steps} steps": arms.scores(runs, arms.last),
        "tokens": arms.scores(runs, tokens),
        "truncated": arms.scores(runs, truncated),
    }
    table, differences = arms.table(columns), arms.differences(columns, PAIRS)
    report.show(f"Exact match by context, mean over seeds {options.seeds} with 95 % t intervals", table)
    report.show("Differences, paired by seed", differences)
    report.save(options.out, options, {"arms": table, "differences": differences, "runs": list(arms.rows(columns))})


if __name__ == "__main__":
    main()
