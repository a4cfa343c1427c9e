"""What is read for the viewer: questions by evaluations, parts of trajectory files, what single tokens spell."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from agent_r1_viewer.reading.episode import read_episode, read_trajectory_rows
from agent_r1_viewer.reading.episode_rows import read_groups, read_rows
from agent_r1_viewer.reading.episode_search import MOST_HITS, End, Filters, Hit, Progress, search
from agent_r1_viewer.reading.evaluation_matrix import EvaluationMatrix, read_matrix
from agent_r1_viewer.reading.token_texts import TokenTexts
from recorded_run import numbers, step_episodes

from agent_r1_core.errors import RunError
from agent_r1_core.runs.reading.evaluation_scores import RecordedEvaluations
from agent_r1_core.runs.run import Run
from agent_r1_core.runs.trajectory_file import read_token_numbers, read_trajectories, write_trajectories
from agent_r1_core.testing.trajectories import make_task, make_trajectory


def asked(task: str, score: float | None, total: float = 0.0, **more: Any) -> dict[str, Any]:
    """One episode's record; without a score it failed."""
    rewards = {} if score is None else {"exact_match": score}
    about = {"task": task, "set": "", "question": f"What is {task}?", "answers": [task.upper(), 7]}
    status = "failed" if score is None else "terminated"
    return {**about, "prediction": f"{task} {score}", "status": status, "rewards": rewards, "total": total, **more}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.create(tmp_path, "first", {}, [])


def evaluate(run: Run, step: int, lines: Sequence[Mapping[str, Any]], **more: Any) -> None:
    estimate = {"mean": 0.5, "low": None, "high": None, "method": "wilson", "n": 4}
    run.write_evaluation(f"step_{step:06d}", {"metrics": {"exact_match": estimate}, **more}, step, lines)


def matrix(run: Run, score: str | None = None) -> EvaluationMatrix:
    evaluations, problems = RecordedEvaluations(run.path / "evaluations").all()
    assert problems == []
    return read_matrix(run.path / "evaluations", evaluations, score)


def test_a_group_of_one_has_no_spread(tmp_path: Path) -> None:
    write_trajectories(tmp_path / "step.parquet", 1, [make_trajectory(task=make_task("a"), reward=0.5)])
    ((group,), dropped) = read_groups(tmp_path / "step.parquet")
    assert (group.returns, group.std, dropped) == ([0.5], 0.0, [])


def test_several_samples_count_with_their_mean_and_failed_ones_not_at_all(run: Run) -> None:
    evaluate(run, 0, [asked("a", 1.0, 3.0), asked("a", 0.0, 1.0), asked("a", None), asked("b", None)])
    evaluate(run, 2, [asked("b", 0.0, -1.0), asked("c", 1.0, 2.0, rewards={"exact_match": 1.0, "format": 0.5})])
    found = matrix(run)
    assert (found.score, found.scores) == ("exact_match", ["exact_match", "format", "reward/mean"])
    assert [(one.set, one.task, one.question, one.answers) for one in found.questions] == [
        ("", task, f"What is {task}?", [task.upper(), "7"]) for task in "abc"
    ]
    assert found.cells == [[0.5, None], [None, 0.0], [None, 1.0]]
    assert found.predictions == [["a 1.0", None], ["b None", "b 0.0"], [None, "c 1.0"]]
    assert found.rows == [[None, None]] * 3
    assert matrix(run, "reward/mean").cells == [[2.0, None], [None, -1.0], [None, 2.0]]
    assert matrix(run, "format").cells == [[None, None], [None, None], [None, 0.5]]
    assert matrix(run, "gone").cells == [[None, None]] * 3


def test_a_question_leads_to_its_first_episode_in_its_own_set(run: Run) -> None:
    folder = run.path / "evaluations"
    folder.mkdir(exist_ok=True)
    files = {"": "step_000001.parquet", "hard": "step_000001.hard.parquet"}
    rows = {"": ["b", "b", "a", "a"], "hard": ["a"]}
    for group, file in files.items():
        episodes = [make_trajectory(task=make_task(task), sample=sample) for sample, task in enumerate(rows[group])]
        write_trajectories(folder / file, 1, episodes)
    lines = [asked("a", 1.0), asked("b", 0.0), asked("a", 0.0, set="hard")]
    evaluate(run, 1, lines, trajectories=files)
    found = matrix(run)
    assert [(one.set, one.task) for one in found.questions] == [("", "a"), ("", "b"), ("hard", "a")]
    assert (found.cells, found.rows) == ([[1.0], [0.0], [0.0]], [[2], [0], [0]])
    (folder / files["hard"]).write_bytes(b"PAR1")
    found = matrix(run)
    assert (found.cells, found.rows) == ([[1.0], [0.0], [0.0]], [[2], [0], [None]])
    assert "hard.parquet is not a whole file of trajectories" in found.problems[0]


