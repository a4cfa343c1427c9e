"""LAW 13. What comes from elsewhere is only read: whoever writes a run writes regular files of its own folder.

A stranger's run may hold links to the user's files, and a run that `--force` seems to have set aside."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_r1_core.errors import NotOpened, RunError
from agent_r1_core.evaluation.result_file import ResultFile
from agent_r1_core.runs.call_log import CallLog
from agent_r1_core.runs.files import append_line, write_json
from agent_r1_core.runs.run import Run

THESIS = "years of work\n"
LINES = ("events.jsonl", "metrics.jsonl", "health.jsonl")
FILES = (".lock", "calls_in_process.txt", "run.json", "config.yaml", "best.json", *LINES)
FOLDERS = ("checkpoints", "trajectories", "evaluations", "model_files", "checkpoints/step_000001")


@pytest.fixture
def thesis(tmp_path: Path) -> Path:
    """The user's own folder, with a file."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "thesis").write_text(THESIS)
    return tmp_path / "own" / "thesis"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that a stranger can resume."""
    with Run.create(tmp_path / "s", "x", {"seed": 1}, []) as run:
        run.append_metrics(1, {})
        (run.path / "health.jsonl").touch()
        (run.path / "model_files").mkdir()
        (run.path / "checkpoints" / "step_000001").mkdir()
    return run.path


def contents(folder: Path) -> dict[str, tuple[int, bytes | str | None]]:
    """All that can change in a folder."""
    found: dict[str, tuple[int, bytes | str | None]] = {}
    for path in sorted(folder.rglob("*")):
        link, file = path.is_symlink(), path.is_file()
        content = os.readlink(path) if link else path.read_bytes() if file else None
        found[str(path)] = (os.lstat(path).st_mtime_ns, content)
    return found


@pytest.mark.parametrize("name", [*FILES, *FOLDERS])
@pytest.mark.parametrize("there", [True, False], ids=["to a file", "to nothing"])
def test_a_run_with_a_link_that_leads_out_is_not_resumed(run: Path, thesis: Path, name: str, there: bool) -> None:
    target = thesis if name in FILES else thesis.parent
    link = run / name
    (shutil.rmtree if link.is_dir() else Path.unlink)(link) if link.exists() else None
    link.symlink_to(target if there else target / "missing")
    before = contents(run.parent.parent)
    with pytest.raises(RunError):
        Run.resume(run)
    assert contents(run.parent.parent) == before


@pytest.mark.parametrize("name", ["x", "y"], ids=["there", "set aside"])
@pytest.mark.parametrize("sound", [True, False])
def test_a_run_that_was_set_aside_is_looked_at_and_not_brought_back(run, thesis, name, sound):
    """A sound one may be: whoever writes there next does. One that only seems to be set aside is never repaired."""
    place, old = run.with_name(name), run.with_name(f".old-{name}")
    shutil.copytree(run, old)
    if not sound:
        (old / ".lock").unlink()
        (old / ".lock").symlink_to(thesis)
    (run / "config.yaml").unlink()
    before = contents(run.parent.parent)
    assert Run.is_run(place) == (name == "x")
    for look in (Run.open, ResultFile.open, lambda path: Run.open(path).config()):
        with contextlib.suppress(RunError):
            look(place)
    assert contents(run.parent.parent) == before
    if sound:
        with Run.resume(place) as resumed:
            assert resumed.config() == {"seed": 1}
        return
    with pytest.raises(RunError):
        Run.resume(place)
    with pytest.raises(RunError):
        Run.create(place.parent, name, {}, [], force=True)
    assert contents(old) == {path: found for path, found in before.items() if path.startswith(f"{old}/")}
    assert contents(thesis.parent) == {str(thesis): before[str(thesis)]}


def test_what_is_set_aside_is_a_run_or_it_is_left_alone(run: Path) -> None:
    """`--force` deletes the run that it replaces, and nothing that has the name of one."""
    work = run.with_name(".old-x")
    work.mkdir()
    (work / "thesis").write_text(THESIS)
    with Run.resume(run) as resumed:
        resumed.append_metrics(2, {})
    assert (work / "thesis").read_text() == THESIS


def test_no_line_and_no_file_is_written_through_a_link(tmp_path: Path, thesis: Path) -> None:
    for link in (tmp_path / "lines", tmp_path / f".tmp-run.json-{os.getpid()}", tmp_path / "calls_in_process.txt"):
        link.symlink_to(thesis)
    with pytest.raises(NotOpened, match="lines is not opened: it is a link, and nothing is written through links"):
        append_line(tmp_path / "lines", "a line")
    (tmp_path / "second").hardlink_to(thesis)
    with pytest.raises(NotOpened, match="second is not opened: the same file has another name"):
        append_line(tmp_path / "second", "a line")
    write_json(tmp_path / "run.json", {})
    log = CallLog(tmp_path)
    log.begin("tool", "episode", 1)
    log.close()
    assert thesis.read_text() == THESIS
    assert (tmp_path / "run.json").read_text() == "{}\n"


@pytest.mark.parametrize("lead", [Path.symlink_to, Path.hardlink_to], ids=["link", "second name"])
def test_an_evaluation_stays_in_its_run(run: Path, thesis: Path, lead: Callable[[Path, Path], None]) -> None:
    for name in ("eval_1.json", "eval_1.jsonl"):
        lead(run / "evaluations" / name, thesis)
    Run.open(run).write_evaluation("eval_1", {}, episodes=[{}])
    assert thesis.read_text() == THESIS
    shutil.rmtree(run / "evaluations")
    (run / "evaluations").symlink_to(thesis.parent)
    with pytest.raises(NotOpened, match="leads out of"):
        Run.open(run).write_evaluation("eval_1", {}, episodes=[{}])
    assert [path.name for path in thesis.parent.iterdir()] == ["thesis"]


def test_a_run_is_written_where_its_user_says(run: Path, tmp_path: Path) -> None:
    """A link that the user names, or a parent that is one, is the user's own way there."""
    (tmp_path / "disk").symlink_to(run.parent)
    (tmp_path / "mine").symlink_to(run)
    for step, path in enumerate((tmp_path / "disk" / "x", tmp_path / "mine"), start=2):
        with Run.resume(path) as resumed:
            resumed.append_metrics(step, {})
    assert Run.open(run).last_step() == 3
