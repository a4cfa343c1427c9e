"""Whatever a run's texts hold, the pages show it as text: nothing is executed, reordered or left hanging."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from agent_r1_core.runs.trajectory_file import write_trajectories
from agent_r1_core.testing.trajectories import make_task, make_trajectory
from agent_r1_core.trajectory import CallRecord, EndStatus, Trajectory

Open = Callable[..., Any]
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
def address(
    recorded: Path, tmp_path_factory: pytest.TempPathFactory, serve: Callable[[Path], AbstractContextManager[str]]
) -> Iterator[str]:
    run = tmp_path_factory.mktemp("hostile") / "hostile"
    shutil.copytree(recorded / "grpo", run, ignore=shutil.ignore_patterns("checkpoints"))
    lines = ("all work and no play\n" * (LONG // 21 + 1))[:LONG]
    episodes = [hostile(0, HOSTILE), hostile(1, lines), hostile(2, "x" * LONG)]
    episodes.append(hostile(3, HOSTILE, status=EndStatus.FAILED))
    write_trajectories(run / "trajectories/step_000003.parquet", 3, episodes)
    spoil(run)
    with serve(run) as place:
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
