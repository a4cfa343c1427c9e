"""What the worlds model is taught from: legal and aimless play in the four worlds.

Every action is drawn at random among those that are legal and change something: no step against the edge of the lake or
a wall, but into a hole as readily as anywhere; either arm of the bandit; numbers put together at random, whatever the
target. On the lake it also repeats what it was told, the newest message or another. So the model learns to read and to
write the worlds' formats, and nothing about what is good in them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from agent_r1_countdown.env import Countdown
from agent_r1_gymnasium.bandit import ARMS, Bandit
from agent_r1_gymnasium.frozen_lake import FrozenLake
from agent_r1_gymnasium.sokoban import Sokoban
from tiny_model.demonstrations import Demonstration, Message, answer

from agent_r1_core import Action, EnvServices, Observation, Step, Task, ToolEnv

MIXTURE: dict[str, float] = {"frozen_lake": 0.24, "notes": 0.08, "sokoban": 0.10, "countdown": 0.50, "bandit": 0.08}
"""Share of each world, and of notes taken on the lake."""
STEPS = {"left": (0, -1), "down": (1, 0), "right": (0, 1), "up": (-1, 0)}
TURNS = {"frozen_lake": 8, "sokoban": 4, "countdown": 3, "bandit": 3}
"""Most turns of an episode."""
IN_ORDER = 0.6
"""How often Countdown's numbers keep their order, which is easier to write than another one."""
ASK, HEADING = "Where are you?", "Notes:"
"""Asks for a note, and stands before it."""
FIRST_SEED = 100_000
"""Far from the seeds of recipes, and below those that are held out."""


