"""`agent-r1 new`: what it writes, and what it refuses."""

from __future__ import annotations

import subprocess

import pytest

from agent_r1_cli.new_command import KINDS

UNUSED = "letters_of_nobody"
"""A name that no installed plugin has; the README's word_count is one that its readers install."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_project_of_every_kind_is_whole(succeed, tmp_path, kind):
    """That each passes its own tests is shown where they are built and installed."""
    folder = tmp_path / "project"
    result = succeed("new", kind, f"my_{kind}", "--dir", folder)
    assert str(folder / "src" / f"my_{kind}_plugin" / "plugin.py") in result.stdout.splitlines()
    assert "pip install -e ." in result.stderr
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert not [path for path in files if "{{" in path.read_text() or "{{" in str(path)]


def test_it_passes_its_own_tests_before_it_is_installed_in_a_new_folder(agent_r1, succeed, tmp_path, warm):
    succeed("new", "tool", UNUSED)
    folder = tmp_path / "agent-r1-letters-of-nobody"
    assert (folder / "tests" / f"test_{UNUSED}.py").is_file()
    again = agent_r1("new", "tool", UNUSED, "--dir", folder)
    assert (again.exit_code, f"error: {folder} exists already" in again.stderr) == (2, True)
    call = [warm, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("kind", "name", "reason"),
    [
        ("tool", "WordCount", "how about word_count?"),
        ("tool", "class", "cannot name a component"),
        ("tool", "../up", "how about up?"),
        ("tool", "", "cannot name a component"),
        ("reward", "calculator", "a plugin called 'calculator' is installed"),
        ("reward", "exact_match", "plugin 'rewards' offers a reward called 'exact_match'"),
        ("tol", "word_count", "did you mean 'tool'?"),
    ],
)
def test_a_kind_or_name_that_cannot_be_used_is_refused(agent_r1, tmp_path, kind, name, reason):
    result = agent_r1("new", kind, name, "--dir", tmp_path / "project")
    assert result.exit_code == 2
    assert reason in " ".join(result.stderr.split())
    assert not (tmp_path / "project").exists()
