"""What the viewer serves, and what it refuses, asked over HTTP in this process."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from agent_r1_cli.viewer.answers import Answers
from agent_r1_cli.viewer.app import build
from agent_r1_cli.viewer.live import Live
from agent_r1_core.runs.reading.found_runs import FoundRuns
from agent_r1_core.runs.run import Run
from agent_r1_core.testing.recorded_run import HOSTILE, record, record_step


def client(*folders: Path) -> TestClient:
    answers = Answers(FoundRuns(folders))
    return TestClient(build(answers, Live(answers.runs)), base_url="http://127.0.0.1:8700")


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run; nobody changes it."""
    folder = tmp_path_factory.mktemp("runs")
    record(folder)
    return folder


@pytest.fixture
def copied(home: Path, tmp_path: Path) -> Path:
    """The run, to be damaged."""
    return Path(shutil.copytree(home / "small", tmp_path / "runs" / "small"))


@pytest.fixture
def get(home: Path) -> Iterator[Callable[..., Any]]:
    """`get("runs", "small")` is the JSON at `/api/runs/small`."""
    with client(home) as asked:
        yield lambda *parts, **query: _json(asked, *parts, **query)


def _json(asked: TestClient, *parts: object, **query: object) -> Any:
    path = "/".join(quote(str(part), safe="") for part in parts)
    response = asked.get(f"/api/{path}", params={key.rstrip("_"): str(value) for key, value in query.items()})
    return response.json() | ({} if response.status_code == 200 else {"status": response.status_code})


def test_the_numbers_of_a_run_are_those_of_its_files(get: Callable[..., Any], home: Path) -> None:
    (listed,) = get("runs")["runs"]
    run = get("runs", "small")
    assert run["summary"] == listed
    assert (listed["id"], listed["state"], listed["step"], listed["seconds"]) == ("small", "finished", 3, 6.0)
    assert listed["best"] == {"metric": "exact_match", "value": 0.5, "low": 0.0, "high": 1.0, "n": 2, "step": 3}
    assert (run["config"]["algorithm"], run["problems"]) == ({"name": "grpo"}, [])
    assert run["sources"] == {"training.steps": "override 'training.steps=3'"}
    assert [event["event"] for event in run["events"]] == ["started", "finished"]
    assert [(one["name"], one["step"], one["episodes"]) for one in run["evaluations"]] == [
        ("step_000000", 0, True),
        ("step_000003", 3, True),
    ]
    assert run["episode_steps"] == [1, 2, 3]
    metrics = get("runs", "small", "metrics", after=1)
    assert metrics["steps"] == [2, 3]
    assert metrics["values"] == {
        "reward/mean": [0.2, 0.3],
        "time/step": [2.0, 2.0],
        "update/loss": ["NaN", "NaN"],
    }


def test_a_step_is_its_groups_with_baselines_and_dropped_episodes_apart(get: Callable[..., Any]) -> None:
    step = get("runs", "small", "steps", 2)
    assert (step["previous"], step["next"]) == (1, 3)
    first, second = step["groups"]
    assert (first["rows"], first["baseline"], second["rows"], second["baseline"]) == ([0, 1, 2], None, [3, 4, 5], 6)
    assert (second["task"], second["prompt"], second["answers"]) == ("b2", "What is b2?", ["B2"])
    assert second["returns"] == [0.25, 1.25, 0.25]
    assert second["mean"] == pytest.approx(1.75 / 3)
    assert second["std"] == pytest.approx(math.sqrt(1 / 3))
    assert second["rewards"] == {"exact_match": pytest.approx(1 / 3), "valid_call": 0.5}
    assert (second["turns"], second["tokens"], second["tool_errors"]) == (2, 10, 3)
    (dropped,) = step["dropped"]
    assert (dropped["row"], dropped["status"], dropped["reason"]) == (7, "failed", "the tool's server is gone")


def test_a_group_shows_its_samples_and_the_greedy_one(get: Callable[..., Any]) -> None:
    group = get("runs", "small", "steps", 2, "groups", 1)
    assert (group["group"], group["groups"], group["task"]["id"]) == (1, 2, "b2")
    assert [(one["row"], one["sample"], one["baseline"]) for one in group["episodes"]] == [
        (3, 0, False), (4, 1, False), (5, 2, False), (6, 3, True)
    ]  # fmt: skip
    turn = group["episodes"][1]["turns"][0]
    assert (turn["rewards"], turn["calls"][0]["error"]) == ({"valid_call": 0.5}, "Error: no such page.")
    assert group["episodes"][1]["messages"][2] == {"role": "tool", "name": "wiki_search", "content": HOSTILE}


