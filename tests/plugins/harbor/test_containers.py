"""Tasks with an image, in real containers of podman; the image is made of programs of this machine, without a hub."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from agent_r1_harbor.env import Harbor
from agent_r1_harbor.source import HarborTasks
from agent_r1_tool_formats.hermes import Hermes

from agent_r1_core import Action, EnvServices, Task, ToolCall

pytestmark = pytest.mark.slow
TASKS = Path(__file__).resolve().parents[3] / "recipes" / "harbor" / "tasks"
PROGRAMS = ("awk", "bash", "cat", "diff", "find", "grep", "ls", "mkdir", "rm", "sh", "sleep", "tar")
DOCKERFILE = """FROM scratch
ADD root.tar /
WORKDIR /work
COPY --chown=1000 numbers.txt .
USER 1000
"""
HANG = "while :; do echo still here; done"
SETTINGS = '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]\n'
"""Machines that may not raise a limit run containers, too."""


def root_archive(target: Path) -> None:
    """Programs of this machine and the libraries that they load."""
    files = {}
    for name in PROGRAMS:
        files[f"bin/{name}"] = program = shutil.which(name)
        linked = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
        files |= {word.lstrip("/"): word for word in linked.split() if word.startswith("/")}
    with tarfile.open(target, "w") as archive:
        for name, mode in {"./": 0o755, "tmp": 0o777}.items():
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, mode
            archive.addfile(folder)
        for name, path in files.items():
            archive.add(Path(str(path)).resolve(), name)


@pytest.fixture
def podman(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The command, with images and containers of its own, on a machine that lets it run one."""
    if (found := shutil.which("podman")) is None:
        pytest.skip("here is no podman")
    settings = tmp_path / "containers.conf"
    settings.write_text(SETTINGS + ('[engine]\nruntime = "runc"\n' if shutil.which("runc") else ""))
    monkeypatch.setenv("CONTAINERS_CONF", str(settings))
    command = tmp_path / "podman"
    with TemporaryDirectory(prefix="podman-") as place:  # podman takes no long path
        command.write_text(f'#!/bin/sh\nexec {found} --root {place}/store --runroot {place}/run "$@"\n')
        command.chmod(0o755)
        yield str(command)
        subprocess.run([command, "system", "reset", "--force"], capture_output=True, timeout=60, check=True)


@pytest.fixture
def task(podman: str, tmp_path: Path) -> Task:
    """Numbers to be added up, in the working folder of an image that has another user."""
    folder = Path(shutil.copytree(TASKS / "sum", tmp_path / "tasks" / "Sum__1")) / "environment"
    root_archive(folder / "root.tar")
    (folder / "Dockerfile").write_text(DOCKERFILE)
    subprocess.run([podman, "build", "--quiet", "--tag", "tried", folder], capture_output=True, timeout=120, check=True)
    tried = [podman, "run", "--rm", "--network=none", "--memory=64m", "--pids-limit=64", "tried", "sh", "-c", "true"]
    if said := subprocess.run(tried, capture_output=True, text=True, timeout=60, check=False).stderr:
        pytest.skip(f"podman runs no container here: {said}")
    (task,) = HarborTasks(HarborTasks.Config(path=str(folder.parent), container=podman)).load()
    return task


def play(task: Task, podman: str, *commands: str) -> tuple[list[str], float | None]:
    """What each command printed, and the reward."""
    with closing(Harbor(Harbor.Config(container=podman), EnvServices(tool_format=Hermes()))) as env:
        env.reset(task)
        said = []
        for one in commands:
            env.config = Harbor.Config(container=podman, seconds=3 if one == HANG else 60)
            step = env.step(Action(Hermes().render_call(ToolCall("shell", {"command": one}))))
            said.append(str(step.observation.messages[0]["content"]))
        return said, env.step(Action("Done.")).reward


def test_a_task_is_played_and_graded_in_containers_of_its_image(task: Task, podman: str) -> None:
    add = "awk '{s += $1} END {print s}' numbers.txt > sum.txt; cat sum.txt"
    (begun, said), reward = play(task, podman, "pwd; ls; ls -d /tests /logs 2>&1; ls /sys/class/net", add)
    folder, files, tests, logs, *networks = begun.splitlines()
    assert (folder, files, networks[0]) == ("/work", "numbers.txt", "lo")
    assert "cannot access '/tests'" in tests
    assert "cannot access '/logs'" in logs
    assert (said, reward) == ("442", 1.0)
    assert not subprocess.run([podman, "ps", "--all", "--quiet"], capture_output=True, check=True).stdout


def test_what_a_command_leaves_behind_is_ended_and_costs_the_next_one_nothing(task: Task, podman: str) -> None:
    many = "i=0; while [ $i -lt 30 ]; do sleep 99 & i=$((i + 1)); done"
    said, reward = play(task, podman, *[many] * 4, HANG, "kill -9 -1; kill -9 1", "ls; echo 1 > sum.txt")
    assert said[:4] == ["(no output)"] * 4
    assert said[4].endswith("[killed: it took too long]")
    assert said[6] == "numbers.txt"
    assert reward == 0.0
