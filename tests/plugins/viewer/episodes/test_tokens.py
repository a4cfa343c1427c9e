"""The tokens of an episode: the numbers of every one equal the file, and its colour follows them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

Open = Callable[..., Any]
Arrive = Callable[[Any, str], None]

EVERY_TOKEN = """(count) => {
  const tokens = document.querySelector(".tokens");
  const found = [];
  for (let index = 0; index < count; index += 1) {
    tokens.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
    const facts = [...document.querySelectorAll(".token-panel dd")].map((one) =>
      [one.dataset.name, one.querySelector("data")?.value ?? one.textContent]);
    found.push({ ...Object.fromEntries(facts), text: document.querySelector(".shown-token").textContent });
  }
  return found;
}"""
"""Goes through the tokens with the arrow key, and reads the panel of each."""
NONE = "–"


def rows_of(run: Path, step: int) -> list[dict[str, Any]]:
    return pq.read_table(run / f"trajectories/step_{step:06d}.parquet").to_pylist()


def sampled_by(row: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The turn that sampled each token, and the version of the weights; a dash where it was not sampled."""
    starts = [sum(row["segment_lengths"][:segment]) for segment in range(len(row["segment_lengths"]))]
    turns, versions = [NONE] * len(row["ids"]), [NONE] * len(row["ids"])
    for number_of_turn, turn in enumerate(json.loads(row["turns"])):
        place = starts[turn["segment"]] + turn["start"]
        for version, count in turn["versions"]:
            turns[place : place + count] = [str(number_of_turn)] * count
            versions[place : place + count] = [str(version)] * count
            place += count
    return turns, versions


def number(shown: str) -> float | None:
    return None if shown == NONE else float(shown)


def check_tokens(shown: Sequence[dict[str, str]], row: dict[str, Any]) -> None:
    """Hold what the panel said of every token against the file."""
    assert len(shown) == len(row["ids"])
    turns, versions = sampled_by(row)
    for place, token in enumerate(shown):
        known = {}
        for name in ("logprobs", "advantages", "learner_logprobs", "values"):
            value = row[name][place] if row[name] and row["mask"][place] else None
            known[name] = None if value is None or math.isnan(value) else value
        engine, learner = known["logprobs"], known["learner_logprobs"]
        assert int(token["id"]) == row["ids"][place]
        assert token["action mask"].startswith(str(row["mask"][place]))
        assert number(token["log-prob"]) == engine
        assert number(token["advantage"]) == known["advantages"]
        assert number(token["value"]) == known["values"]
        assert number(token["learner's log-prob"]) == learner
        assert number(token["gap"]) == (None if learner is None or engine is None else learner - engine)
        assert (token["turn"], token["version"]) == (turns[place], versions[place])
        chance = None if engine is None else pytest.approx(math.exp(engine), rel=1e-3)
        assert number(token["probability"]) == chance


@pytest.mark.parametrize("name", ["ppo", "summary"])
def test_every_token_shows_what_the_file_holds(open_page: Open, recorded: Path, name: str) -> None:
    from transformers import AutoTokenizer

    rows = rows_of(recorded / name, 3)
    most = max(range(len(rows)), key=lambda place: (len(rows[place]["segment_lengths"]), len(rows[place]["ids"])))
    row = rows[most]
    page = open_page(f"#/runs/{name}/steps/3/episodes/{most}?view=tokens")
    shown = page.evaluate(EVERY_TOKEN, len(row["ids"]))
    check_tokens(shown, row)
    tokenizer = AutoTokenizer.from_pretrained(recorded / name / "model")
    decoded = [tokenizer.decode([token]) for token in row["ids"]]
    whole = [(text, token["text"]) for text, token in zip(decoded, shown, strict=True) if "\ufffd" not in text]
    assert [text.replace("\n", "↵") for text, _ in whole] == [text.replace("·", " ") for _, text in whole]
    assert len(whole) > len(decoded) / 2
    assert page.locator(".segment").count() == len(row["segment_lengths"])
    assert (name == "summary") == (len(row["segment_lengths"]) > 1)
    assert (name == "ppo") == (row["values"] is not None)


def test_rewards_are_at_their_turns_and_tokens(open_planted: Open, planted: Path) -> None:
    page = open_planted("steps/2/episodes/1")
    marks = [page.locator(f".turn[data-turn='{turn}'] header .mark").all_inner_texts() for turn in range(3)]
    assert marks == [["process reward +0.5"], ["process reward −0.25"], []], "a turn that nothing scores has no mark"
    assert "= outcome 0 + process +0.25" in page.locator(".returns").inner_text()
    page.keyboard.press("t")
    marks = [page.locator(".run.action").nth(turn).locator(".mark").all_inner_texts() for turn in range(3)]
    assert marks == [["process reward +0.5"], ["process reward −0.25"], ["outcome 0"]]
    row = rows_of(planted, 2)[1]
    shown = page.evaluate(EVERY_TOKEN, len(row["ids"]))
    check_tokens(shown, row)
    paid = {place: token["reward here"] for place, token in enumerate(shown) if token["reward here"] != NONE}
    assert paid == {4: "process +0.5", 9: "process −0.25", 12: "outcome 0"}


def test_an_episode_of_an_evaluation_is_shown(open_planted: Open, planted: Path, arrive: Arrive) -> None:
    page = open_planted("evaluations/step_000003/episodes/0?set=sea&view=tokens")
    row = pq.read_table(planted / "evaluations/step_000003.sea.parquet").to_pylist()[0]
    check_tokens(page.evaluate(EVERY_TOKEN, len(row["ids"])), row)
    page.keyboard.press("j")
    arrive(page, "episode 1 of step_000003")
    assert page.evaluate("location.hash") == "#/runs/planted/evaluations/step_000003/episodes/1?set=sea&view=tokens"


PLAIN = "all => all.map((one) => getComputedStyle(one).backgroundColor === 'rgba(0, 0, 0, 0)')"
POSITIONS = """(all) => all.map((one) =>
  [one.classList.contains("below"), parseFloat(one.style.getPropertyValue("--at"))])"""


def test_colours_follow_the_numbers_and_leave_given_tokens_plain(open_planted: Open, planted: Path) -> None:
    page = open_planted("steps/2/episodes/0?view=tokens")
    row = rows_of(planted, 2)[0]
    tokens = page.locator(".tokens .token")
    sampled = [place for place, bit in enumerate(row["mask"]) if bit]
    values = [row["values"][place] for place in sampled]
    low, high = min(values), max(values)
    strengths = {
        "advantage": [row["advantages"][place] / 2 for place in sampled],
        "logprob": [1 - math.exp(row["logprobs"][place]) for place in sampled],
        "value": [(value - low) / (high - low) for value in values],
        "gap": [(row["learner_logprobs"][place] - row["logprobs"][place]) / 0.01 for place in sampled],
        "version": [int(sampled_by(row)[1][place]) - 4 for place in sampled],
    }
    for key, expected in strengths.items():
        page.locator(f".legend button[data-key={key}]").click()
        found, plain = tokens.evaluate_all(POSITIONS), tokens.evaluate_all(PLAIN)
        assert plain == [bit == 0 for bit in row["mask"]]
        for place, strength in zip(sampled, expected, strict=True):
            assert found[place] == [strength < 0, pytest.approx(100 * abs(strength), abs=0.06)], key
