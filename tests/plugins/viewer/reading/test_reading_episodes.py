"""Parts of trajectory files are what the whole file says, of every version, however it is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agent_r1_viewer.reading.episode import read_episode, read_trajectory_rows
from agent_r1_viewer.reading.episode_rows import read_groups, read_rows
from agent_r1_viewer.reading.episode_search import MOST_HITS, End, Filters, Hit, search

from agent_r1_core.errors import RunError
from agent_r1_core.runs.trajectory_file import read_token_numbers, read_trajectories, write_trajectories
from agent_r1_core.testing.recorded_run import numbers, step_episodes
from agent_r1_core.testing.trajectories import make_task, make_trajectory


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path, episodes = tmp_path / "step_000001.parquet", step_episodes(1)
    write_trajectories(path, 1, episodes, numbers(episodes))
    return path


def stored_anew(file: Path, change: Any = lambda table: table, **options: Any) -> None:
    import pyarrow.parquet as pq

    table = change(pq.read_table(file)).replace_schema_metadata({"agent_r1_trajectories": "4"})
    pq.write_table(table, file, **options)


@pytest.mark.parametrize("size", [1, 3])
def test_one_episode_is_that_of_the_whole_file(file: Path, size: int) -> None:
    """However many rows a group of the Parquet file has."""
    stored_anew(file, row_group_size=size)
    whole, known = read_trajectories(file), read_token_numbers(file)
    for row, (trajectory, expected) in enumerate(zip(whole, known, strict=True)):
        found = read_episode(file, row)
        assert (found.trajectory, found.row, found.rows) == (trajectory, row, len(whole))
        kept = {"advantages": found.advantages, "learner_logprobs": found.learner_logprobs, "values": found.values}
        assert str(kept) == str(expected)  # NaN is not equal to itself
    rows = read_rows(file)
    assert [row.total for row in rows] == [one.total_reward for one in whole]
    assert [row.turns for row in rows] == [len(one.steps) for one in whole]
    assert [row.tokens for row in rows] == [one.tokens for one in whole]
    assert read_rows(file, [5, 2]) == [rows[5], rows[2]]
    assert read_rows(file, range(7, -1, -1)) == rows[::-1]
    assert [one.messages() for one in read_trajectory_rows(file, [2, 3])] == [one.messages() for one in whole[2:4]]


def test_groups_are_cut_where_the_task_changes_or_its_samples_begin_anew(tmp_path: Path) -> None:
    """The second task comes twice in a row, as at the end of a pass over the tasks; its baselines are apart."""
    samples = [("a", 0), ("a", 2), ("b", 0), ("b", 1), ("b", 0), ("b", 1)]
    episodes = [make_trajectory(task=make_task(task), sample=sample) for task, sample in samples]
    greedy = [make_trajectory(task=make_task("b"), sample=2, baseline=True) for _ in range(2)]
    write_trajectories(tmp_path / "file", 1, [*episodes, *greedy])
    groups, _ = read_groups(tmp_path / "file")
    assert [(group.task, group.rows, group.baseline) for group in groups] == [
        ("a", (0, 1), None), ("b", (2, 3), 6), ("b", (4, 5), 7)
    ]  # fmt: skip
    assert [read_episode(tmp_path / "file", row).group for row in range(8)] == [0, 0, 1, 1, 2, 2, 1, 2]


def test_a_search_of_many_hits_says_where_it_goes_on(tmp_path: Path) -> None:
    files = [(step, tmp_path / f"{step}") for step in (3, 2, 1)]
    many = [make_trajectory(task=make_task(str(number))) for number in range(MOST_HITS)]
    for _, path in files:
        write_trajectories(path, 1, many)
    begun: list[Path] = []
    found = list(search(files, Filters(), begun.append))
    assert sum(isinstance(one, Hit) for one in found) == MOST_HITS
    assert found[-1] == End(MOST_HITS, 2)
    assert begun == [files[0][1]]  # the others were not to be shown


@pytest.mark.parametrize("column", ["turns", "messages", "rewards", "task"])
def test_rows_that_nobody_wrote_are_damage(file: Path, column: str) -> None:
    import pyarrow as pa

    def spoil(table: Any) -> Any:
        values = pa.array(['{"no": "such"}' if column != "rewards" else "["] * len(table))
        return table.set_column(table.schema.get_field_index(column), column, values)

    stored_anew(file, spoil)
    reads = [lambda: read_episode(file, 0), *([lambda: read_groups(file)] if column in ("rewards", "task") else [])]
    for read in reads:
        with pytest.raises(RunError, match="is not a whole file of trajectories"):
            read()
