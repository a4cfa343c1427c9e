"""Tokens of an episode have the numbers of the file, and whatever a text holds, it is shown as text."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from asking import arrive, shown

from agent_r1_core.runs.trajectory_file import write_trajectories
from agent_r1_core.testing.trajectories import make_task, make_trajectory
from agent_r1_core.trajectory import CallRecord, EndStatus, Trajectory

Open = Callable[..., Any]

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


def test_an_episode_of_an_evaluation_is_shown(open_planted: Open, planted: Path) -> None:
    page = open_planted("evaluations/step_000003/episodes/0?view=tokens")
    row = pq.read_table(planted / "evaluations/step_000003.parquet").to_pylist()[0]
    check_tokens(page.evaluate(EVERY_TOKEN, len(row["ids"])), row)
    page.keyboard.press("j")
    arrive(page, "episode 1 of step_000003")
    assert page.evaluate("location.hash") == "#/runs/planted/evaluations/step_000003/episodes/1?view=tokens"


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


MARKUP = (
    "<script>window.harmed=1;alert(1)</script><img src=x onerror='window.harmed=2'><svg onload='window.harmed=3'>"
    "</pre></div></script><style>*{display:none}</style><a href='javascript:window.harmed=4'>a</a>"
    "<iframe srcdoc='<script>parent.harmed=5</script>'></iframe>{{7*7}}${7*7}&lt;b&gt;"
)
SIGNS = "\u202eneddih\u202c \u2066isolated\u2069 \u200bnothing \x00\x07\x1b[31m \u2028 \ufeff \U000e0041 \ud800"
SHOWN = r"\u202eneddih\u202c \u2066isolated\u2069 \u200bnothing \u0000\u0007\u001b[31m \u2028 \ufeff \u{e0041} ?"
"""As pages show the signs; a file holds no half of a surrogate pair, but a question mark."""
HOSTILE = MARKUP + SIGNS
LONG = 10_000_000


def hostile(sample: int, answer_of_tool: str, **more: Any) -> Trajectory:
    """An episode whose every text is hostile."""
    one = make_trajectory(
        task=make_task(f"task {HOSTILE}", HOSTILE, (HOSTILE,)),
        sample=sample,
        texts=(HOSTILE, HOSTILE),
        answer=HOSTILE,
        reason=HOSTILE,
        rewards={HOSTILE: 1.0},
        turn_rewards=[0.5, 0.0],
        **more,
    )
    one.turns[0].observation = [{"role": HOSTILE, "name": HOSTILE, "content": HOSTILE}]
    one.turns[0].rewards, one.turns[0].errors = {HOSTILE: 0.5}, [HOSTILE]
    one.turns[0].calls = [CallRecord(HOSTILE, {HOSTILE: [HOSTILE]}, HOSTILE, 0.1)]
    one.turns[1].observation = [{"role": "tool", "name": "tool", "content": answer_of_tool}]
    one.turns[1].info = {HOSTILE: HOSTILE}
    one.closing = [{"role": "tool", "content": HOSTILE}]
    return one


def spoil(run: Path) -> None:
    """Every text of the run's own files is hostile, too."""
    (run / "config.yaml").write_text(json.dumps({HOSTILE: HOSTILE, "algorithm": {"name": HOSTILE}}))
    (run / "metrics.jsonl").write_text(json.dumps({"step": 1, HOSTILE: 1.0}) + "\n")
    about = {"name": HOSTILE, "unit": HOSTILE, "better": "higher", "meaning": HOSTILE}
    (run / "metric_catalogue.json").write_text(json.dumps([about]))
    alarm = {"monitor": HOSTILE, "step": 1, "since": 1, "event": "begins", "value": 1.0, "threshold": 0.5}
    (run / "health.jsonl").write_text(json.dumps(alarm | {"severe": True, "sentence": HOSTILE}) + "\n")
    event = {"time": 1.0, "step": 1, "event": "note", "text": HOSTILE}
    (run / "events.jsonl").write_text(json.dumps(event) + "\n")
    for path in sorted((run / "evaluations").glob("step_*.jsonl")):
        records = [json.loads(line) for line in path.read_text().splitlines()]
        records[0] |= {"question": HOSTILE, "answers": [HOSTILE], "prediction": HOSTILE}
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        found = json.loads(path.with_suffix(".json").read_text())
        found["episodes"]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
        path.with_suffix(".json").write_text(json.dumps(found | {"headline": HOSTILE}))


@pytest.fixture(scope="module")
def address(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    run = tmp_path_factory.mktemp("hostile") / "hostile"
    shutil.copytree(recorded / "grpo", run, ignore=shutil.ignore_patterns("checkpoints"))
    lines = ("all work and no play\n" * (LONG // 21 + 1))[:LONG]
    episodes = [hostile(0, HOSTILE), hostile(1, lines), hostile(2, "x" * LONG)]
    episodes.append(hostile(3, HOSTILE, status=EndStatus.FAILED))
    write_trajectories(run / "trajectories/step_000003.parquet", 3, episodes)
    spoil(run)
    with shown(run) as place:
        yield place


@pytest.fixture
def open_hostile(open_page: Open, address: str) -> Iterator[Open]:
    """Opens pages of the run; at the end of the test nothing may have been executed in any of them."""
    opened = []

    def open_at(place: str, **options: Any) -> Any:
        page = open_page(f"#/runs/hostile/{place}", at=address, **options)
        page.on("dialog", lambda dialog: dialog.dismiss() or pytest.fail(f"a page opened a dialog: {dialog.message}"))
        opened.append(page)
        return page

    yield open_at
    for page in opened:
        assert page.evaluate("window.harmed") is None
        assert page.locator("#page").locator("script, img, svg, iframe, style").count() == 0
        assert page.evaluate("getComputedStyle(document.querySelector('h1, .question, nav')).display") != "none"


PLACES = ["", "evaluations", "steps/3", "steps/3/groups/0", "steps/3/episodes/0", "steps/3/episodes/0?view=tokens",
          "steps/3/episodes/3", "search?text=harmed"]  # fmt: skip
LABELS = "all => all.map((one) => `${one.title}${one.ariaLabel}`).join()"


@pytest.mark.parametrize("place", PLACES)
def test_hostile_text_is_text(open_hostile: Open, place: str) -> None:
    page = open_hostile(place, width=390)
    page.get_by_text("window.harmed=1").first.wait_for()
    text = page.locator("#page").text_content()
    told = page.locator("#page [title], #page [aria-label]").evaluate_all(LABELS)
    assert not set("\u202e\u202c\u2066\u2069\u200b\x00\x07\x1b\u2028\ufeff\U000e0041") & set(text + told)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if place == "steps/3/episodes/0":
        assert page.locator(".turn[data-turn='0'] .message .text").first.text_content() == MARKUP + SHOWN


@pytest.mark.parametrize("row", [1, 2])
def test_ten_million_characters_are_shown_on_demand(open_hostile: Open, row: int) -> None:
    page = open_hostile(f"steps/3/episodes/{row}")
    answer = page.locator(".turn[data-turn='1'] .message.tool")
    assert len(answer.locator(".text").text_content()) < 20_000
    answer.get_by_role("button", name=f"show all {LONG:,} characters").click()
    answer.locator(".text.part").first.wait_for(state="attached")
    lines = answer.locator(".text.part").evaluate_all("all => all.map((one) => one.textContent.length)")
    breaks = len(lines) - 1 if row == 1 else 0
    assert sum(lines) + breaks == LONG, "blocks end where lines do, or in the middle of a very long one"
