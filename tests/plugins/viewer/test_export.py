"""A page without a server holds what it says, shows it as the viewer does, and asks nobody for anything."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_r1_viewer import carried
from agent_r1_viewer.answers import Answers
from agent_r1_viewer.carried import chosen_steps
from agent_r1_viewer.exported_page import export, page
from recorded_run import HOSTILE, record

from agent_r1_core.errors import RunError
from agent_r1_core.runs.reading.found_runs import FoundRuns


def answers_in(html: str) -> dict[str, Any]:
    (data,) = re.findall(r'<script type="application/json" id="carried">([A-Za-z0-9+/=]+)</script>', html)
    found: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(data)))
    return found


def test_a_page_holds_the_answers_of_the_viewer_whenever_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path)
    exported = export([tmp_path], "1,last")
    monkeypatch.setattr("time.time", lambda: 2e9)
    assert export([tmp_path], "1,last").html == exported.html
    found, answers = answers_in(exported.html), Answers(FoundRuns([tmp_path]))
    assert (exported.runs, exported.steps) == (["small"], [1, 3])
    assert (exported.episodes, exported.evaluated) == (2 * 8, 2 * 2)
    for path in ("metrics", "steps/1/groups/1", "steps/3/episodes/7", "evaluations/step_000003/episodes/1"):
        asked = answers.answer(["runs", "small", *path.split("/")], {})
        assert found[f"runs/small/{path}"] == json.loads(json.dumps(asked).replace("NaN", '"NaN"'))
    assert found["runs/small"]["episode_steps"] == [1, 3]
    assert (found["runs/small/steps/1"]["next"], found["runs/small/steps/3"]["previous"]) == (3, 1)
    assert "runs/small/steps/2" not in found
    matrix = found["runs/small/evaluations?score=reward%2Fmean"]
    assert (matrix["cells"], matrix["rows"]) == ([[0.25, 1.25], [0.25, 0.25]], [[0, 0], [1, 1]])
    assert str(tmp_path) not in json.dumps(found), "a page for others names no folders"


def test_a_page_of_a_run_whose_metrics_cannot_be_read_has_no_curves(tmp_path: Path) -> None:
    metrics = record(tmp_path / "runs", steps=1) / "metrics.jsonl"
    metrics.rename(tmp_path / "elsewhere.jsonl")
    metrics.symlink_to(tmp_path / "elsewhere.jsonl")
    found = answers_in(export([tmp_path / "runs"]).html)
    assert found["runs/small/metrics"] == {"steps": [], "values": {}}
    assert "metrics.jsonl is not opened" in " ".join(found["runs/small"]["problems"])
    assert found["runs/small/steps/1"]["groups"]


def test_nothing_of_a_run_stands_in_the_page_itself(tmp_path: Path) -> None:
    record(tmp_path, "run", steps=1).rename(tmp_path / "<script> #?")
    html = export([tmp_path]).html
    assert HOSTILE not in html
    assert 'location.hash = "#/runs/%3Cscript%3E%20%23%3F";' in html
    assert html.count("</script>") == html.count("<script")
    assert not re.findall(r'(?:src|href)="(?!data:)', html)
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)">', html)
    assert policy.startswith("default-src 'none'; script-src data: 'sha256-")
    assert not [word for word in ("connect-src", "'self'", "unsafe", "http") if word in policy]


def test_a_page_for_a_notebook_holds_what_its_address_shows(tmp_path: Path) -> None:
    record(tmp_path)
    about = "#/runs/small"
    held = {
        "#/plot?runs=small&metrics=reward/mean": ["runs/small", "runs/small/metrics"],
        f"{about}/steps/2/episodes/4": ["runs/small/steps/2", "runs/small/steps/2/episodes/4"],
        f"{about}/steps/2/episodes/4?view=</script><script>": ["runs/small/steps/2", "runs/small/steps/2/episodes/4"],
        f"{about}/evaluations/step_000003/episodes/1": ["runs/small/evaluations/step_000003/episodes/1"],
    }
    for place, expected in held.items():
        html = page([tmp_path], place)
        assert list(answers_in(html)) == expected
        (written,) = re.findall(r"location\.hash = (\"[^<]*?\"); import", html)
        assert json.loads(written) == place
    for place in (f"{about}/steps/9/episodes/0", "#/plot?runs=other&metrics=a", "#/nowhere"):
        with pytest.raises(RunError):
            page([tmp_path], place)


def test_steps_are_numbers_ranges_or_the_first_or_the_last() -> None:
    assert chosen_steps("1,7-9,12-99", [1, 2, 8, 9, 10, 40]) == [1, 8, 9, 40]
    assert chosen_steps("last, 2,first,9,2", [1, 2, 4]) == [1, 2, 4]
    assert chosen_steps("first,last", []) == []
    for wrong in ("", "newest", "1,,2", "-1", "3-", "first-3"):
        with pytest.raises(RunError, match="such as 1,7-9,last"):
            chosen_steps(wrong, [1, 2])
    with pytest.raises(RunError, match=r"^--steps 1,9-7 has a range that ends before it begins; write 7-9$"):
        chosen_steps("1,9-7", [1, 2])


def test_the_command_writes_one_file_and_keeps_what_is_there(
    agent_r1: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    record(tmp_path)
    done = agent_r1("view", "small", "--export", "page.html", "--steps", "2")
    said = r"page.html: 0\.\d MB; run small with curves, configuration, evaluations, 8 episodes of step 2 and 4 of "
    said += r"the first and the last evaluation\n"
    assert re.fullmatch(said, done.stdout)
    written = (tmp_path / "page.html").read_text()
    again = agent_r1("view", "small", "--export", "page.html")
    assert (again.exit_code, (tmp_path / "page.html").read_text() == written) == (1, True)
    assert "replace it with --force" in again.stderr
    assert agent_r1("view", "small", "--export", "page.html", "--force").exit_code == 0
    assert (tmp_path / "page.html").read_text() != written
    monkeypatch.setattr(carried, "MOST", 20_000)
    for wrong, code, sentence in (
        (("--export", "other.html"), 1, "choose fewer steps with --steps"),
        (("--export", "other.html", "--steps", "9"), 1, ""),
        (("--export", "other.html", "--port", "9000"), 2, ""),
        (("--steps", "1", "--no-open"), 2, ""),
    ):
        refused = agent_r1("view", "small", *wrong)
        assert (refused.exit_code, sentence in refused.stderr) == (code, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "small"]


def test_a_browser_shows_it_from_a_file(
    open_page: Callable[..., Any], watched: Any, recorded: Path, tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    exported = export([recorded / "summary"], "1,3")
    file.write_text(exported.html)
    watched.expected.append(file.as_uri())  # the file is no request that leaves this machine
    found = answers_in(exported.html)
    page = open_page(at=file.as_uri())
    page.wait_for_selector(".chart canvas")
    assert page.evaluate("location.hash") == "#/runs/summary"
    episode = next(place for place, answer in found.items() if "/steps/3/episodes/" in place and answer["group"] == 0)
    shown = {
        "": "1 run",
        "runs/summary/steps/1": "4 groups",
        "runs/summary/steps/3/groups/0": "group 0 (0 to 3)",
        episode: found[episode]["task"]["prompt"],
        "runs/summary/evaluations": "12 questions",
    }
    for place, text in shown.items():
        page.goto(f"{file.as_uri()}#/{place}")
        page.locator("#page").get_by_text(text).first.wait_for()
        assert page.locator(".problem").count() == 0
