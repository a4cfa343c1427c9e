"""World: an environment of states that are shown as text and actions that have names.

A subclass says how the world begins, moves and looks. Here stands what all of them share: the first message, reading
the actions of a turn, answering what is illegal, counting.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from agent_r1_core import (
    Action,
    ComponentConfig,
    EnvConfig,
    EnvServices,
    Markup,
    Metric,
    Observation,
    Step,
    Task,
    ToolEnv,
)
from agent_r1_core.chat import clip_text, split_tagged, without_thinking

_BETWEEN = re.compile(r"\|\||[,;\n]")

CUT = "the reply was cut off before an action; be shorter"
NONE = Markup("no action; write it between <answer> and </answer>")


@dataclass(frozen=True)
class Moves:
    """The actions that a turn names, up to the first one that is illegal."""

    names: tuple[str, ...] = ()
    illegal: int = 0
    """Actions that are not taken because they are illegal, or too many."""
    error: str | None = None
    """What was wrong, in one sentence."""


def read_moves(action: Action, legal: Collection[str], most: int) -> Moves:
    """The named actions in the last `<answer>`, at most `most` of them; what follows an illegal one is not taken,
    since it was meant for another state. Case and outer spaces do not count."""
    answers, _ = split_tagged(without_thinking(action.whole), "answer")
    said = [name.strip().lower() for name in _BETWEEN.split(answers[-1])] if answers else []
    said = [name for name in said if name]
    if not said:
        return Moves(illegal=1, error=CUT if action.cut else NONE)
    first = next((index for index, name in enumerate(said) if name not in legal), len(said))
    taken = tuple(said[: min(first, most)])
    if first < min(len(said), most):
        error = f"{clip_text(said[first], 40)!r} is no action; the actions are {', '.join(legal)}"
    elif len(said) > most:
        error = f"{len(said)} actions are too many; a turn has at most {most}"
    else:
        error = None
    return Moves(taken, len(said) - len(taken), error)


class WorldConfig(EnvConfig):
    """Options of every world."""

    actions_per_turn: int = Field(1, ge=1)
    """Most actions of one turn, `<answer>left, down</answer>`; the policy sees only the state after the last one."""
    illegal_penalty: float = Field(0.0, ge=0)
    """Taken from the reward of a turn with an action that cannot be read or does not exist."""
    rules: str | None = None
    """What the first message says before the state; null: which actions there are and how to write them; empty:
    nothing."""
    max_characters: int = Field(4000, ge=1)
    """Most characters of a state's text; the rest is cut and marked."""


@dataclass(frozen=True)
class Outcome:
    """The world's answer to one action."""

    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    """A limit outside the MDP cut the episode (LAW 5)."""
    success: bool | None = None
    """Whether the goal is reached; None: the world does not say."""


class World(ToolEnv):
    """One episode in a world. The start comes from `task.seed`; what happens by chance later, from `services.rng`."""

    Config = WorldConfig
    metrics: ClassVar = (
        Metric("moves", "actions that the world took in a turn"),
        Metric("illegal", "actions of a turn that are illegal, unreadable or too many", better="lower"),
    )

    def __init__(self, config: ComponentConfig | None = None, services: EnvServices | None = None) -> None:
        super().__init__(config, services)
        self._outcome = Outcome()

    def begin(self, seed: int) -> None:
        """Draw the start from the seed."""
        raise TypeError(f"world {type(self).__name__} defines no begin(seed); add one")

    def move(self, action: int) -> Outcome:
        """Take an action by its number."""
        raise TypeError(f"world {type(self).__name__} defines no move(action); add one")

    def show(self) -> str:
        raise TypeError(f"world {type(self).__name__} defines no show(); add one")

    def actions(self) -> Mapping[str, int]:
        """The actions' numbers by name (lower case)."""
        raise TypeError(f"world {type(self).__name__} defines no actions(); add one")

    @classmethod
    def uses_tools(cls) -> bool:
        """Actions are words, not calls."""
        return False

    def instructions(self) -> str:
        """Which actions there are, and how to write them."""
        names, most = tuple(self.actions()), self.config.actions_per_turn
        how = "Write it as " if most == 1 else f"Write one, or up to {most} in order, as "
        example = names[0] if most == 1 or len(names) == 1 else f"{names[0]}, {names[1]}"
        actions = f"Actions: {', '.join(names)}. "
        return Markup.of([actions, how, Markup("<answer>"), example, Markup("</answer>"), "."])

    def reset(self, task: Task) -> Observation:
        """The rules and the first state."""
        self.begin(abs(task.seed) if task.seed is not None else zlib.crc32(task.id.encode()))
        rules = self.config.rules
        return self._observe(self.instructions() if rules is None else Markup(rules))

    def step(self, action: Action) -> Step:
        """Take the turn's actions one after the other, until the episode ends."""
        moves = read_moves(action, self.actions(), self.config.actions_per_turn)
        names, reward, taken = self.actions(), 0.0, 0
        for name in moves.names:
            self._outcome = self.move(names[name])
            reward += self._outcome.reward
            taken += 1
            if self._outcome.terminated or self._outcome.truncated:
                break
        last = self._outcome
        over = last.terminated or last.truncated
        error = None if over else moves.error
        return Step(
            Observation() if over else self._observe(Markup.of(["Error: ", error, "."]) if error else ""),
            reward=reward - (self.config.illegal_penalty if moves.error else 0.0),
            terminated=last.terminated,
            truncated=last.truncated and not last.terminated,
            success=last.success,
            errors=[moves.error] if moves.error else [],
            info={"moves": taken, "illegal": moves.illegal},
        )

    def _observe(self, before: str) -> Observation:
        text = self.show()
        shown = clip_text(text, self.config.max_characters)
        content = Markup.of([before, "\n", shown]) if before else shown
        key = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()
        return Observation([{"role": "user", "content": content}], state_key=key)