def test_a_damaged_evaluation_is_an_empty_column_and_a_sentence(run: Run) -> None:
    evaluate(run, 1, [asked("a", 1.0)])
    evaluate(run, 2, [asked("a", 0.0)])
    evaluate(run, 3, [{"question": "Whose task?"}])
    shutil.copy(run.path / "evaluations" / "step_000001.jsonl", run.path / "evaluations" / "step_000002.jsonl")
    found = matrix(run)
    assert (found.cells, found.predictions) == ([[1.0, None, None]], [["a 1.0", None, None]])
    another, taskless = found.problems
    assert "step_000002.jsonl does not hold the episodes" in another
    assert "step_000003.jsonl is damaged" in taskless


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path, episodes = tmp_path / "step_000001.parquet", step_episodes(1)
    write_trajectories(path, 1, episodes, numbers(episodes[:6]))
    return path


@pytest.mark.parametrize("size", [1, 3])
def test_one_episode_is_that_of_the_whole_file(file: Path, size: int) -> None:
    """However many rows a group of the Parquet file has."""
    pyarrow.parquet.write_table(pyarrow.parquet.read_table(file), file, row_group_size=size)
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


def test_a_search_ends_when_it_has_found_enough_and_says_where_it_goes_on(tmp_path: Path) -> None:
    """But goes on while the next step may be its last."""
    files = [(step, tmp_path / f"{step}") for step in (3, 2, 1)]
    few = MOST_HITS * 2 // 5
    for size, read, end in ((MOST_HITS, [3], End(MOST_HITS, 2)), (few, [3, 2, 1], End(3 * few, None))):
        many = [make_trajectory(task=make_task(str(number))) for number in range(size)]
        for _, path in files:
            write_trajectories(path, 1, many)
        begun: list[Path] = []
        found = list(search(files, Filters(), begun.append))
        assert sum(isinstance(one, Hit) for one in found) == end.hits
        assert found[-1] == end
        assert begun == [path for step, path in files if step in read], "the others were not to be shown"
        assert [one.step for one in found if isinstance(one, Progress)] == read


@pytest.mark.parametrize("text", ["Zürich 東", "zÜRICH 東京"])
def test_text_is_found_in_every_script(tmp_path: Path, text: str) -> None:
    said = make_trajectory(texts=["Ich war in Zürich 東京.", "Gut."])
    write_trajectories(tmp_path / "1", 1, [make_trajectory(sample=1), said])
    hits = [one for one in search([(1, tmp_path / "1")], Filters(text=text)) if isinstance(one, Hit)]
    assert [hit.snippet and hit.snippet[1].casefold() for hit in hits] == [text.casefold()]


def texts(folder: Path, model: Any, decoder: Any = None, added: Any = None) -> TokenTexts:
    record = {"model": model, "decoder": decoder, "added_tokens": added}
    (folder / "tokenizer.json").write_text(json.dumps(record), encoding="utf-8")
    return TokenTexts.read(folder)


def test_what_is_no_tokenizer_is_one_sentence_and_other_kinds_of_vocabulary_are_read(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot be read"):
        TokenTexts.read(tmp_path)
    for text in ("{", "[]", '{"model": {}}', '{"model": {"vocab": {"a": "b"}}}', '{"model": {"vocab": 3}}', "\udcff"):
        (tmp_path / "tokenizer.json").write_bytes(text.encode("utf-8", "surrogateescape"))
        with pytest.raises(RunError, match="is no tokenizer"):
            TokenTexts.read(tmp_path)
    # SentencePiece writes spaces and bytes, a unigram model lists its pieces, WordPiece marks what goes on.
    spaces = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    found = texts(
        tmp_path,
        {"type": "BPE", "vocab": {"▁the": 0, "<0xE2>": 1, "<0x41>": 2, "▁▁": 3}},
        {"type": "Sequence", "decoders": [spaces, {"type": "ByteFallback"}, {"type": "Fuse"}]},
        [{"id": 4, "content": "<s>", "special": True}],
    )
    assert [found.of(token) for token in range(6)] == [
        (" the", "text"), ("\\xe2", "part"), ("A", "text"), ("  ", "text"), ("<s>", "control"), ("<5>", "control")
    ]  # fmt: skip
    unigram = {"type": "Unigram", "vocab": [["<unk>", 0.0], ["▁a", -1.5]]}
    assert texts(tmp_path, unigram, {"type": "Metaspace", "replacement": "▁"}).of(1) == (" a", "text")
    words = {"type": "WordPiece", "vocab": {"play": 0, "##ing": 1}}
    assert texts(tmp_path, words, {"type": "WordPiece", "prefix": "##"}).of(1) == ("ing", "text")
    assert texts(tmp_path, {"vocab": {"plain": 0}}).of(0) == ("plain", "text")
