"""What turns say beside their texts: the requests of a program that they answer, and what rewards note."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from agent_r1_gateway.testing import play_program
from recorded_run import HOSTILE, episode, record

from agent_r1_core.runs.trajectory_file import read_trajectories, write_trajectories

PROGRAM = """
import json, os, urllib.request

def ask(*messages, **fields):
    body = json.dumps({"model": "policy", "messages": messages} | fields).encode()
    headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers)
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]

def user(text):
    return {"role": "user", "content": text}

print("I begin.", flush=True)
first = ask(user("Hello"))
second = ask(user("Hello"), first, user("Go on"))
ask(user("Write a title"))
tools = [{"type": "function", "function": {"name": "look"}}]
ask(user("Hello"), first, user("Go on"), second, user("Look"), tools=tools)
ask(user("Hello"), first, user("Go back"))
"""


def test_turns_name_their_requests_and_segments_say_why_they_began(
    open_page: Callable[..., Any], show: Callable[[Path], str], tmp_path: Path
) -> None:
    command = [sys.executable, "-c", PROGRAM]
    said = ["Hi", "Well", "A title", "I look", "Back"]
    with ThreadPoolExecutor() as pool:  # in this thread Playwright's event loop runs
        played = pool.submit(play_program, said, command=command, untrained=["^Write a title"]).result()
    write_trajectories(record(tmp_path) / "trajectories/step_000003.parquet", 3, [played])
    page = open_page("#/runs/small/steps/3/episodes/0", at=show(tmp_path))

    requests = page.locator(".turn > header .request").all_inner_texts()
    assert requests == [f"request {number} · Chat Completions" for number in (0, 1, 3, 4)]
    began = ["new segment: other tools", "new segment: the request goes on behind turn 0"]
    assert page.locator(".break strong").all_inner_texts() == began
    page.locator(".turn .left-out summary").click()
    left_out = ["1 request without a turn", "request 2 · Chat Completions: untrained", "A title"]
    assert page.locator(".turn .left-out").inner_text().split("\n\n") == left_out
    page.locator(".turn .printed summary").first.click()
    assert "I begin." in page.locator(".turn .printed").first.inner_text()
    assert page.get_by_text("what the environment reports").count() == 0
    page.keyboard.press("t")
    assert page.locator(".segment > header.break p:first-of-type").all_inner_texts() == began


def test_the_note_of_a_reward_is_shown_in_its_turn(
    open_page: Callable[..., Any], show: Callable[[Path], str], tmp_path: Path
) -> None:
    judged = episode("a", 0, reward=1.0)
    judged.turns[-1].notes = {"judge": {"grades": {"right": 7}, "reply": HOSTILE, "cached": 0.0}}
    file = record(tmp_path) / "trajectories/step_000003.parquet"
    write_trajectories(file, 3, [judged])
    assert read_trajectories(file)[0].turns == judged.turns
    page = open_page("#/runs/small/steps/3/episodes/0", at=show(tmp_path))
    assert page.locator(".turn .notes").count() == 1
    page.locator(".turn .notes summary").click()
    shown = page.locator(".turn .notes").inner_text()
    for part in ("judge", '"right": 7', "<script>"):
        assert part in shown
