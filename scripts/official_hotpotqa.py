"""Holds the scorers against HotpotQA's official `hotpot_evaluate_v1.py`, unaltered, on generated pairs.

    python scripts/official_hotpotqa.py hotpot_evaluate_v1.py --pairs 20000

The file is in github.com/hotpotqa/hotpot; this project has no copy. Each pair is scored by the file's own functions and
by ours, to the last bit. It imports ujson; where that is not installed, Python's json takes its place under that name.
Ends with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from runpy import run_path

from agent_r1_core.metrics.scorers import exact_match_score, f1_score

Pair = tuple[str, str]
"""A prediction and the one accepted answer."""

_WORDS = [
    "Paris", "obama", "Barack", "U.S.A.", "New", "York", "1961", "3,000", "$5", "50%", "can't", "rock'n'roll", "A.",
    "anthem", "thesis", "an-hour", "theend", "É́cole", "naïve", "straße", "İstanbul", "ﬁlm", "東京", "Москва", "😀",
    "“quoted”", "–", "…", "«a»", "the", "The", "THE", "a", "A", "an", "An", "ａ", "Ⅷ", "x₂", "​", "ǆ",
]  # fmt: skip
_CLOSED = ["yes", "no", "noanswer", "Yes", "NO", "No Answer", "yes.", "the yes", "no!", "noAnswer", "yes no", "(no)"]
_SPACES = [" ", " ", " ", "  ", "\t", "\n", "\u00a0", "\u2003", "\u3000", "\x1c", "\x85", "_", "-", "/", ""]
_MARKS = [*"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", "’", "、", "¿", "°", "·"]


def pairs(count: int) -> list[Pair]:
    """Predictions and answers with odd punctuation, articles, Unicode, yes, no and noanswer, and empty texts."""
    rng = random.Random(0)
    return [_pair(rng) for _ in range(count)]


def _pair(rng: random.Random) -> Pair:
    answer = _text(rng)
    prediction = _text(rng) if rng.random() < 0.3 else _changed(answer, rng)
    return (prediction, answer) if rng.random() < 0.5 else (answer, prediction)


def _text(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.06:
        return rng.choice(["", " ", "\n", "the", "A an the", "...", "\u00a0", "?!"])
    if kind < 0.2:
        return rng.choice(_CLOSED)
    words = (rng.choice(_WORDS) + (rng.choice(_MARKS) if rng.random() < 0.2 else "") for _ in range(rng.randint(1, 6)))
    return "".join(word + rng.choice(_SPACES) for word in words)


def _changed(text: str, rng: random.Random) -> str:
    """The text in another dress, or with words more or less."""
    for _ in range(rng.randint(0, 3)):
        place, words = rng.randint(0, len(text)), text.split(" ")
        text = rng.choice([
            text.upper(), text.lower(), text.title(), text.swapcase(), text.casefold(), f"the {text}", f"{text} a",
            text[:place] + rng.choice(_MARKS) + text[place:], text[:place] + rng.choice(_SPACES) + text[place:],
            " ".join(words[1:]), " ".join(words + words[:1]), " ".join(rng.sample(words, len(words))),
            f"{text} {rng.choice(_WORDS)}", f"{rng.choice(_CLOSED)} {text}", text[:place],
        ])  # fmt: skip
    return text


def differences(file: Path, cases: Sequence[Pair]) -> list[str]:
    """A sentence for every pair that the official file's functions score otherwise."""
    if find_spec("ujson") is None:
        sys.modules["ujson"] = json
    official = run_path(str(file), run_name=file.stem)  # as an import, so that its last lines do nothing
    found = []
    for prediction, answer in cases:
        theirs = (float(official["exact_match_score"](prediction, answer)), official["f1_score"](prediction, answer)[0])
        ours = (exact_match_score(prediction, answer), f1_score(prediction, answer))
        if theirs != ours:
            found.append(f"{prediction!r} for {answer!r}: official em, f1 = {theirs}, ours {ours}")
    return found


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("file", type=Path, help="hotpot_evaluate_v1.py as its authors publish it")
    options.add_argument("--pairs", type=int, default=20_000)
    chosen = options.parse_args()
    if not chosen.file.is_file():
        options.error(f"there is no file {chosen.file}; get hotpot_evaluate_v1.py from github.com/hotpotqa/hotpot")
    cases = pairs(chosen.pairs)
    scores = [f1_score(*case) for case in cases]
    found = differences(chosen.file, cases)
    print(f"sha256 of {chosen.file.name}: {hashlib.sha256(chosen.file.read_bytes()).hexdigest()}")
    print(f"{len(cases)} pairs, of which {sum(0 < f1 < 1 for f1 in scores)} overlap in part")
    print("\n".join([f"{len(found)} differences", *found[:10]]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
