"""What the programs share: the questions of their task, a tool, and how much the model may say.

A task with a seed asks further questions, and cuts some replies short.
"""

import json
import os
import random
from pathlib import Path
from typing import Any

TASK: dict[str, Any] = json.loads(Path(os.environ["AGENT_R1_TASK"]).read_text())
SEED: int = TASK["seed"] or 0
MOST_CALLS = 4
_RANDOM = random.Random(SEED)

QUESTIONS: list[str] = [TASK["prompt"], *["And who else was born there?"] * (SEED % 3)]
DESCRIPTION = "Says where somebody was born."
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}


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


def most_tokens() -> int:
    """Most tokens of the next reply."""
    return 12 if SEED and _RANDOM.random() < 0.2 else 1024


def say(answer: str | None) -> None:
    """End with this answer."""
    print(json.dumps({"answer": answer}))
