"""Trajectories survive the way to disk and back."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from pathlib import Path

import numpy
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agent_r1_core.contracts.token_numbers import TokenNumbers
from agent_r1_core.errors import RunError
from agent_r1_core.runs.trajectory_file import (
    read_task_keys,
    read_token_numbers,
    read_trajectories,
    task_key,
    write_trajectories,
)
from agent_r1_core.testing.trajectories import make_task, make_trajectory
from agent_r1_core.trajectory import CallRecord, EndStatus, Trajectory


def floats(values: list[float]) -> numpy.ndarray:
    return numpy.array(values, numpy.float32)


def rich_trajectory() -> Trajectory:
    """One that uses every field: two segments, process rewards, an end on a tool's answer. Log-probs fit float32."""
    ends = {"status": EndStatus.TRUNCATED, "answer": "Rome", "bootstrap": True, "reason": "max_turns"}
    paid = {"turn_rewards": [0.0, 0.5, 0.0], "reward": 1.25, "rewards": {"exact_match": 1.0, "format": 0.5}}
    about = {"seed": 2**62 + 1, "policy_version": 4, "attempts": 2, "seconds": 1.5, "tool_seconds": 0.75}
    trajectory = make_trajectory(
        [((1, 2, 3), (4, 5)), ((6, 7), (8, 9)), ((10,), (11,))],
        task=make_task("wiki-7", "Where?", ("Rome", "Roma"), seed=5, metadata={"hops": 2, "titles": ["Ö", "B"]}),
        sample=3,
        logprobs=[[-0.5, -0.25], [-1.0, -2.0], [-0.125]],
        closing=(12, 13),
        new_segment_at={2},
        **(ends | paid | about),
    )
    trajectory.closing = [{"role": "tool", "name": "wiki_search", "content": "nothing"}]
    second, third = trajectory.turns[1:]
    second.rewards = {"valid_tool_call": 0.5}
    second.calls = [CallRecord("wiki_search", {"query": "Rome"}, "Error: no such page.", 0.25)]
    second.errors = ["an answer beside a tool call is not read"]
    second.versions = ((4, 1), (5, 1))
    second.success, second.tool_seconds, second.state_key, second.info = False, 0.75, "state", {"left": 3}
    third.finish, third.new_context, third.purpose = "length", True, "summary"
    return trajectory


def test_every_field_comes_back(tmp_path: Path) -> None:
    """What an environment notes need not be JSON or text."""
    written = [rich_trajectory(), make_trajectory(), make_trajectory(sample=2, baseline=True)]
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where?"}]
    asked = dataclasses.replace(make_task(), prompt=messages)
    written += [make_trajectory(demonstrated="file"), make_trajectory(task=asked)]
    write_trajectories(tmp_path / "file", 1, written)
    assert read_trajectories(tmp_path / "file") == written
    assert {field.name for field in dataclasses.fields(Trajectory)} == set(vars(written[0]))
    write_trajectories(tmp_path / "file", 1, [])
    assert read_trajectories(tmp_path / "file") == []
    odd = make_trajectory(answer="\ud800!")
    odd.turns[0].info = {"board": {1}, "path": tmp_path}
    write_trajectories(tmp_path / "file", 1, [odd])
    (back,) = read_trajectories(tmp_path / "file")
    assert (back.answer, back.turns[0].info) == ("?!", {"board": "{1}", "path": str(tmp_path)})


def test_numbers_belong_to_a_trajectory_by_its_id_and_may_be_missing(tmp_path: Path) -> None:
    """Of a step: one that was learnt from, one that was skipped, one that was not trained on, one that was dropped."""
    learnt, skipped, none = rich_trajectory(), dataclasses.replace(rich_trajectory(), sample=4), [0.0] * 13
    dropped = make_trajectory(task=make_task("wiki-7"), sample=4, status=EndStatus.FAILED)
    advantages, values = [0.0, 0.0, 0.0, 0.5] + [0.0] * 9, [0.25] * 13
    own = [math.nan] * 3 + [-0.5] + [math.nan] * 9
    told = map(floats, ([*advantages, *none], [*own, *[math.nan] * 13], [*values, *values]))
    numbers = TokenNumbers({learnt.id: (0, 13), skipped.id: (13, 26)}, *told)
    write_trajectories(tmp_path / "file", 1, [learnt, skipped, make_trajectory(), dropped], numbers)
    first, second, *others = read_token_numbers(tmp_path / "file")
    assert first == {"advantages": advantages, "learner_logprobs": pytest.approx(own, nan_ok=True), "values": values}
    assert second == {"advantages": none, "learner_logprobs": None, "values": values}
    assert others == [dict.fromkeys(first)] * 2
    with pytest.raises(ValueError, match="2 advantages for the 13 ids of trajectory wiki-7/3"):
        write_trajectories(tmp_path / "file", 1, [learnt], TokenNumbers({learnt.id: (0, 2)}, floats([0.0, 1.0])))


