"""`agent-r1 compare`: tests whether evaluations of the same questions differ."""

from __future__ import annotations

from typing import Annotated

import typer

from agent_r1_cli.output import print_json, print_table, show
from agent_r1_cli.plugin_options import AsJson

Results = Annotated[
    list[str],
    typer.Argument(
        metavar="RESULT RESULT...",
        help="Result files, runs (their last evaluation) or RUN/NAME; NAME=A,B,C gives seeds of one policy a name.",
        show_default=False,
    ),
]


def compare(
    results: Results,
    score: Annotated[
        str | None,
        typer.Option(
            "--score",
            metavar="NAME",
            help="The score to compare (default: exact_match, or the return).",
            show_default=False,
        ),
    ] = None,
    common: Annotated[
        bool, typer.Option("--common", help="Compare the questions that all have, instead of refusing others.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Test whether evaluations of the same questions differ.

    Needs no model: it reads the episodes that `agent-r1 eval` recorded, and pairs them question by question.

    \b
    agent-r1 compare runs/ppo-1 runs/grpo-1           two runs' last evaluations
    agent-r1 compare runs/ppo-1/eval_1 runs/ppo-1/eval_2
    agent-r1 compare ppo=runs/p0,runs/p1 grpo=runs/g0,runs/g1 --score f1
    agent-r1 compare ppo=runs/p0,runs/p1,runs/p2      one mean over three seeds

    An interval of a difference that excludes 0 means that one is better on questions like these.
    """
    from agent_r1_core.evaluation.arm import Arm
    from agent_r1_core.evaluation.compare import compare as compare_arms

    found = compare_arms([Arm.open(text) for text in results], score, common)
    if as_json:
        print_json(found.to_json())
        return
    means = [(name, *value.row()) for name, value in found.means.items()]
    print_table((found.score, "mean", "95 % interval", "method", "n"), means)
    show()
    if found.differences:
        headers = ("difference", "mean", "95 % interval", "p", "p (Holm)", "n")
        print_table(headers, [difference.row() for difference in found.differences])
        show()
    for name, files in found.files.items():
        show(f"{name}: {', '.join(files)}")
    for note in found.notes:
        show(note)
