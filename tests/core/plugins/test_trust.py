"""A plugin file that a recipe or a run names runs only if the user has run or allowed it here."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_r1_core.plugins.sources import Candidate, candidates
from agent_r1_core.plugins.trust import Trust, remember, shown


def file(path: Path, text: str = "1") -> Candidate:
    path.write_text(text)
    return next(candidate for candidate in candidates([path]) if candidate.is_local)


def test_a_person_is_asked_once_about_what_did_not_run_here(tmp_path: Path) -> None:
    (tmp_path / "\x1b[2J").mkdir()
    first, second = file(tmp_path / "first.py"), file(tmp_path / "\x1b[2J" / "second.py")
    remember([first])
    questions: list[str] = []
    asking = Trust(confirm=lambda question: questions.append(question) or True)  # type: ignore[func-returns-value]
    assert asking.refused([first, second]) == []
    assert asking.refused([first, second]) == []
    [question] = questions
    assert "first.py" not in question
    assert shown(second) in question
    assert "\x1b" not in question, "a path does not steer the terminal"


def test_a_no_and_nobody_to_ask_refuse(tmp_path: Path) -> None:
    unknown = file(tmp_path / "unknown.py")
    assert Trust(confirm=lambda _: False).refused([unknown]) == [unknown]
    assert Trust().refused([unknown]) == [unknown]


def test_another_content_or_another_place_is_another_file(tmp_path: Path) -> None:
    remember([file(tmp_path / "mine.py")])
    moved, edited = file(tmp_path / "moved.py"), file(tmp_path / "mine.py", "2")
    assert Trust().refused([moved, edited]) == [moved, edited]
    assert Trust(edited=True).refused([moved, edited]) == [moved]


def test_where_nothing_can_be_remembered_files_still_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_R1_STATE", "/dev/null/state")
    mine = file(tmp_path / "mine.py")
    assert Trust(named=True).refused([mine]) == []
    assert Trust().refused([mine]) == [mine]
