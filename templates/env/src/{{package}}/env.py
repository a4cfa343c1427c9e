"""The environment `{{name}}`: guess a number, told higher or lower after each guess."""

from __future__ import annotations

import random
import re

from pydantic import Field

from agent_r1_core import Action, EnvConfig, EnvServices, Observation, Step, Task, ToolEnv

GUESS = re.compile(r"<answer>\s*(\d{1,9})\s*</answer>")


class {{class}}(ToolEnv):
    """Find a secret number; every guess narrows it down."""

    class Config(EnvConfig):
        """What a recipe may set, besides `max_turns`, `max_tokens` and `timeout`."""

        highest: int = Field(20, ge=2)
        """The secret is between 1 and this."""

    def __init__(self, config: Config | None = None, services: EnvServices | None = None) -> None:
        super().__init__(config, services)
        self._secret, self._low, self._high = 0, 1, self.config.highest

    @classmethod
    def uses_tools(cls) -> bool:
        """The game needs no tools."""
        return False

    def reset(self, task: Task) -> Observation:
        """Draw the secret from the task: all its episodes play the same game, so their rewards can be compared.

        (Draw random events during the game, such as dice, from `self.services.rng`, which differs between episodes.)
        """
        start = random.Random(task.id if task.seed is None else task.seed)
        self._secret = start.randint(1, self.config.highest)
        self._low, self._high = 1, self.config.highest
        rules = f"Guess a number from 1 to {self.config.highest}. Write each guess as <answer>number</answer>."
        return self._say(rules)

    def step(self, action: Action) -> Step:
        """Judge a guess; an action without one is answered with a reminder."""
        match = GUESS.search(action.text)
        if match is None:
            return Step(self._say("That is not a guess. Write it as <answer>number</answer>."), errors=["no guess"])
        guess = int(match.group(1))
        if guess == self._secret:
            return Step(reward=1.0, terminated=True, answer=str(guess), success=True)
        if guess < self._secret:
            self._low = max(self._low, guess + 1)
        else:
            self._high = min(self._high, guess - 1)
        hint = "higher" if guess < self._secret else "lower"
        return Step(self._say(f"The number is {hint}."), success=False, info={"left": self._high - self._low + 1})

    def _say(self, text: str) -> Observation:
        """A message to the policy; `state_key` names the state, for algorithms that compare states."""
        return Observation([{"role": "user", "content": text}], state_key=f"{self._low}-{self._high}")
