"""`agent-r1 eval`: score a model on a recipe's evaluation tasks, with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from agent_r1_cli.output import print_json, print_table, prints_apart, say, show
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
        Literal["closed_book", "naive_rag", "base_tool_call", "react"] | None,
        typer.Option(
            "--baseline",
            metavar="NAME",
            help="Score an untrained model: `closed_book` (the question alone), `naive_rag` (with passages found for "
            "it), `base_tool_call` (with the tools), `react` (with the tools and a reason-act prompt).",
        ),
    ] = None,
    silence_tools: Annotated[
        bool, typer.Option("--silence-tools", help="Let tools answer that they found nothing: does the policy guess?")
    ] = False,
    rescore: Annotated[
        Path | None,
        typer.Option(
            "--rescore",
            metavar="RESULT",
            help="Score the recorded episodes of a result file or run again, without a model.",
        ),
    ] = None,
    plugin: PluginFiles = None,
    disable_plugin: DisabledPlugins = None,
    trust: TrustFiles = False,
    as_json: AsJson = False,
) -> None:
    """Score a model on a recipe's evaluation tasks.

    \b
    agent-r1 eval runs/default-1                 its best policy on its recipe
    agent-r1 eval --model runs/default-1 ppo     the policy on another recipe
    agent-r1 eval runs/a-1 --baseline naive_rag  the untrained model, one search
    agent-r1 eval --model tiny --silence-tools   does the bundled model guess?
    agent-r1 eval --rescore runs/default-1       its last result, scored anew

    Every evaluation is a file, NAME.json, with its episodes beside it, NAME.jsonl; `agent-r1 compare` tests whether two
    of them differ.
    """
    if rescore is not None:
        idle = (arguments, model, baseline, silence_tools, plugin, disable_plugin, trust)
        _rescore(rescore, as_json, idle=any(idle) or samples != 1)
        return
    from agent_r1_cli.display import TrainDisplay

    with prints_apart(as_json), TrainDisplay() as display:
        from agent_r1_core.evaluation.evaluator import EvaluationPlan
        from agent_r1_core.training.api import evaluate

        trusted = trust_as(trust, display)
        resolved = resolve_for_model(
            arguments, model, plugin, disable_plugin, trusted, greedy=samples == 1, untrained=baseline is not None
        )
        plan = EvaluationPlan(resolved, samples, baseline, silence_tools)
        evaluation, path = evaluate(plan, display)
    if as_json:
        print_json({**evaluation.result.to_json(), "file": str(path)})
        return
    _show(evaluation.result)
    say(f"written to {path}")


def _rescore(name: Path, as_json: bool, idle: bool) -> None:
    """Score recorded episodes again, and say what differs from the record."""
    from agent_r1_core.errors import ConfigError
    from agent_r1_core.evaluation.result_file import ResultFile, differences

    if idle:
        raise ConfigError("--rescore plays no episode, so it takes no recipe, model or other option besides --json")
    file = ResultFile.open(name)
    result = file.rescored()
    differing = differences(file.recorded, result)
    if as_json:
        print_json({**result.to_json(), "file": str(file.path), "differs": differing})
        return
    _show(result)
    for sentence in differing:
        show(sentence)
    say(f"scored again from the {len(file.episodes)} episodes of {file.path}: {len(differing) or 'no'} differences")


def _show(result: EvaluationResult) -> None:
    """Print the scores, their breakdown where tasks differ, and what a reader needs with them."""
    from agent_r1_core.evaluation.report import BREAKDOWN_COLUMNS

    print_table(("metric", "mean", "95 % interval", "method", "n"), result.rows())
    for line in result.failure_lines():
        show(line)
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
    lines += [f"score/{name}: {score.meaning}" for name, score in result.declared.items()]
    lines.append(f"sampling: {_listed(result.sampling)}")
    if result.choosing_set is not None:
        lines.append(f"{result.choosing_set}: the set that chooses checkpoints; it is in no mean over the sets")
    for name, scores in result.sets.items() or [("", result)]:
        label = f"{name}: " if name else ""
        lines += [f"{label}{tool}: {_listed(facts)}" for tool, facts in scores.tools.items()]
        lines += [f"{label}{condition}" for condition in scores.conditions]
        lines += [f"{label}{what.replace('_', ' ')}: {sentence}" for what, sentence in scores.provenance.items()]
    return lines


def _listed(facts: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in facts.items())
