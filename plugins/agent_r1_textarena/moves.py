"""Moves of the opponent `random`: one that the game lists, or that Nim allows."""

from __future__ import annotations

import re
from random import Random

from agent_r1_core import EpisodeError

_LISTED = re.compile(r"'(\[[^\[\]']+\])'")
_PILE = re.compile(r"^\s*pile (\d+): (\d+)$", re.MULTILINE)


def random_move(text: str, rng: Random) -> str:
    """A move at random among those that a player's observation lists as `'[move]'`, in its last line with any; in Nim
    among all that are legal.

    Raises:
        EpisodeError: it lists none.
    """
    piles = [(pile, int(count)) for pile, count in _PILE.findall(text)]
    moves = [f"[{pile} {taken}]" for pile, count in piles for taken in range(1, count + 1)]
    listed = [found for line in text.splitlines() if (found := _LISTED.findall(line))]
    if not moves and not listed:
        raise EpisodeError("the game lists no moves for env.opponent=random; name a function or a model as opponent")
    return rng.choice(moves or listed[-1])
