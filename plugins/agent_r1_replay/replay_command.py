"""`agent-r1 replay`: plays and learns a recorded step again, or derives another update from what it recorded."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent_r1_cli.output import print_json, print_table, say, show
from agent_r1_cli.plugin_options import AsJson, DisabledPlugins, PluginFiles, TrustFiles, trust_as
from agent_r1_cli.recipe_arguments import check_overrides

if TYPE_CHECKING:
    from agent_r1_replay.alternative import Alternative
    from agent_r1_replay.repeating import Repetition

_MOST = 10
"""Differences that are printed."""


def replay(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder.", show_default=False)],
    step: Annotated[int, typer.Option("--step", metavar="N", min=1, help="The recorded step.", show_default=False)],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...", help="Keys of algorithm, rewards or training to change.", show_default=False
        ),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option("--sample", metavar="K", min=0, help="Compare only the episode in row K of the step, from 0."),
    ] = None,
    update: Annotated[bool, typer.Option("--update", help="Play nothing: derive the update from the record.")] = False,
    until: Annotated[
        int | None,
        typer.Option("--until", metavar="M", min=1, help="Play nothing: learn from the records of steps N to M."),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep what is derived otherwise in the run, for `agent-r1 view`.")
    ] = False,
    as_json: AsJson = False,
    plugin: PluginFiles = None,
    disable_plugin: DisabledPlugins = None,
    trust: TrustFiles = False,
) -> None:
    """Repeat a recorded step, or learn from it otherwise.

    \b
    agent-r1 replay runs/a --step 3               play and learn it again
    agent-r1 replay runs/a --step 3 --sample 5    compare one episode
    agent-r1 replay runs/a --step 3 --update      only learn it again
    agent-r1 replay runs/a --step 3 algorithm=rloo    learn otherwise

    Without keys it says what is not as it was recorded, bit for bit; the exit code is 1 if anything is. With keys it
    derives advantages and update from the recorded episodes, without rollouts, and says what they change. The run is
    only read, but for --keep; it needs the checkpoint of the step before.
    """
    from agent_r1_cli.display import TrainDisplay

    steps = range(step, (until or step) + 1)
    _check_options(overrides, sample, update, until, steps, keep)
    with TrainDisplay("loading torch and the model ...") as display, ExitStack() as stack:
        from agent_r1_replay.opened import OpenedRun

        opened = OpenedRun.open(
            run,
            step,
            overrides or (),
            stack,
            display.note,
            plugins=plugin or (),
            disabled=disable_plugin or (),
            trust=trust_as(trust, display),
        )
        kept: Path | None = None
        repetitions: list[Repetition] = []
        alternatives: list[Alternative] = []
        if overrides:
            from agent_r1_replay.alternative import derive_otherwise

            alternatives += derive_otherwise(opened, steps, display.note)
            if keep:
                from agent_r1_replay.kept import keep as keep_in

                kept = keep_in(opened.run, overrides, alternatives)
        else:
            from agent_r1_replay.repeating import repeat

            repetitions += repeat(opened, steps, not (update or until), sample, display)
    if as_json:
        found = [*(one.to_json() for one in repetitions), *(one.to_json() for one in alternatives)]
        print_json({"run": str(run), "changed": overrides or [], "steps": found})
    else:
        for repetition in repetitions:
            _show_repetition(repetition)
        for alternative in alternatives:
            _show_alternative(alternative)
        if kept is not None:
            say(f"kept in {kept}; the tokens of an episode in `agent-r1 view {run}` show both advantages")
    if not all(one.equal for one in repetitions):
        raise typer.Exit(1)


def _check_options(
    overrides: list[str] | None, sample: int | None, update: bool, until: int | None, steps: range, keep: bool
) -> None:
    """Refuse options that would do nothing, and arguments that are no overrides."""
    check_overrides(overrides or ())
    if sample is not None and (overrides or update or until):
        raise typer.BadParameter(
            "it compares an episode that is played again; leave the others out", param_hint="--sample"
        )
    if overrides and update:
        raise typer.BadParameter("with KEY=VALUE nothing is played anyway; leave it out", param_hint="--update")
    if keep and not overrides:
        raise typer.BadParameter("without KEY=VALUE the update is the run's own; leave it out", param_hint="--keep")
    if not steps:
        raise typer.BadParameter("it is a step before --step", param_hint="--until")


def _show_repetition(found: Repetition) -> None:
    if found.played is not None:
        equal = found.played - len(found.episodes)
        show(f"step {found.step}: {equal} of {found.played} episodes sampled again bit for bit")
        lines = [f"row {row}: {text}" for row, texts in found.episodes.items() for text in texts]
        _show_some(lines)
    if found.update is None:
        return
    against = "no weights, which the run has not kept" if found.weights is None else f"the weights of {found.weights}"
    if found.update:
        show(f"step {found.step}: the update derived from the record is another one")
        _show_some(found.update)
    else:
        show(f"step {found.step}: the update derived from the record is equal bit for bit: numbers, metrics, {against}")


def _show_some(lines: list[str]) -> None:
    for line in lines[:_MOST]:
        show(f"  {line}")
    if len(lines) > _MOST:
        show(f"  and {len(lines) - _MOST} more; --json has all")


def _show_alternative(found: Alternative) -> None:
    how = found.advantages
    show(
        f"step {found.step}: {how.different} of {how.tokens} credited tokens get another advantage, by {how.mean:.3g} "
        f"on the mean and {how.largest:.3g} at most; {how.flips} change sign"
    )
    apart = "one of them is zero" if found.degrees is None else f"{found.degrees:.2f} degrees apart"
    show(f"gradients: {apart}")
    rows = [("return, mean", found.returns)] if found.returns[0] != found.returns[1] else []
    rows += found.metrics.items()
    if rows:
        show()
        print_table(("metric", "recorded", "derived"), [(name, f"{a:.5g}", f"{b:.5g}") for name, (a, b) in rows])
    if how.turns:
        show()
        table = []
        for one in how.turns:
            trajectory = found.trajectories[one.row]
            text = trajectory.turns[one.turn].text
            advantages = f"{one.recorded:.3f}", f"{one.derived:.3f}"
            table.append((str(one.row), trajectory.id, str(one.turn), *advantages, text[:48]))
        print_table(("row", "episode", "turn", "recorded", "derived", "action"), table)