def test_an_episode_has_every_token_with_all_that_is_known_of_it(get: Callable[..., Any]) -> None:
    found = get("runs", "small", "steps", 2, "episodes", 4)
    assert (found["group"], found["group_rows"], found["rows"]) == (1, [3, 4, 5, 6], 8)
    assert (found["return"], found["task"]["seed"]) == (1.25, str(2**60))
    assert set(found["known"].values()) == {True}
    first, second = found["segments"]
    assert first["tokens"] == {
        "id": [506, 483, 9999, 484, 479, 507],
        "text": ["<|im_start|>", "system\n", "<9999>", "Tools: ", "wiki_search", "<|im_end|>"],
        "kind": ["control", "text", "control", "text", "text", "control"],
        "mask": [0, 0, 0, 1, 1, 1],
        "logprob": [None, None, None, -0.5, -0.25, -0.125],
        "advantage": [0.0, 0.0, 0.0, 0.5, 0.5, 0.5],
        "learner": [None, None, None, -0.75, -0.75, -0.75],
        "value": [None, None, None, 0.25, 0.25, 0.25],
        "version": [None, None, None, 1, 1, 2],
    }
    assert (second["prompt_length"], second["length"], second["tokens"]["logprob"]) == (2, 4, [None, None, -1.0, -2.0])
    assert (second["tokens"]["text"][1], second["tokens"]["kind"][1]) == ("\\xc8", "part")
    baseline = get("runs", "small", "steps", 2, "episodes", 6)
    assert (baseline["group"], baseline["known"]["advantages"], baseline["baseline"]) == (1, False, True)
    assert get("runs", "small", "steps", 2, "episodes", 7)["group"] is None


def test_evaluations_show_what_was_learnt_and_lead_to_their_episodes(get: Callable[..., Any]) -> None:
    matrix = get("runs", "small", "evaluations")
    assert (matrix["score"], matrix["scores"]) == ("exact_match", ["exact_match", "reward/mean"])
    assert [question["task"] for question in matrix["questions"]] == ["x", "y"]
    assert matrix["cells"] == [[0.0, 1.0], [0.0, 0.0]]
    assert matrix["predictions"][0] == ["x 0", "x 0"]
    assert get("runs", "small", "evaluations", score="reward/mean")["cells"][0] == [0.25, 1.25]
    found = get("runs", "small", "evaluations", "step_000003", "episodes", matrix["rows"][1][1])
    assert (found["task"]["id"], found["evaluation"], found["set"], found["return"]) == ("y", "step_000003", "", 0.25)


def test_a_search_brings_the_newest_step_first_and_tells_how_far_it_is(home: Path) -> None:
    def search(**query: object) -> list[dict[str, Any]]:
        with client(home) as asked:
            response = asked.get("/api/runs/small/search", params=query)
            assert response.headers["content-type"] == "application/x-ndjson"
            return [json.loads(line) for line in response.text.splitlines()]

    def hits(**query: object) -> list[tuple[int, int]]:
        return [(one["hit"]["step"], one["hit"]["row"]) for one in search(**query) if "hit" in one]

    found = search(text="WHAT IS A2")
    assert [next(iter(one)) for one in found] == ["progress", "hit", "hit", "hit", "progress", "progress", "end"]
    assert found[1]["hit"]["snippet"] == ["", "What is a2", "?"]
    assert found[-1] == {"end": {"hits": 3, "more": False, "next": None}}
    assert hits(text='"role"') == []  # how the file writes messages is no text of theirs
    assert len(hits(text=HOSTILE)) == 24
    assert hits(status="failed") == [(3, 7), (2, 7), (1, 7)]
    assert hits(low=1.25, high=1.25, from_=1) == hits(low=1.25)  # `from_` is not the name of a filter
    assert hits(**{"low": 1.25, "from": 1}) == [(1, 1), (1, 4), (1, 6)]
    assert (len(hits(tool_error="yes")), hits(tool_error="no"), hits(turns_low=3), len(hits(turns_high=2))) == (
        24, [], [], 24
    )  # fmt: skip


def test_ids_with_slashes_are_one_part_of_an_address(tmp_path: Path) -> None:
    for seed in ("one", "two"):
        record(tmp_path / seed, steps=1)
    with client(tmp_path) as asked:
        assert {run["id"] for run in _json(asked, "runs")["runs"]} == {"one/small", "two/small"}
        assert _json(asked, "runs", "two/small")["summary"]["path"] == str(tmp_path / "two" / "small")
        assert "several runs" in _json(asked, "runs", "small")["error"]


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        (("runs", "other"), "there is no run 'other'"),
        (("runs", "../runs/small"), "there is no run"),
        (("runs", "small", "steps", "9"), "keeps no episodes of step 9"),
        (("runs", "small", "steps", "../../config.yaml"), "is no step"),
        (("runs", "small", "steps", "1", "groups", "2"), "has no group 2"),
        (("runs", "small", "steps", "1", "episodes", "8"), "has no episode 8"),
        (("runs", "small", "steps", "1", "episodes", "-1"), "an episode has a number"),
        (("runs", "small", "evaluations", "../config", "episodes", "0"), "has no evaluation '../config'"),
        (("runs", "small", "nothing"), "there is no such answer"),
        (("nothing",), "there is no such answer"),
        ((), "there is no such answer"),
    ],
)
def test_what_is_not_there_is_a_sentence(get: Callable[..., Any], parts: tuple[str, ...], sentence: str) -> None:
    answer = get(*parts)
    assert sentence in answer["error"]
    assert answer["status"] in (404, 422)


