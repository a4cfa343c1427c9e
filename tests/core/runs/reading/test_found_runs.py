"""Runs are found in folders, each with an id that tells it from the others, and nothing outside is touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_r1_core.errors import RunError
from agent_r1_core.runs.reading.found_runs import FoundRuns
from agent_r1_core.runs.run import Run


def make(folder: Path, name: str) -> Path:
    with Run.create(folder, name, {}, []) as run:
        return run.path


def test_runs_are_found_however_deep_and_named_by_their_folder(tmp_path: Path) -> None:
    """Or not at all; a name that is not UTF-8 has an id that is."""
    (tmp_path / "notes.txt").write_text("none")
    assert FoundRuns([tmp_path]).all() == {}
    for place in ("notes.txt", "nowhere"):
        with pytest.raises(RunError, match="give a run or a folder with runs"):
            FoundRuns([tmp_path / place])
    one, two = make(tmp_path, "one"), make(tmp_path / "table" / "seed", "two")
    make(two / "model_files", "inside")  # a run holds no runs
    make(tmp_path, "hidden").rename(tmp_path / ".old-one")
    assert FoundRuns([tmp_path]).all() == {"one": one, "two": two}
    assert (tmp_path / ".old-one").is_dir(), "looking puts back no run that is being replaced"
    assert FoundRuns([one, two / "config.yaml", one]).all() == {"one": one, "two": two}
    deep = make(tmp_path.joinpath(*"abcde"), "deep")
    make(tmp_path.joinpath(*"abcdef"), "deeper")
    odd = make(tmp_path, "run").rename(tmp_path / os.fsdecode(b"\xc3\xa9-\xff"))
    assert FoundRuns([tmp_path]).all() == {"deep": deep, "one": one, "two": two, "é-\\xff": odd}
    assert FoundRuns([tmp_path]).path("é-\\xff") == odd


def test_runs_of_one_name_have_longer_ids_and_the_short_one_says_which(tmp_path: Path) -> None:
    found, first = FoundRuns([tmp_path]), make(tmp_path / "a" / "x", "grpo")
    assert found.path("grpo") == found.path("a/x/grpo") == first
    second = make(tmp_path / "b" / "x", "grpo")
    assert found.all() == {"a/x/grpo": first, "b/x/grpo": second}
    assert (found.path("a/x/grpo"), found.path("b/x/grpo")) == (first, second)
    with pytest.raises(RunError, match="several runs are called 'grpo'; say which: a/x/grpo, b/x/grpo"):
        found.path("grpo")
    for unknown in ("ppo", "../grpo", "", "a/x"):
        with pytest.raises(RunError, match="there is no run"):
            found.path(unknown)


def test_links_lead_nowhere(tmp_path: Path) -> None:
    outside = make(tmp_path / "outside", "secret")
    home = tmp_path / "home"
    run = make(home, "run")
    (home / "loop").symlink_to(home)
    (home / "secret").symlink_to(outside)
    (run / "file").symlink_to(outside / "config.yaml")
    (run / "near").symlink_to(run / "config.yaml")
    beside = make(tmp_path / "home-of-another", "run")
    (run / "beside").symlink_to(beside / "config.yaml")
    found = FoundRuns([home])
    assert found.all() == {"run": run}
    assert found.check_inside(run / "near") == run / "near"
    for path in (run / "file", run / "beside", run / ".." / ".." / "outside"):
        with pytest.raises(RunError, match="leads out of"):
            found.check_inside(path)
    (home / "piped").mkdir()
    os.mkfifo(home / "piped" / "run.json")
    assert found.all() == {"run": run}
    (tmp_path / "link").symlink_to(outside)
    assert FoundRuns([tmp_path / "link"]).all() == {"secret": outside}
