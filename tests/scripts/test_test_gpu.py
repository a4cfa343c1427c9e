"""`make test-gpu` in its tiny form on a CPU; what it says of parts that fail or take too long; what it carries."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch


def run(root: Path, *arguments: str | Path, python: str | Path = sys.executable) -> subprocess.CompletedProcess[str]:
    command = [python, root / "scripts" / "test_gpu.py", *arguments]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600, check=False)


@pytest.fixture
def on_gpu(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its modules can be imported."""
    monkeypatch.syspath_prepend(str(root / "scripts"))


@pytest.mark.slow
def test_every_part_runs_and_is_in_the_report(root: Path, tmp_path: Path, warm: Path) -> None:
    done = run(root, "--device", "cpu", "--tiny", "--out", tmp_path, python=warm)
    assert done.returncode == 0, done.stdout + done.stderr
    report = (tmp_path / "report.md").read_text()
    parts = ("tests", "recipe", "learner", "head", "decoding", "step")
    assert [line for line in report.splitlines() if line.startswith("## ")] == [f"## {part}: passed" for part in parts]
    assert "2 passed, 0 failed, 0 skipped" in report
    assert f"| torch | {torch.__version__} |" in report
    for said in ("health: healthy", "a kernel for each span", "by all logits", "LeanDecoder", "rollout tokens/s"):
        assert said in report


def test_parts_add_up_to_one_report_and_a_cut_one_says_so(root: Path, tmp_path: Path) -> None:
    tiny = ("--device", "cpu", "--tiny", "--out", tmp_path)
    assert run(root, *tiny, "--parts", "head").returncode == 0
    assert run(root, *tiny, "--parts", "step", "--part-minutes", "0.02").returncode == 1
    report = (tmp_path / "report.md").read_text()
    assert "## head: passed" in report
    assert "## step: cut after 1 s" in report


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_machine_without_a_gpu_is_told_in_one_sentence(root: Path, tmp_path: Path) -> None:
    done = run(root, "--out", tmp_path / "out")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "torch sees no CUDA device, so that nothing was run; use a machine with a GPU, or see with --device cpu --tiny "
        "that the parts run\n"
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--parts", "tests,heads"], "there is no part 'heads'; the parts are tests, recipe, learner"),
        (["--wheels", "gone"], "there is no folder gone; fill one with --pack, or leave --wheels out"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(root: Path, arguments: list[str], told: str) -> None:
    done = run(root, *arguments)
    assert done.returncode == 2
    assert told in done.stderr


def test_a_failed_test_and_the_reasons_of_skips_are_told(on_gpu: None, tmp_path: Path) -> None:
    from on_gpu.tests import tests_of

    cases = (
        '<testcase classname="a" name="good"/>',
        '<testcase classname="a" name="bad"><failure message="assert 1 == 2&#10;more"/></testcase>',
        *('<testcase classname="b" name="left"><skipped message="no vLLM"/></testcase>' for _ in range(2)),
    )
    (tmp_path / "x.xml").write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    assert tests_of(tmp_path / "x.xml").splitlines() == [
        "1 passed, 1 failed, 2 skipped",
        "",
        "- FAILED `a::bad`: assert 1 == 2",
        "- skipped 2: no vLLM",
    ]


def test_a_checkout_runs_uninstalled_with_the_wheels_that_are_missing(
    on_gpu: None, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from on_gpu.site import make_site

    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for name, version in (("absent_here", "1.0"), ("torch", "1.0"), ("pluggy", "999")):
        with zipfile.ZipFile(wheels / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}.py", "HERE = 7")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    environment = make_site(tmp_path / "site", root, wheels)
    assert environment["PYTHONPATH"].split(":") == [str(tmp_path / "site"), str(root), str(root / "plugins")]
    assert not (tmp_path / "site" / "torch.py").exists(), "this Python has a newer one"
    assert (tmp_path / "site" / "pluggy.py").exists()
    (tmp_path / "site" / "pluggy.py").unlink()
    code = (
        "from importlib.metadata import distribution; import absent_here; found = distribution('agent-r1'); "
        "print(absent_here.HERE, found._path, sum(point.group == 'agent_r1' for point in found.entry_points))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    here, path, points = done.stdout.split()
    assert (here, Path(path).parent) == ("7", tmp_path / "site")
    assert int(points) == len(list((root / "plugins").glob("*/plugin.py")))


def test_every_carried_package_is_pinned(on_gpu: None, root: Path) -> None:
    from on_gpu.site import CARRIED, pins

    assert set(CARRIED) <= set(pins(root))


def test_a_profile_and_a_failure_are_shown(on_gpu: None, tmp_path: Path) -> None:
    from on_gpu.summary import Result, summary

    def shown(outcome: str, printed: str, **more: Any) -> str:
        Result("learner", outcome, 3.0, printed, **more).save(tmp_path)
        return summary({"vllm": "not installed"}, Result.load_all(tmp_path, ["tests", "learner"]))

    table = "Updates\n\n| a |\n|---|\n| 1 |\nwritten to x"
    assert shown("passed", table).endswith("## learner: passed\n\nUpdates\n\n| a |\n|---|\n| 1 |\n")
    assert "nothing of it was run: the embedded engine served" in shown("passed", table)
    failed = shown("failed with exit status 1", table + "\nOutOfMemoryError: no")
    assert "| 1 |" in failed
    assert failed.endswith("written to x\nOutOfMemoryError: no\n```\n")
