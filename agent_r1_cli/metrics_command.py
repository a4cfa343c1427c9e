"""`agent-r1 metrics`: lists what a run reports, with units and meanings."""

from __future__ import annotations

from typing import Annotated

import typer

from agent_r1_cli.output import print_json, print_table, say
from agent_r1_cli.plugin_options import AsJson

Part = Annotated[
    str | None, typer.Argument(metavar="[PART]", help="Only names that contain this, e.g. health.", show_default=False)
]


def metrics(part: Part = None, as_json: AsJson = False) -> None:
    """List what runs measure, with units and meanings.

    The names are those of metrics.jsonl; BETTER says which way is good.

    \b
    agent-r1 metrics            all of them
    agent-r1 metrics health     names that contain "health"

    Algorithms, environments and tools may declare more; `agent-r1 plugins show NAME` lists a component's own.
    """
    from agent_r1_core.errors import ConfigError
    from agent_r1_core.metrics.catalogue import Catalogue
    from agent_r1_core.metrics.declared import evaluated

    chosen = [metric for metric in Catalogue() if part is None or part in metric]
    if not chosen:
        raise ConfigError(f"no metric has {part!r} in its name; `agent-r1 metrics` lists all of them")
    if as_json:
        print_json({"metrics": [metric.to_json() for metric in chosen]})
        return
    shown = [metric for metric in chosen if not metric.startswith(evaluated("", "<set>"))]
    rows = [(str(metric), metric.unit, metric.better.replace("neither", ""), metric.meaning) for metric in shown]
    print_table(("METRIC", "UNIT", "BETTER", "MEANING"), rows)
    say("each named evaluation set has its own: eval/<set>/exact_match and so on")
