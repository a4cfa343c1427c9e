"""The helper of `textworld`, a program for the Python that has it: it plays many games, one command after the other.

TextWorld plays by jericho, which is GPL-2.0: neither is ever imported by agent-r1.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from typing import Any

OUT = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)  # whatever the packages print

PROMPT = re.compile(r"\s*\n>[^\n]*\Z")
"""What the game says behind its answer: where it waits, with the room and the score at the right."""
GAMES: dict[str, Any] = {}


def begin(episode: str, game: str) -> dict[str, Any]:
    import textworld

    asked = textworld.EnvInfos(objective=True, description=True, admissible_commands=True, won=True, lost=True)
    asked.max_score = asked.score = True
    GAMES[episode] = env = textworld.start(game, asked)
    state = env.reset()
    return {**told(state, done=False), "text": neat(f"{state.objective}\n\n{state.description}")}


def act(episode: str, command: str) -> dict[str, Any]:
    state, _, done = GAMES[episode].step(command)
    return told(state, done)


def told(state: Any, done: bool) -> dict[str, Any]:
    return {
        "text": neat(PROMPT.sub("", state.feedback)),
        "commands": sorted(state.admissible_commands or ()),
        "score": state.score or 0,
        "most": state.max_score or 1,
        "done": bool(done),
        "won": bool(state.won),
    }


def neat(text: str) -> str:
    return re.sub(r"\s*\n\s*\n", "\n", text).strip()


def end(episode: str) -> None:
    if (env := GAMES.pop(episode, None)) is not None:
        env.close()


def main() -> None:
    """Answer in a folder of its own: some games write where they are."""
    with tempfile.TemporaryDirectory(prefix="textworld-") as place:
        os.chdir(place)
        answer()


def answer() -> None:
    does: dict[str, Any] = {"begin": begin, "act": act, "end": end}
    for line in sys.stdin:
        asked = json.loads(line)
        number, do = asked.pop("id"), asked.pop("do")
        try:
            reply = {"value": does[do](**asked)}
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        OUT.write(json.dumps({"id": number, **reply}) + "\n")
        OUT.flush()


if __name__ == "__main__":
    main()
