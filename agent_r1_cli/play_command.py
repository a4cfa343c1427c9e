"""`agent-r1 play`: a person, or a script, takes the model's place in an environment, with the real tools and rewards.

Loads no model. There is no token budget; the turn budget applies.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent_r1_cli.output import check_target, print_json, prints_apart, say, show
from agent_r1_cli.plugin_options import AsJson, DisabledPlugins, PluginFiles, TrustFiles, trust_as
from agent_r1_cli.recipe_arguments import Arguments, split_arguments
from agent_r1_cli.rollout_command import FirstTask, SuccessAt, TaskSetName, refuse_alone, warn_of_systems
from agent_r1_core.errors import ConfigError
from agent_r1_core.opening import read_bytes, read_text

if TYPE_CHECKING:
    import asyncio

    from agent_r1_cli.seat import Seat
    from agent_r1_core.trajectory import Task


def play(
    arguments: Arguments = None,
    task: FirstTask = 0,
    question: Annotated[
        str | None, typer.Option("--question", metavar="TEXT", help="Ask this instead of a task of the recipe.")
    ] = None,
    answer: Annotated[
        str | None, typer.Option("--answer", metavar="TEXT", help="The accepted answer of --question.")
    ] = None,
    task_set: TaskSetName = "eval",
    script: Annotated[
        Path | None,
        typer.Option("--script", metavar="FILE", help="Actions to play: a YAML list, or text with one per line."),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option("--keep", metavar="FILE", help="Append the game to FILE as a conversation, if it is a success."),
    ] = None,
    success_at: SuccessAt = None,
    as_json: AsJson = False,
    plugin: PluginFiles = None,
    disable_plugin: DisabledPlugins = None,
    trust: TrustFiles = False,
) -> None:
    """Take the model's place: read, act, see the reward.

    \b
    agent-r1 play                          a question of the default recipe
    agent-r1 play my_recipe.yaml --task 3  a question of your own recipe
    agent-r1 play calculator --question "What is 6 * 7?" --answer 42
    agent-r1 play --keep shown.jsonl       a demonstration, where it succeeds

    An action is one line, written as a model would write it. `/TOOL QUERY` or `/TOOL {"argument": value}` becomes a
    tool call in the format of the environment. `/help` says how to answer. `/quit` or the end of the input stops.
    Turns are limited as the policy's are, tokens are not.
    """
    from agent_r1_cli.display import TrainDisplay
    from agent_r1_core.work.running import bounded_runner, termination_interrupts

    if keep is None:
        refuse_alone("--success-at", success_at, "--keep")
    else:
        check_target(keep)
    actions = None if script is None else read_script(script)
    chosen = _chosen(question, answer, task)
    recipe, overrides = split_arguments(arguments)
    tell = say if as_json else show
    with prints_apart(as_json), termination_interrupts(), bounded_runner() as runner:
        with TrainDisplay("loading the recipe, its environment and its tools ...") as display:
            from agent_r1_cli.seat import Seat
            from agent_r1_core.training.api import resolve

            resolved = resolve(
                recipe,
                overrides,
                plugins=plugin or (),
                disabled=disable_plugin or (),
                training=False,
                trust=trust_as(trust, display),
            )
            for warning in resolved.warnings:
                display.note(warning)
            seat = runner.run(Seat.take(resolved, task_set, chosen, tell))
        if resolved.run is not None:
            say(f"playing the recipe of {resolved.run}: you act in place of its policy")
        try:
            finished = Player(seat, runner, tell).play(actions, str(script))
            told = _keep(seat, runner, keep, success_at) if keep is not None and finished else None
        finally:
            runner.run(seat.close())
    _conclude(seat, finished, as_json, tell)
    if told is not None:
        say(told)


def _chosen(question: str | None, answer: str | None, index: int) -> Task | int:
    """The task from the command line, or the index of a task of the recipe."""
    from agent_r1_core.trajectory import Task

    if question is None:
        if answer is not None:
            raise typer.BadParameter("it answers a question of your own; give --question too", param_hint="--answer")
        return index
    if index:
        raise typer.BadParameter(
            "a question of your own has no index; use either --question or --task", param_hint="--task"
        )
    return Task("question", question, () if answer is None else (answer,))


@dataclass(frozen=True)
class Player:
    """Passes actions to a seat; the event loop is idle while a person thinks."""

    seat: Seat
    runner: asyncio.Runner
    tell: Callable[[str], None]

    def play(self, script: list[str] | None, name: str) -> bool:
        """Play to the end; returns False if the player stopped early.

        Raises:
            ConfigError: an action of the script cannot be sent, or the script has too few.
        """
        self.runner.run(self.seat.start())
        self.tell(f"(rewards: {self.seat.rewards()})\n(shortcuts: {self.seat.usage()})")
        lines = from_keyboard() if script is None else from_script(script, name)
        while not self.seat.over:
            text = next(lines, None)
            if text is None or text.strip() == "/quit":
                return False
            if text.strip() == "/help":
                self.tell(self.seat.help())
            else:
                self._send(text, scripted=script is not None)
        return True

    def _send(self, text: str, scripted: bool) -> None:
        from agent_r1_cli.transcript import turn_line

        try:
            action = self.seat.expand(text)
        except ConfigError as error:
            if scripted:
                raise
            self.tell(f"not sent: {error}")
            return
        if scripted or action != text:
            self.tell(f"[assistant] {action}")
        acted = self.seat.player
        self.tell(f"  {turn_line(self.runner.run(self.seat.act(action)))}")
        if self.seat.player != acted and not self.seat.over:
            self.tell(f"[player {self.seat.player} acts]")


def _keep(seat: Seat, runner: asyncio.Runner, file: Path, success_at: float | None) -> str:
    """Append the game to the file if it is a success; returns a sentence that says whether it was."""
    from agent_r1_core.contracts.success import succeeded
    from agent_r1_core.rollout.demonstration import BadDemonstration
    from agent_r1_core.runs.files import append_line

    if not succeeded(seat.trajectory, success_at):
        return f"not kept in {file}: the game is no success; --success-at takes one of a lower return"
    written = read_bytes(file) if file.exists() else b""
    begin = "\n" if written and not written.endswith(b"\n") else ""
    number = written.count(b"\n") + len(begin)
    try:
        line = runner.run(seat.conversation(f"{seat.trajectory.task.id}.{number}"))
    except BadDemonstration as error:
        return f"not kept in {file}: {error}"
    append_line(file, f"{begin}{line}\n")
    warn_of_systems([line])
    return f"kept in {file}, as conversation {number + 1}"


def _conclude(seat: Seat, finished: bool, as_json: bool, tell: Callable[[str], None]) -> None:
    from agent_r1_cli.transcript import episode_json, outcome_lines

    trajectory = seat.trajectory
    if as_json:
        left = {} if finished else {"status": None, "reason": "stopped before its end"}
        print_json({"finished": finished, "episode": episode_json(trajectory, seat.decode) | left})
    elif finished:
        tell(f"the episode is over: {trajectory.status} ({trajectory.reason})")
        for one in (trajectory, *trajectory.others):
            if trajectory.others:
                tell(f"player {one.player}:")
            for line in outcome_lines(one):
                tell(f"  {line}")
    if not finished:
        say("stopped before the end of the episode: no outcome was scored")


def from_keyboard() -> Iterator[str]:
    """One action per line until the end of the input; empty lines are skipped.

    Raises:
        ConfigError: a line is not text.
    """
    prompt = "action> " if sys.stdin.isatty() else ""
    while True:
        try:
            line = input(prompt)
        except EOFError:
            return
        except UnicodeDecodeError as error:
            raise ConfigError(f"the input is no text ({error}); write UTF-8") from None
        if line.strip():
            yield line


def from_script(actions: Sequence[str], name: str) -> Iterator[str]:
    """The actions in their order.

    Raises:
        ConfigError: the episode is not over after the last one.
    """
    yield from actions
    raise ConfigError(f"{name} has too few actions ({len(actions)}): the episode is not over; add one, or /quit")


def read_script(path: Path) -> list[str]:
    """The actions of a script: a YAML list of texts (.yaml, .yml), else one per non-empty line.

    Raises:
        ConfigError: the file is missing, is not text, or has no actions.
    """
    from agent_r1_core.config.yaml_text import parse

    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the script {path} cannot be read ({error}); give a UTF-8 text file") from None
    actions = parse(text, str(path)).value if path.suffix in (".yaml", ".yml") else text.splitlines()
    if not isinstance(actions, list) or not all(isinstance(action, str) for action in actions):
        raise ConfigError(f"the script {path} must be a YAML list of texts, one per action; quote other values")
    actions = [action for action in actions if action.strip()]
    if not actions:
        raise ConfigError(f"the script {path} has no actions; write one per line")
    return actions