def test_a_long_text_is_cut_and_can_be_asked_for(tmp_path: Path) -> None:
    run = record(tmp_path, steps=1)
    with Run.resume(run) as opened:
        (one, *_) = opened.read_trajectories(1)
        one.turns[0].observation[0]["content"] = "a" * 10_000_000
        one.turns[1].text = "b" * 20_001
        one.segments[0].append_context([65] * 30_000)
        opened.write_trajectories(2, [one])
    with client(tmp_path) as asked:
        found = _json(asked, "runs", "small", "steps", 2, "episodes", 0)
        assert found["turns"][0]["observation"][0] == {"role": "user", "content": "a" * 20_000, "cut": 10_000_000}
        assert (len(found["turns"][1]["text"]), found["turns"][1]["cut"]) == (20_000, 20_001)
        text = asked.get("/api/runs/small/steps/2/episodes/0/text", params={"part": "turns.0.observation.0"})
        assert (text.text, text.headers["content-type"]) == ("a" * 10_000_000, "text/plain; charset=utf-8")
        assert "error" in _json(asked, "runs", "small", "steps", 2, "episodes", 0, "text", part="turns.9.text")
        (first, _) = found["segments"]
        assert (len(first["tokens"]["id"]), first["length"]) == (20_000, 30_006)
        rest = _json(asked, "runs", "small", "steps", 2, "episodes", 0, "tokens", segment=0, from_=20_000)
        assert rest["from"] == 20_000
        assert first["tokens"]["id"] + rest["tokens"]["id"] == one.segments[0].ids


