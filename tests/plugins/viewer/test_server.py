"""What the viewer serves, and what it refuses, asked over HTTP in this process."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent_r1_viewer.addresses import ADDRESSES
from agent_r1_viewer.run_answer import UNREADABLE
from asking import client, told, tree
from recorded_run import HOSTILE, record

from agent_r1_core.runs.run import Run
from agent_r1_core.runs.trajectory_file import read_trajectories, write_trajectories


@pytest.fixture
def get(home: Path) -> Iterator[Callable[..., Any]]:
    """`get("runs", "small")` is the JSON at `/api/runs/small`."""
    with client(home) as asked:
        yield lambda *parts, **query: told(asked, *parts, **query)


def test_the_numbers_of_a_run_and_the_groups_of_a_step_are_those_of_its_files(
    get: Callable[..., Any], home: Path
) -> None:
    (listed,) = get("runs")["runs"]
    run = get("runs", "small")
    assert run["summary"] == listed
    assert (listed["id"], listed["state"], listed["step"], listed["seconds"]) == ("small", "finished", 3, 6.0)
    assert listed["best"] == {"metric": "exact_match", "value": 0.5, "low": 0.0, "high": 1.0, "n": 2, "asked": None,
                              "failures": None, "step": 3}  # fmt: skip
    assert (run["config"]["algorithm"], run["problems"]) == ({"name": "grpo"}, [])
    assert run["health"] == Run.open(home / "small").health() != UNREADABLE
    assert run["sources"] == {"training.steps": "override 'training.steps=3'"}
    assert [event["event"] for event in run["events"]] == ["started", "finished"]
    assert [(one["name"], one["step"]) for one in run["evaluations"]] == [("step_000000", 0), ("step_000003", 3)]
    assert run["episode_steps"] == [1, 2, 3]
    metrics = get("runs", "small", "metrics", after=1)
    assert metrics["steps"] == [2, 3]
    assert metrics["values"] == {"reward/mean": [0.2, 0.3], "time/step": [2.0, 2.0], "update/loss": ["NaN", "NaN"]}
    step = get("runs", "small", "steps", 2)
    assert (step["previous"], step["next"]) == (1, 3)
    first, second = step["groups"]
    assert (first["rows"], first["baseline"], second["rows"], second["baseline"]) == ([0, 1, 2], None, [3, 4, 5], 6)
    assert (second["task"], second["prompt"], second["answers"]) == ("b2", "What is b2?", ["B2"])
    assert second["returns"] == [0.25, 1.25, 0.25]
    assert second["mean"] == pytest.approx(1.75 / 3)
    assert second["std"] == pytest.approx(math.sqrt(1 / 3))
    assert (second["turns"], second["tokens"], second["tool_errors"]) == (2, 10, 3)
    assert second["statuses"] == {"terminated": 3}
    (dropped,) = step["dropped"]
    assert (dropped["row"], dropped["status"], dropped["reason"]) == (7, "failed", "the tool's server is gone")


def test_an_episode_has_every_token_with_all_that_is_known_of_it(get: Callable[..., Any]) -> None:
    found = get("runs", "small", "steps", 2, "episodes", 4)
    assert (found["group"], found["group_rows"], found["rows"]) == (1, [3, 4, 5, 6], 8)
    assert found["group_samples"] == [0, 1, 2]
    assert (found["return"], found["task"]["seed"]) == (1.25, str(2**60))
    assert found["known"] == {
        **dict.fromkeys(("text", "advantages", "learner", "values", "version"), True),
        "replayed": None,
    }
    first, second = found["segments"]
    assert first["tokens"] == {
        "id": [506, 483, 9999, 484, 479, 507],
        "text": ["<|im_start|>", "system\n", "<9999>", "Tools: ", "wiki_search", "<|im_end|>"],
        "kind": ["control", "text", "control", "text", "text", "control"],
        "mask": [0, 0, 0, 1, 1, 1],
        "logprob": [None, None, None, -0.5, -0.25, -0.125],
        "advantage": [0.0, 0.0, 0.0, 21.5, 22.0, 22.5],
        "replayed": [None] * 6,
        "learner": [None, None, None, -10.75, -11.0, -11.25],
        "value": [None, None, None, 5.375, 5.5, 5.625],
        "version": [None, None, None, 1, 1, 2],
    }
    assert (second["length"], second["sampled"], second["tokens"]["logprob"]) == (4, 2, [None, None, -1.0, -2.0])
    assert (second["tokens"]["text"][1], second["tokens"]["kind"][1]) == ("\\xc8", "part")
    assert second["tokens"]["advantage"] == [0.0, 0.0, 24.0, 24.5]
    assert (second["tokens"]["learner"][2:], second["tokens"]["value"][2:]) == ([-12.0, -12.25], [6.0, 6.125])
    assert second["tokens"]["version"] == [None, None, 2, 2]
    assert get("runs", "small", "steps", 2, "episodes", 4, "tokens") == {"from": 0, "tokens": first["tokens"]}
    tokens = get("runs", "small", "steps", 2, "episodes", 4, "tokens", segment=1, **{"from": 3})["tokens"]
    assert (tokens["id"], tokens["advantage"], tokens["logprob"], tokens["version"]) == ([507], [24.5], [-2.0], [2])
    baseline = get("runs", "small", "steps", 2, "episodes", 6)
    assert (baseline["group"], baseline["known"]["advantages"], baseline["baseline"]) == (1, False, True)
    assert get("runs", "small", "steps", 2, "episodes", 7)["group"] is None


def test_what_a_replay_kept_stands_beside_what_was_recorded(copied: Path) -> None:
    """Of the same tokens; the record of a step that was trained again has others. A damaged one is none."""
    (copied / "replays").mkdir()
    kept = copied / "replays/step_000002.parquet"
    kept.with_suffix(".json").write_text('{"changed": ["algorithm=rloo", "training.epochs=2"]}')
    shutil.copy(copied / "trajectories" / kept.name, kept)

    def asked(row: int) -> Any:
        with client(copied) as someone:
            return told(someone, "runs", "small", "steps", 2, "episodes", row)

    found = asked(4)
    tokens = found["segments"][0]["tokens"]
    assert (found["known"]["replayed"], tokens["replayed"]) == (
        "algorithm=rloo, training.epochs=2",
        tokens["advantage"],
    )
    assert asked(7)["known"]["replayed"] is None, "it was dropped"
    others = read_trajectories(kept)
    others[4].segments[0].ids[0] ^= 1
    write_trajectories(kept, 2, others)
    assert asked(4)["known"]["replayed"] is None
    kept.write_text("{")
    assert asked(4)["known"]["replayed"] is None
    shutil.copy(copied / "trajectories" / kept.name, kept)
    assert asked(4)["known"]["replayed"]
    kept.with_suffix(".json").write_text("{")
    assert asked(4)["known"]["replayed"] is None


def test_a_search_brings_the_newest_step_first_and_tells_how_far_it_is(home: Path) -> None:
    def search(**query: object) -> list[dict[str, Any]]:
        with client(home) as asked:
            response = asked.get("/api/runs/small/search", params=query)
            assert response.headers["content-type"] == "application/x-ndjson"
            assert response.headers["content-encoding"] == "identity"  # compressed, lines would wait for others
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
    assert hits(**{"low": 1.25, "from": 1}) == [(1, 1), (1, 4), (1, 6)]
    assert hits(**{"high": 0.25, "from": 1}) == [(1, 0), (1, 2), (1, 3), (1, 5), (1, 7)]
    assert (len(hits(tool_error="yes")), hits(tool_error="no"), hits(turns_low=3)) == (24, [], [])


def test_every_address_of_the_table_is_answered_and_has_its_page(home: Path) -> None:
    names = {"run": "small", "step": 2, "group": 1, "row": 0, "evaluation": "step_000003"}
    with client(home) as asked:
        for one in ADDRESSES:
            place = one.form.format(**names)
            files = [] if one.page is None else [f"pages/{one.page}.js", *one.sheets]
            wanted = [f"/static/{file}" for file in files] + ([f"/api/{place}?part=answer"] if one.answer else [])
            assert wanted
            assert {asked.get(address).status_code for address in wanted} == {200}, place
        (table,) = re.findall(r'id="pages">([^<]+)<', asked.get("/").text)
        assert [name for _, name, _ in json.loads(table)] == [one.page for one in ADDRESSES if one.page]


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        (("runs", "../runs/small"), "there is no run"),
        (("runs", "small", "steps", "../../config.yaml"), "is no step"),
        (("runs", "small", "steps", "1", "groups", "9" * 5000), "has no group 9"),
        (("runs", "small", "steps", "1", "episodes", "-1"), "an episode has a number"),
        (("runs", "small", "evaluations", "../config", "episodes", "0"), "has no evaluation '../config'"),
        ((), "there is no such answer"),
    ],
)
def test_what_is_not_there_is_a_sentence(get: Callable[..., Any], parts: tuple[str, ...], sentence: str) -> None:
    answer = get(*parts)
    assert sentence in answer["error"]
    assert answer["status"] in (404, 422)


def test_ids_with_slashes_are_one_part_of_an_address(tmp_path: Path) -> None:
    for seed in ("one", "two"):
        record(tmp_path / seed, steps=1)
    with client(tmp_path) as asked:
        assert {run["id"] for run in told(asked, "runs")["runs"]} == {"one/small", "two/small"}
        assert told(asked, "runs", "two/small")["summary"]["path"] == str(tmp_path / "two" / "small")
        assert "several runs" in told(asked, "runs", "small")["error"]


def test_a_long_text_is_cut_and_can_be_asked_for(tmp_path: Path) -> None:
    run = record(tmp_path, steps=1)
    with Run.resume(run) as opened:
        (one, *_) = opened.read_trajectories(1)
        one.turns[0].observation[0]["content"] = "a" * 10_000_000
        one.turns[1].text, one.turns[1].info["output"] = "b" * 20_001, "p" * 20_002
        one.segments[0].append_context([65] * 30_000)
        one.closing, one.task = [{"role": "tool", "content": "c" * 20_001}], replace(one.task, seed=None)
        write_trajectories(opened.trajectory_file(2), 2, [one])
    place = ("runs", "small", "steps", 2, "episodes", 0)
    with client(tmp_path) as asked:
        found = told(asked, *place)
        assert found["turns"][0]["observation"][0] == {"role": "user", "content": "a" * 20_000, "cut": 10_000_000}
        assert (len(found["turns"][1]["text"]), found["turns"][1]["cut"]) == (20_000, 20_001)
        assert found["turns"][1]["observation"] == [{"role": "tool", "name": "wiki_search", "content": HOSTILE}]
        assert found["turns"][1]["output"] == {"content": "p" * 20_000, "cut": 20_002}
        assert (found["closing"][0]["cut"], found["task"]["seed"]) == (20_001, None)
        parts = {
            "turns.0.observation.0": "a" * 10_000_000, "turns.1.text": "b" * 20_001, "turns.1.observation.0": HOSTILE,
            "turns.1.output": "p" * 20_002, "closing.0": "c" * 20_001, "task.prompt": "What is a1?",
            "answer": "a1 0", "reason": "answer",
        }  # fmt: skip
        for part, expected in parts.items():
            text = asked.get("/api/runs/small/steps/2/episodes/0/text", params={"part": part})
            assert (text.text, text.headers["content-type"]) == (expected, "text/plain; charset=utf-8")
        wrong = (
            "turns.9.text",
            "turns.0.output",
            "turns.-1.text",
            "closing.1",
            "closing.-1",
            "closing.x",
            "task.prompt.0",
            "task",
            "",
        )
        for part in wrong:
            sentence = f"has no text {part!r}; name one such as turns.0.text"
            assert sentence in told(asked, *place, "text", part=part)["error"]
        (first, second) = found["segments"]
        assert (len(first["tokens"]["id"]), first["length"], first["sampled"]) == (20_000, 30_006, 3)
        assert (len(second["tokens"]["id"]), second["length"], second["sampled"]) == (0, 4, 2), "one answer has no more"
        rest = told(asked, *place, "tokens", segment=0, from_=20_000)
        assert (rest["from"], first["tokens"]["id"] + rest["tokens"]["id"]) == (20_000, one.segments[0].ids)


def test_damage_costs_its_own_part_only(copied: Path) -> None:
    (copied / "config.yaml").write_text("a: [")
    (copied / "health.jsonl").write_text("no json\n")
    (copied / "metric_catalogue.json").mkdir()
    with (copied / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "reward/mean": "much"}\n')
    half = (copied / "trajectories" / "step_000003.parquet").read_bytes()
    (copied / "trajectories" / "step_000003.parquet").write_bytes(half[: len(half) // 2])
    (copied / "evaluations" / "step_000000.json").write_text("[")
    (copied / "model_files" / "tokenizer.json").write_text("{}")
    with client(copied.parent) as asked:
        run = told(asked, "runs", "small")
        problems = " ".join(run["problems"])
        for part in ("config.yaml", "line 1 of", "metric_catalogue.json", "line 4 of", "step_000000.json"):
            assert part in problems
        assert "metric_catalogue.json cannot be read (Is a directory)" in problems
        assert run["health"] == UNREADABLE
        assert (run["config"], run["summary"]["step"], len(run["evaluations"])) == (None, 3, 1)
        assert "is not a whole file of trajectories" in told(asked, "runs", "small", "steps", 3)["error"]
        assert told(asked, "runs", "small", "steps", 2)["groups"]
        lines = asked.get("/api/runs/small/search", params={"status": "failed"}).text.splitlines()
        assert [next(iter(json.loads(line))) for line in lines[:3]] == ["problem", "progress", "hit"]
        found = told(asked, "runs", "small", "steps", 2, "episodes", 0)
        assert (found["known"]["text"], found["segments"][0]["tokens"]["text"][:2]) == (False, ["506", "483"])
        assert told(asked, "runs", "small", "evaluations")["cells"] == [[1.0], [0.0]]
    (copied / "run.json").write_text("{}")
    with client(copied.parent) as asked:
        (run,) = told(asked, "runs")["runs"]
        assert "run.json of run" in run["problem"]


def test_no_link_leads_out_of_the_folders(copied: Path, tmp_path: Path) -> None:
    """Though every file outside is sound, and of a run."""
    outside = shutil.copytree(copied, tmp_path / "runs-outside" / "small")
    about = ("metrics.jsonl", "config.yaml", "run.json", "events.jsonl", "health.jsonl", "metric_catalogue.json")
    evaluations = ("evaluations/step_000000.json", "evaluations/step_000003.parquet")
    (outside / "health.jsonl").write_text("")
    (outside / "metric_catalogue.json").write_text('[{"name": "reward/mean"}]')
    for name in (*about, *evaluations, "trajectories/step_000002.parquet"):
        (copied / name).unlink(missing_ok=True)
        (copied / name).symlink_to(outside / name)
    shutil.rmtree(copied / "model_files")
    (copied / "model_files").symlink_to(outside / "model_files")
    with client(copied.parent) as asked:
        run = told(asked, "runs", "small")
        assert (run["config"], run["summary"]["step"], run["summary"]["curve"]) == (None, None, [])
        assert (run["summary"]["created"], run["summary"]["state"]) == (None, None)
        assert (run["events"], run["catalogue"]) == ([], [])
        assert [one["name"] for one in run["evaluations"]] == ["step_000003"]
        for name in (*about, "evaluations/step_000000.json"):
            assert f"{copied / name} is not opened: it is a link that leads out of {copied.parent}" in " ".join(
                run["problems"]
            )
        for parts in (("metrics",), ("steps", 2), ("evaluations", "step_000003", "episodes", 0)):
            assert "leads out of" in told(asked, "runs", "small", *parts)["error"]
        (problem, *_) = asked.get("/api/runs/small/search", params={"from": 2}).text.splitlines()
        assert "leads out of" in json.loads(problem)["problem"]
        assert not told(asked, "runs", "small", "steps", 1, "episodes", 0)["known"]["text"]


def test_an_evaluation_leads_to_files_beside_it_only(copied: Path, tmp_path: Path) -> None:
    first, last = (copied / "evaluations" / f"step_00000{step}" for step in (0, 3))
    about = json.loads(first.with_suffix(".json").read_text())
    first.with_suffix(".json").write_text(json.dumps(about | {"trajectories": {"": "../../secret.parquet"}}))
    for suffix in (".jsonl", ".parquet"):
        shutil.move(last.with_suffix(suffix), tmp_path / suffix)  # its checksum is right
        last.with_suffix(suffix).symlink_to(tmp_path / suffix)
    with client(copied.parent) as asked:
        matrix = told(asked, "runs", "small", "evaluations")
        assert ([one["name"] for one in matrix["evaluations"]], matrix["questions"]) == (["step_000003"], [])
        assert "step_000000.json is damaged" in matrix["problems"][0]
        assert "step_000003.jsonl is not opened: it is a link that leads out of" in matrix["problems"][1]
        last.with_suffix(".jsonl").unlink()
        shutil.move(tmp_path / ".jsonl", last.with_suffix(".jsonl"))
        matrix = told(asked, "runs", "small", "evaluations")
        assert (matrix["cells"], matrix["rows"]) == ([[1.0], [0.0]], [[None], [None]])
        assert "step_000003.parquet is not opened: it is a link that leads out of" in matrix["problems"][1]


def test_reading_changes_nothing(copied: Path) -> None:
    """Not even a run whose replacement was killed, which a resume puts back in its place."""
    half = copied.parent / "half"
    shutil.copytree(copied, copied.parent / ".old-half")
    half.mkdir()
    shutil.copy(copied / "run.json", half)
    before = tree(copied.parent)
    with client(copied.parent) as asked:
        assert [run["id"] for run in told(asked, "runs")["runs"]] == ["half", "small"]
        assert "has no config.yaml" in told(asked, "runs", "half")["problems"][0]
        for path in ("", "/metrics", "/steps/1", "/steps/1/groups/1", "/steps/1/episodes/1", "/evaluations"):
            assert asked.get(f"/api/runs/small{path}").status_code == 200
        assert asked.get("/api/runs/small/evaluations/step_000003/episodes/0").status_code == 200
        assert asked.get("/api/runs/small/search", params={"text": "a"}).status_code == 200
    assert tree(copied.parent) == before
    Run.resume(half).close()
    assert tree(copied.parent) != before, "whoever writes it puts the old run back"
