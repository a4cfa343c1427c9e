"""What the tiny model can do: exact match and pass@8 on unseen worlds, and the causes of its failures."""

from __future__ import annotations

import re
from collections import Counter

from agent_r1_miniwiki.source import MiniWiki
from transformers import PreTrainedTokenizerFast, Qwen2ForCausalLM

from tiny_model.demonstrations import UNKNOWN
from tiny_model.episodes import Episode, Search, play

SAMPLES = 8
SIZE = 200


def measure(model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, size: int = SIZE) -> dict[str, float]:
    """Greedy exact match by hops, pass@8 and mean exact match at temperature 1 on 2-hop questions, failures by cause
    (shares of all greedy 2-hop episodes), and exact match when the tool finds nothing."""
    model.eval()
    out: dict[str, float] = {}
    for hops in (1, 2, 3):
        source = MiniWiki(MiniWiki.Config(split="eval", hops=(hops,), size=size))
        tasks, search = source.load(), Search(source.corpus())
        episodes = play(model, tokenizer, tasks, search)
        out[f"greedy exact match, {hops} hops"] = sum(e.correct for e in episodes) / size
        if hops == 2:
            causes = Counter(cause(e) for e in episodes if not e.correct)
            out.update({f"failure: {name}": causes[name] / size for name in CAUSES})
            nothing = play(model, tokenizer, tasks, None)
            out["greedy exact match, 2 hops, tool finds nothing"] = sum(e.correct for e in nothing) / size
            samples = play(model, tokenizer, [t for t in tasks for _ in range(SAMPLES)], search, temperature=1.0)
            hits = [sum(e.correct for e in samples[i : i + SAMPLES]) for i in range(0, len(samples), SAMPLES)]
            out["exact match at temperature 1, 2 hops"] = sum(hits) / len(samples)
            out[f"pass@{SAMPLES} at temperature 1, 2 hops"] = sum(h > 0 for h in hits) / size
    return out


CAUSES = ("copying", "syntax", "wrong hop", "early answer", "misreading")


def cause(episode: Episode) -> str:
    """Why a failed episode failed; the first that applies.

    copying: a query or answer that stands nowhere in the passages and question; syntax: malformed calls, or no answer;
    wrong hop: a passage off the path was read; early answer: not all of the path was read; misreading: all of it was,
    and another name answered.
    """
    path = set(episode.task.metadata["path"])
    said = [text for text in (*episode.queries, episode.answer) if text not in (None, UNKNOWN)]
    shown = " ".join([str(episode.task.prompt), *(f"{p.title} {p.text}" for p in episode.found)])
    if any(text not in re.findall(r"\w+", shown) for text in said):
        return "copying"
    if episode.answer is None or (episode.malformed and not episode.queries):
        return "syntax"
    read = {passage.title for passage in episode.found}
    if read - path:
        return "wrong hop"
    return "early answer" if path - read else "misreading"
