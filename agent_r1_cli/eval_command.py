"""`agent-r1 eval`: score a model on a recipe's evaluation tasks, with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from agent_r1_cli.output import print_json, print_table, say, show
from agent_r1_cli.plugin_options import AsJson, DisabledPlugins, PluginFiles, TrustFiles, trust_as
from agent_r1_cli.recipe_arguments import Arguments, ModelName, resolve_for_model

if TYPE_CHECKING:
    from agent_r1_core.evaluation.report import EvaluationResult


def score(
    arguments: Arguments = None,
    model: ModelName = None,
    samples: Annotated[
        int,
        typer.Option(
            "--samples",
            metavar="N",
            min=1,
            help="Episodes per task; several are sampled and report pass@k.",
        ),
    ] = 1,
    baseline: Annotated[
        Literal["closed_book", "naive_rag"] | None,
        typer.Option(
            "--baseline",
            metavar="NAME",
            help="Ask without tools: `closed_book` the question alone, `naive_rag` with passages found for it.",
        ),
    ] = None,
    silence_tools: Annotated[
        bool, typer.Option("--silence-tools", help="Let tools answer that they found nothing: does the policy guess?")
    ] = False,
    plugin: PluginFiles = None,
    disable_plugin: DisabledPlugins = None,
    trust: TrustFiles = False,
    as_json: AsJson = False,
) -> None:
    """Score a model on a recipe's evaluation tasks.

    \b
    agent-r1 eval runs/default-1                a run's best policy on its recipe
    agent-r1 eval --model runs/default-1 ppo    the same policy on another recipe
    agent-r1 eval --model tiny --silence-tools  does the bundled model guess?
    """
    from agent_r1_cli.display import TrainDisplay

    with TrainDisplay() as display:
        from agent_r1_core.training.api import evaluate
        from agent_r1_core.training.evaluator import EvaluationPlan

        trusted = trust_as(trust, display)
        resolved = resolve_for_model(arguments, model, plugin, disable_plugin, trusted, greedy=samples == 1)
        plan = EvaluationPlan(resolved, samples, baseline, silence_tools)
        evaluation, path = evaluate(plan, display)
    if as_json:
        print_json({**evaluation.result.to_json(), "file": str(path)})
        return
    _show(evaluation.result)
    say(f"written to {path}")


def _show(result: EvaluationResult) -> None:
    """Print the scores, their breakdown where tasks differ, and what a reader needs with them."""
    from agent_r1_core.evaluation.report import BREAKDOWN_COLUMNS

    print_table(("metric", "mean", "95 % interval", "method", "n"), result.rows())
    parts = result.breakdown_rows()
    if parts:
        show()
        print_table(("tasks", "n", *BREAKDOWN_COLUMNS), parts)
        show()
    for line in _footer(result):
        show(line)


def _footer(result: EvaluationResult) -> list[str]:
    """What a reader needs with the scores: scorers, sampling, corpora, conditions."""
    lines = [f"{name}: {scorer}" for name, scorer in result.scorers.items()]
    lines.append(f"sampling: {_listed(result.sampling)}")
    if result.choosing_set is not None:
        lines.append(f"{result.choosing_set}: the set that chooses checkpoints; it is in no mean over the sets")
    for name, scores in result.sets.items() or [("", result)]:
        label = f"{name}: " if name else ""
        lines += [f"{label}{tool}: {_listed(facts)}" for tool, facts in scores.tools.items()]
        lines += [f"{label}{condition}" for condition in scores.conditions]
    return lines


def _listed(facts: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in facts.items())