def test_a_task_of_dropped_episodes_alone_is_none_that_was_trained_on(tmp_path: Path) -> None:
    played, broken = make_task("played"), make_task("broken", "Why?")
    dropped = [make_trajectory(task=task, status=EndStatus.FAILED) for task in (played, broken)]
    write_trajectories(tmp_path / "file", 1, [make_trajectory(task=played), *dropped])
    assert read_task_keys(tmp_path / "file") == {task_key(played)}
    same = (make_task(), make_task("other"), make_task(answers=["3"]))
    others = (make_task(prompt="Why?"), make_task(seed=7), make_task(seed=8))
    worlds = (make_task(answers=()), make_task("other", answers=()))
    assert len({task_key(task) for task in (*same, *others, *worlds)}) == 6


def test_the_file_is_plain_parquet_with_telling_columns_and_few_long_episodes_to_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that one is read alone."""
    write_trajectories(tmp_path / "file", 12, [rich_trajectory()])
    table = pq.read_table(tmp_path / "file")
    row = table.to_pylist()[0]
    assert (row["step"], row["task_id"], row["status"], row["answer"]) == (12, "wiki-7", "truncated", "Rome")
    assert (row["return"], row["turn_count"], row["tool_errors"]) == (1.75, 2, 1)
    assert row["segment_lengths"] == [9, 4]
    assert len(row["ids"]) == len(row["mask"]) == len(row["logprobs"]) == 13
    assert str(table.schema.field("logprobs").type) == "list<element: float>"
    assert pq.ParquetFile(tmp_path / "file").metadata.row_group(0).column(0).compression == "ZSTD"
    monkeypatch.setattr("agent_r1_core.runs.trajectory_file._TOKENS", 26)
    written = [dataclasses.replace(rich_trajectory(), sample=sample) for sample in range(5)]  # of 13 tokens each
    write_trajectories(tmp_path / "file", 1, iter(written))
    about = pq.ParquetFile(tmp_path / "file").metadata
    assert [about.row_group(part).num_rows for part in range(about.num_row_groups)] == [2, 2, 1]
    assert read_trajectories(tmp_path / "file") == written


def test_missing_torn_and_foreign_files_are_named(tmp_path: Path) -> None:
    """So are rows that agent-r1 did not write."""
    file = tmp_path / "file"
    with pytest.raises(RunError, match="there are no trajectories at"):
        read_trajectories(file)
    write_trajectories(file, 1, [rich_trajectory()])
    table, whole = pq.read_table(file), file.read_bytes()
    file.write_bytes(whole[:500])
    with pytest.raises(RunError, match="is not a whole file of trajectories; restore it from a copy"):
        read_trajectories(file)
    for column, text in (
        ("task", "{}"),
        ("messages", "[]"),
        ("messages", json.dumps([{"role": "user", "content": ["not", "text"]}] * 9)),
        ("turns", '[{"observed": "x"}]'),
        ("status", "odd"),
        ("rewards", "[" * 5000),
    ):
        pq.write_table(table.set_column(table.schema.get_field_index(column), column, pa.array([text])), file)
        with pytest.raises(RunError, match="is not a whole file of trajectories"):
            read_trajectories(file)
    pq.write_table(pa.table({"x": [1]}), file)
    with pytest.raises(RunError, match="version none, and this agent-r1 reads version 4"):
        read_token_numbers(file)


def test_flipped_bits_never_make_another_trajectory(tmp_path: Path) -> None:
    rng, file = random.Random(0), tmp_path / "file"
    ids = [rng.randrange(2**31) for _ in range(4000)]
    written = [make_trajectory([(ids[:2000], ids[2000:])], logprobs=[[-0.5] * 2000])]
    write_trajectories(file, 1, written)
    whole, refused = file.read_bytes(), 0
    pages = len(whole) - pq.read_metadata(file).serialized_size
    assert pages > len(whole) / 2
    for number in range(100):
        flipped = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            flipped[rng.randrange(pages if number % 2 else len(whole))] ^= 1 << rng.randrange(8)
        file.write_bytes(flipped)
        try:
            assert read_trajectories(file) == written, f"number {number}"
        except RunError:
            refused += 1
    assert refused > 50
