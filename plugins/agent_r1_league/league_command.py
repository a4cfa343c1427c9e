"""`agent-r1 league`: holds every algorithm's credit against exact advantages, and learning against both."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent_r1_cli.completion import Offer
from agent_r1_cli.output import print_json, print_table, say, show
from agent_r1_cli.plugin_options import AsJson, DisabledPlugins, PluginFiles, find_plugins
from agent_r1_league.worlds import WORLDS

if TYPE_CHECKING:
    from agent_r1_league.standings import Standings


def _worlds() -> list[Offer]:
    """What the Tab key offers for --world."""
    return [(world.name, world.about) for world in WORLDS.values()]


def league(
    rows: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME[,OPTION=VALUE]...]...", help="Algorithms; else all.", show_default=False),
    ] = None,
    world: Annotated[
        list[str] | None,
        typer.Option("--world", metavar="NAME", help="Only this world; may be repeated.", autocompletion=_worlds),
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", min=2, help="Policies to begin with.")] = 10,
    share: Annotated[
        float, typer.Option("--share", metavar="S", min=0.01, max=1.0, help="Share of the updates and steps to play.")
    ] = 1.0,
    folder: Annotated[Path, typer.Option("--dir", metavar="FOLDER", help="Where table and picture go.")] = Path(
        "runs", "league"
    ),
    processes: Annotated[
        int | None, typer.Option("--processes", metavar="N", min=1, help="At once; else one for each core.")
    ] = None,
    plugin: PluginFiles = None,
    disable_plugin: DisabledPlugins = None,
    as_json: AsJson = False,
) -> None:
    """Hold every algorithm's credit against exact advantages.

    \b
    agent-r1 league --share 0.1 --seeds 2     a try, in a minute
    agent-r1 league                           all, in ten minutes or so
    agent-r1 league ppo ppo,lam=0.9           two rows of your own
    agent-r1 league -p mine.py                a plugin file takes part, too

    In worlds so small that every advantage is known, it measures bias, variance and the angle to the true gradient, per
    token, turn and episode, and how fast each row learns there.
    """
    standings = _play(rows or [], world or [], seeds, share, processes, plugin, disable_plugin)
    files = _write(standings, folder)
    if as_json:
        print_json({**standings.to_json(), "folder": str(folder)})
    else:
        _show(standings)
    for file in files:
        say(f"written to {file}")


def _play(
    rows: list[str],
    worlds: list[str],
    seeds: int,
    share: float,
    processes: int | None,
    files: list[Path] | None,
    disabled: list[str] | None,
) -> Standings:
    """Play all of it.

    Raises:
        ConfigError, PluginError: there is no such world, or a row cannot be made.
    """
    from agent_r1_core.errors import ConfigError
    from agent_r1_core.work import WorkDisplay, working
    from agent_r1_core.work.running import termination_interrupts, usable_cores
    from agent_r1_league.contest import Size
    from agent_r1_league.entrants import entrants
    from agent_r1_league.running import Contest, play
    from agent_r1_league.standings import Standings

    stranger = next((name for name in worlds if name not in WORLDS), None)
    if stranger is not None:
        raise ConfigError(f"there is no world {stranger!r}; the worlds are {', '.join(WORLDS)}")
    taking_part, left_out = entrants(find_plugins(files, disabled), rows)
    size, plugins = Size().share(share), (tuple(files or ()), tuple(disabled or ()))
    names = [name for name in WORLDS if not worlds or name in worlds]
    contests = [Contest(name, seed, tuple(taking_part), size, plugins) for seed in range(seeds) for name in names]
    results = {}
    with termination_interrupts(), WorkDisplay(), working("playing", len(contests), unit="contests") as work:
        for contest, numbers in play(contests, processes or usable_cores()):
            results[contest.world, contest.seed] = numbers
            work.advance()
    return Standings(results, size, left_out)


def _write(standings: Standings, folder: Path) -> list[Path]:
    """Write tables and picture into the folder."""
    from agent_r1_core.runs.files import naming, write_json, write_text
    from agent_r1_league.picture import can_draw, draw
    from agent_r1_league.standings import markdown

    with naming(folder):
        folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"league.{suffix}" for suffix in ("md", "json", "png")]
    write_text(files[0], markdown(standings))
    write_json(files[1], standings.to_json())
    if not can_draw():
        say("there is no picture, since matplotlib is not installed")
        return files[:2]
    draw(standings, files[2])
    return files


def _show(standings: Standings) -> None:
    """Print Markdown, or on a terminal the table over all worlds."""
    from agent_r1_league.standings import ALL, PREDICTORS, markdown

    if not sys.stdout.isatty():
        show(markdown(standings).rstrip())
        return
    columns = (*PREDICTORS, "learned")
    lines = standings.lines(ALL)
    print_table(("row", *columns), [(line.row, *(str(line.numbers[name]) for name in columns)) for line in lines])
    for row, reason in standings.left_out.items():
        say(f"{row} takes no part: {reason}")