def test_damage_costs_its_own_part_only(copied: Path) -> None:
    (copied / "config.yaml").write_text("a: [")
    (copied / "health.jsonl").write_text("no json\n")
    (copied / "plugins.json").write_text("{}")
    with (copied / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "reward/mean": "much"}\n')
    half = (copied / "trajectories" / "step_000003.parquet").read_bytes()
    (copied / "trajectories" / "step_000003.parquet").write_bytes(half[: len(half) // 2])
    (copied / "evaluations" / "step_000000.json").write_text("[")
    (copied / "model_files" / "tokenizer.json").write_text("{}")
    with client(copied.parent) as asked:
        run = _json(asked, "runs", "small")
        problems = " ".join(run["problems"])
        for part in ("config.yaml", "line 1 of", "plugins.json", "line 4 of", "step_000000.json"):
            assert part in problems
        assert (run["config"], run["summary"]["step"], len(run["evaluations"])) == (None, 3, 1)
        assert "is not a whole file of trajectories" in _json(asked, "runs", "small", "steps", 3)["error"]
        assert _json(asked, "runs", "small", "steps", 2)["groups"]
        lines = asked.get("/api/runs/small/search", params={"status": "failed"}).text.splitlines()
        assert [next(iter(json.loads(line))) for line in lines[:3]] == ["problem", "progress", "hit"]
        found = _json(asked, "runs", "small", "steps", 2, "episodes", 0)
        assert (found["known"]["text"], found["segments"][0]["tokens"]["text"][:2]) == (False, ["506", "483"])
        assert _json(asked, "runs", "small", "evaluations")["cells"] == [[1.0], [0.0]]
    (copied / "run.json").write_text("{}")
    with client(copied.parent) as asked:
        assert _json(asked, "runs")["runs"] == []


def test_rows_that_no_training_writes_are_a_sentence(copied: Path) -> None:
    """Of segments that hold more tokens than there are, and of a lock that keeps whoever opens it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = copied / "trajectories" / "step_000001.parquet"
    table = pq.read_table(path)
    place = table.schema.get_field_index("mask")
    pq.write_table(table.set_column(place, "mask", pa.array([[1]] * len(table), pa.list_(pa.int8()))), path)
    (copied / ".lock").unlink()
    os.mkfifo(copied / ".lock")
    with client(copied.parent) as asked:
        answer = _json(asked, "runs", "small", "steps", 1, "episodes", 0)
        assert (answer["status"], answer["error"].startswith("This part of the run cannot be shown")) == (500, True)
        run = _json(asked, "runs", "small")
        assert (run["summary"]["state"], run["summary"]["step"]) == (None, 3)
        assert "neither a file nor a folder" in run["problems"][0]


def test_no_link_leads_out_of_the_folders(copied: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"step": 1, "reward/mean": 7}\n')
    outside = record(tmp_path / "outside", steps=1)
    for name in ("metrics.jsonl", "config.yaml", "trajectories/step_000002.parquet", "evaluations/step_000000.json"):
        (copied / name).unlink()
        (copied / name).symlink_to(secret)
    shutil.rmtree(copied / "model_files")
    (copied / "model_files").symlink_to(outside / "model_files")
    with client(copied.parent) as asked:
        run = _json(asked, "runs", "small")
        assert (run["config"], run["summary"]["step"], run["summary"]["curve"]) == (None, None, [])
        assert " ".join(run["problems"]).count("leads out of") >= 3
        assert "leads out of" in _json(asked, "runs", "small", "metrics")["error"]
        assert "leads out of" in _json(asked, "runs", "small", "steps", 2)["error"]
        assert not _json(asked, "runs", "small", "steps", 1, "episodes", 0)["known"]["text"]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "", "127.0.0.2"])
def test_other_names_are_refused(home: Path, host: str) -> None:
    with client(home) as asked:
        for path in ("/", "/api/runs", "/static/app.js", "/api/live"):
            answer = asked.get(path, headers={"host": host})
            assert (answer.status_code, "localhost" in answer.json()["error"]) == (403, True)


def test_names_of_this_machine_are_served_and_nothing_can_be_sent(home: Path) -> None:
    with client(home) as asked:
        for host in ("localhost", "localhost:9000", "127.0.0.1:80", "[::1]:8700", "LOCALHOST"):
            assert asked.get("/api/runs", headers={"host": host}).status_code == 200
        assert asked.head("/").status_code == 200
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
            assert asked.request(method, "/api/runs").status_code == 405


def test_the_policy_allows_the_import_map_and_no_other_code(home: Path) -> None:
    import base64
    import hashlib
    import re

    with client(home) as asked:
        page = asked.get("/")
        policy = page.headers["content-security-policy"]
        (inline,) = re.findall(r"<script[^>]*>([^<]+)</script>", page.text)
        allowed = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        assert f"script-src 'self' 'sha256-{allowed}';" in policy
        assert policy.startswith("default-src 'none';")
        assert "unsafe" not in policy
        for path in ("/", "/api/runs", "/static/app.js", "/static/missing.js", "/nowhere"):
            headers = asked.get(path).headers
            assert headers["content-security-policy"] == policy
            assert headers["x-content-type-options"] == "nosniff"
        assert asked.get("/static/app.js").headers["content-type"].startswith("text/javascript")
        assert asked.get("/static/../gate.py").status_code == 404
        assert asked.get("/static/%2e%2e/gate.py").status_code == 404


def test_reading_changes_nothing(copied: Path) -> None:
    """Not even a run whose replacement was killed, which other commands put back in its place."""
    half = copied.parent / "half"
    shutil.copytree(copied, copied.parent / ".old-half")
    half.mkdir()
    shutil.copy(copied / "run.json", half)
    before = _tree(copied.parent)
    with client(copied.parent) as asked:
        assert [run["id"] for run in _json(asked, "runs")["runs"]] == ["half", "small"]
        assert "has no config.yaml" in _json(asked, "runs", "half")["problems"][0]
        for path in ("", "/metrics", "/steps/1", "/steps/1/groups/1", "/steps/1/episodes/1", "/evaluations"):
            assert asked.get(f"/api/runs/small{path}").status_code == 200
        assert asked.get("/api/runs/small/evaluations/step_000003/episodes/0").status_code == 200
        assert asked.get("/api/runs/small/search", params={"text": "a"}).status_code == 200
    assert _tree(copied.parent) == before
    assert Run.is_run(half)
    assert _tree(copied.parent) != before, "to look at it as a writer does puts the old run back"


def _tree(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    found = {}
    for path in sorted(folder.rglob("*")):
        about = os.stat(path)
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (about.st_mtime_ns, about.st_mode, content)
    return found


def test_a_new_step_is_served_by_an_open_viewer(copied: Path) -> None:
    with client(copied.parent) as asked:
        assert _json(asked, "runs", "small", "metrics")["steps"] == [1, 2, 3]
        with Run.resume(copied) as run:
            record_step(run, 4)
            assert _json(asked, "runs")["runs"][0]["step"] == 4
            assert _json(asked, "runs", "small", "metrics", after=3)["steps"] == [4]
            assert _json(asked, "runs", "small")["episode_steps"] == [1, 2, 3, 4]
