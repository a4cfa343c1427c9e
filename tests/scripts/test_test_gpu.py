"""`make test-gpu` in its tiny form on a CPU, without a GPU, and with packages that it carries."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch


def run(root: Path, *arguments: str | Path, python: Path) -> subprocess.CompletedProcess[str]:
    command = [python, root / "scripts" / "test_gpu.py", *arguments]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.slow
def test_every_part_runs_and_is_in_the_report(root: Path, tmp_path: Path, warm: Path) -> None:
    done = run(root, "--device", "cpu", "--tiny", "--out", tmp_path, python=warm)
    assert done.returncode == 0, done.stdout + done.stderr
    report = (tmp_path / "report.md").read_text()
    parts = ("tests", "recipe", "learner", "head", "decoding", "step")
    assert [line for line in report.splitlines() if line.startswith("## ")] == [f"## {part}: passed" for part in parts]
    assert re.search("[1-9][0-9]* passed, 0 failed, 0 skipped", report)
    assert f"| torch | {torch.__version__} |" in report
    for said in ("health: healthy", "a kernel for each span", "by all logits", "LeanDecoder", "rollout tokens/s"):
        assert said in report


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_machine_without_a_gpu_is_told_in_one_sentence(root: Path, tmp_path: Path, warm: Path) -> None:
    done = run(root, "--out", tmp_path / "out", python=warm)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "torch sees no CUDA device, so that nothing was run; use a machine with a GPU, or see with --device cpu --tiny "
        "that the parts run\n"
    )
    assert not (tmp_path / "out").exists()


def test_a_checkout_runs_uninstalled_with_the_wheels_that_are_missing(root, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "scripts"))
    from test_gpu import make_site

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


@pytest.mark.slow
def test_a_part_that_is_cut_tells_what_it_had_found(root, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "scripts"))
    import test_gpu

    (tmp_path / "test_two.py").write_text(
        "import pathlib, time\ndef test_one(): pass\n"
        f"def test_long():\n    pathlib.Path({str(tmp_path / 'begun')!r}).touch()\n    time.sleep(600)\n"
    )
    command = ["-m", "pytest", "-p", "no:cacheprovider", "--junitxml", tmp_path / "tests.xml", tmp_path / "test_two.py"]
    monkeypatch.setitem(test_gpu.PARTS, "tests", lambda plan: command)
    seconds = 7.5
    while not (tmp_path / "begun").exists():  # a busy machine may take longer to begin
        seconds *= 2
        result = test_gpu.run("tests", test_gpu.Plan(tmp_path, tmp_path, "cpu", True, os.environ), seconds)
    assert result.outcome == f"cut after {seconds:.0f} s"
    assert "1 passed, 0 failed" in result.told
