"""An evaluation's two files belong together, and are read whole or refused in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_r1_core.errors import RunError
from agent_r1_core.runs.evaluation_file import (
    read_episodes,
    read_evaluation,
    remove_evaluation,
    trajectory_files,
    write_evaluation,
)

ODD = [{"prediction": "a\u2028b\x85c\nd \ud800 É"}, {"prediction": None, "tokens": 3}]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_evaluation(tmp_path / "eval_1.json", {"step": None, "n": 2}, ODD)
    return tmp_path / "eval_1.json"


def test_episodes_come_back_whatever_they_hold_and_all_that_is_named_is_replaced_and_removed(
    file: Path,
) -> None:
    result = read_evaluation(file)
    assert (result["n"], result["episodes"]["n"], result["episodes"]["file"]) == (2, 2, "eval_1.jsonl")
    assert read_episodes(file, result) == ODD
    assert "É" in (file.with_suffix(".jsonl")).read_text(encoding="utf-8")
    write_evaluation(file, {"step": None, "n": 1}, ODD[:1])
    assert read_episodes(file, read_evaluation(file)) == ODD[:1]
    write_evaluation(file, {"step": None, "n": 0})
    assert not file.with_suffix(".jsonl").exists()
    with pytest.raises(RunError, match="keeps no episodes, so it cannot be scored again; evaluate again"):
        read_episodes(file, read_evaluation(file))
    write_evaluation(file, {"step": None, "n": 1}, ODD)
    remove_evaluation(file)
    assert list(file.parent.iterdir()) == []
    names = {"one": "eval_1.one.parquet", "two": "eval_1.two.parquet"}
    for name in (*names.values(), "eval_1.one.more.parquet"):
        file.with_name(name).touch()
    write_evaluation(file, {"step": None, "n": 1}, ODD, names)
    assert trajectory_files(file, read_evaluation(file)) == names
    write_evaluation(file, {"step": None, "n": 1}, ODD, {"two": names["two"]})
    assert not file.with_name(names["one"]).exists(), "it is of the evaluation that was replaced"
    remove_evaluation(file)
    assert [path.name for path in file.parent.iterdir()] == ["eval_1.one.more.parquet"]


def test_episodes_of_another_evaluation_are_refused(file: Path) -> None:
    lines = file.with_suffix(".jsonl")
    lines.write_text(lines.read_text(encoding="utf-8").replace("É", "E"), encoding="utf-8")
    with pytest.raises(RunError, match=r"eval_1\.jsonl does not hold the episodes that eval_1\.json was computed from"):
        read_episodes(file, read_evaluation(file))
    lines.unlink()
    with pytest.raises(RunError, match=r"there is no file .*eval_1\.jsonl \(eval_1\.json names it"):
        read_episodes(file, read_evaluation(file))


def read_all(path: Path) -> list[dict[str, Any]]:
    result = read_evaluation(path)
    trajectory_files(path, result)
    return read_episodes(path, result)


OUTSIDE = ([], "../eval_1.jsonl", "../eval_1.parquet", 3, "", "run.json", "\0.parquet", "\ud800.jsonl")


def test_a_damaged_result_or_one_that_names_files_elsewhere_is_named(file: Path) -> None:
    texts = ["", "[]", '{"step": "2"}', "{" * 9, '{"n": "\udcff"}']
    for name in OUTSIDE:
        for key, named in (("episodes", {"file": name, "sha256": ""}), ("trajectories", {"": name})):
            texts.append(json.dumps({"step": None, key: named if name != [] else []}))
    for text in texts:
        file.write_bytes(text.encode("utf-8", "surrogateescape"))
        with pytest.raises(RunError, match=r"eval_1\.json is damaged"):
            read_all(file)