class Aimless:
    """An endless, seeded stream of episodes."""

    def __init__(self, seed: int, mixture: Mapping[str, float] = MIXTURE) -> None:
        self.rng, self.mixture = random.Random(f"aimless/{seed}"), dict(mixture)
        self.players: dict[str, Callable[[int], Demonstration]] = {
            "frozen_lake": self.frozen_lake,
            "notes": self.notes,
            "sokoban": self.sokoban,
            "countdown": self.countdown,
            "bandit": self.bandit,
        }

    def __iter__(self) -> Iterator[Demonstration]:
        while True:
            (name,) = self.rng.choices(list(self.mixture), list(self.mixture.values()))
            yield self.players[name](self.rng.randrange(FIRST_SEED, 10 * FIRST_SEED))

    def frozen_lake(self, seed: int) -> Demonstration:
        """Steps that stay on the lake."""
        view, most = self.rng.choice(("around", "around", "around", "both", "grid")), self._most()
        options = {"view": view, "actions_per_turn": most, "success_rate": self.rng.choice((0.8, 0.8, 1.0))}
        return self._play("frozen_lake", FrozenLake, options, seed, lambda text: self._on_the_lake(text, most))

    def notes(self, seed: int) -> Demonstration:
        """A note on where one stands, which may be long ago; or steps from such a note on."""
        walk = self._play("frozen_lake", FrozenLake, {"view": "around"}, seed, lambda text: self._on_the_lake(text, 1))
        messages = walk.messages
        seen = [message["content"] for message in messages[2::2]]
        if not seen:
            return walk
        last = self.rng.randrange(len(seen))
        if self.rng.random() < 0.5:
            note = seen[last] if self.rng.random() < 0.5 else self.rng.choice(seen[: last + 1])
            asked: list[Message] = [{"role": "user", "content": ASK}, {"role": "assistant", "content": note}]
            return Demonstration([*messages[: 2 * last + 3], *asked])
        return Demonstration(
            [messages[0], {"role": "user", "content": f"{HEADING}\n{seen[last]}"}, *messages[2 * last + 3 :]]
        )

    def sokoban(self, seed: int) -> Demonstration:
        """Steps and pushes that nothing blocks."""
        most = self._most()
        options = {"actions_per_turn": most, "pulls": self.rng.randint(1, 6)}
        return self._play("sokoban", Sokoban, options, seed, lambda text: self._in_the_room(text, most))

    def bandit(self, seed: int) -> Demonstration:
        """Either arm."""
        return self._play("bandit", Bandit, {"pulls": self.rng.randint(1, 3)}, seed, lambda text: self.rng.choice(ARMS))

    def countdown(self, seed: int) -> Demonstration:
        """Every number once, with any signs, more often than not in the order in which they stand."""
        tries, numbers = self.rng.choice((1, 1, 3)), self.rng.choice((3, 3, 3, 4))
        held: list[str] = []

        def write(text: str) -> str:
            found = re.search(r"Numbers: ([\d ]+)\.", text)
            held[:] = found[1].split() if found else held
            return self._expression(held)

        return self._play("countdown", Countdown, {"tries": tries, "numbers": numbers}, seed, write)

    def _most(self) -> int:
        return self.rng.choice((1, 1, 1, 1, 2, 3))

    def _play(
        self, name: str, cls: type[ToolEnv], options: Mapping[str, object], seed: int, act: Callable[[str], str]
    ) -> Demonstration:
        env = cls(cls.Config(**options), EnvServices(rng=random.Random(self.rng.random())))
        observation = env.reset(Task(str(seed), "Begin.", seed=seed))
        messages: list[Message] = []
        for _ in range(TURNS[name]):
            assert isinstance(observation, Observation)
            messages += [{"role": message["role"], "content": message["content"]} for message in observation.messages]
            messages.append({"role": "assistant", "content": answer(act(messages[-1]["content"]))})
            step = env.step(Action(messages[-1]["content"]))
            assert isinstance(step, Step)
            assert not step.errors, step.errors
            if step.terminated or step.truncated:
                break
            observation = step.observation
        env.close()
        return Demonstration(messages)

    def _on_the_lake(self, text: str, most: int) -> str:
        found = re.search(r"at (\d) (\d):", text)
        row, column = (int(found[1]), int(found[2])) if found else divmod(_grid(text).replace("\n", "").index("P"), 4)
        names = []
        for _ in range(self.rng.randint(1, most)):
            to = {name: (row + down, column + right) for name, (down, right) in STEPS.items()}
            names.append(self.rng.choice([name for name, cell in to.items() if min(cell) >= 0 and max(cell) < 4]))
            row, column = to[names[-1]]
        return ", ".join(names)

    def _in_the_room(self, text: str, most: int) -> str:
        rows = _grid(text).split("\n")
        row, column = next((r, max(line.find("P"), line.find("S"))) for r, line in enumerate(rows) if {*line} & {*"PS"})
        free = [name for name, step in STEPS.items() if not _blocked(rows, row, column, step)]
        first = [self.rng.choice(free or list(STEPS))]
        return ", ".join([*first, *self.rng.choices(list(STEPS), k=self.rng.randint(1, most) - 1)])

    def _expression(self, numbers: Sequence[str]) -> str:
        rng, parts = self.rng, list(numbers)
        if rng.random() > IN_ORDER:
            rng.shuffle(parts)
        signs = rng.choices("+-*/", (4, 3, 3, 1), k=len(parts) - 1)
        text = parts[0] + "".join(f" {sign} {part}" for sign, part in zip(signs, parts[1:], strict=True))
        if rng.random() < 0.4:
            first, second, rest = parts[0], parts[1], zip(signs[1:], parts[2:], strict=True)
            text = f"({first} {signs[0]} {second})" + "".join(f" {sign} {part}" for sign, part in rest)
        return text


def _grid(text: str) -> str:
    """The lines of a message that draw a map."""
    return "\n".join(line for line in text.split("\n") if line and not set(line) - set("P_OGXS#√"))


def _blocked(rows: list[str], row: int, column: int, step: tuple[int, int]) -> bool:
    near, far = rows[row + step[0]][column + step[1]], None
    if near in "X√":
        far = rows[row + 2 * step[0]][column + 2 * step[1]]
    return near == "#" or far in ("#", "X", "√")
