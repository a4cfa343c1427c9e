"""What the programs share: an episode, a tool, and how a program plays: one episode as a command, or many as functions.

A task with a seed asks further questions, and cuts some replies short.
"""

import json
import os
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from threading import Thread
from typing import Any

MOST_CALLS = 4
PLAIN: dict[str, Any] = {"verify": False}
"""For an SDK's HTTP client: the gateway has no certificate, and reading those that there are takes 40 ms a client."""
DESCRIPTION = "Says where somebody was born."
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}


@dataclass
class Episode:
    """One episode; where no address is given, a client finds it in the environment."""

    task: dict[str, Any]
    base_url: str | None = None
    anthropic_base_url: str | None = None
    api_key: str | None = None
    chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.task["seed"])

    @property
    def questions(self) -> list[str]:
        """What the user says, one after the other."""
        return [self.task["prompt"], *["And who else was born there?"] * ((self.task["seed"] or 0) % 3)]

    def most_tokens(self) -> int:
        """Most tokens of the next reply."""
        return 12 if self.task["seed"] is not None and self.chance.random() < 0.2 else 1024


def look_up(name: str) -> str:
    """Says where somebody was born."""
    return {"Karimo": "Karimo was born in Tavelo."}.get(name, "Nothing is known.")


def called(name: str, arguments: Any) -> str:
    """What becomes of a call, whatever the model wrote; `arguments` is JSON or an object."""
    try:
        given = json.loads(arguments) if isinstance(arguments, str) else arguments
        return look_up(**given) if name == "look_up" else f"Error: there is no tool {name}."
    except (TypeError, ValueError) as error:
        return f"Error: {error}"


def play(run: Callable[[Episode], str | None]) -> None:
    """Play the episode of this process, or, as `PROGRAM ... --listen SOCKET`, every one that is sent there."""
    if "--listen" not in sys.argv:
        answer = run(Episode(json.loads(Path(os.environ["AGENT_R1_TASK"]).read_text())))
        print(json.dumps({"answer": answer}))
        return
    with Listener(sys.argv[-1], "AF_UNIX", backlog=64) as listener:
        print("ready", flush=True)
        while True:
            Thread(target=_answer, args=(run, listener.accept()), daemon=True).start()


def _answer(run: Callable[[Episode], str | None], asked: Connection) -> None:
    with asked:
        try:
            asked.send((run(Episode(**asked.recv())), None))
        except Exception as error:
            asked.send((None, repr(error)))
