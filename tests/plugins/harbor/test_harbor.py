"""Tasks in the format of Harbor: the three beside the recipe, and what is refused."""

from __future__ import annotations

import re
import shutil
import subprocess
import tarfile
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from agent_r1_harbor import source
from agent_r1_harbor.env import Harbor
from agent_r1_harbor.folder import read_files, read_task
from agent_r1_harbor.places import Container, _run
from agent_r1_harbor.source import HarborTasks
from agent_r1_tool_formats.hermes import Hermes

from agent_r1_core import Action, EnvServices, EpisodeError, Step, Task, TaskError, ToolCall, train
from agent_r1_core.sandbox import BoxEnded
from agent_r1_core.testing import TaskSourceContract, ToolEnvContract

TASKS = Path(__file__).resolve().parents[3] / "recipes" / "harbor" / "tasks"
STAND_IN = Path(__file__).with_name("stand_in_docker.py")
Play = Callable[..., Step]


def task(name: str, root: Path = TASKS) -> Task:
    return next(one for one in HarborTasks(HarborTasks.Config(path=str(root))).load() if one.id == name)


def shell(command: str) -> str:
    return Hermes().render_call(ToolCall("shell", {"command": command}))


class TestHarborTasks(TaskSourceContract):
    component = HarborTasks
    config: ClassVar = {"path": str(TASKS), "demonstrate": True}


class TestHarbor(ToolEnvContract):
    component = Harbor
    task = task("hello")
    tool_format = Hermes()
    actions = (shell("echo hello > hello.txt"), "Done.")


@pytest.fixture
def play() -> Iterator[Play]:
    """Plays commands, then ends, unless the turns are over; returns the last step."""
    envs: list[Harbor] = []

    def play(given: Task, *commands: str, **config: Any) -> Step:
        envs.append(env := Harbor(Harbor.Config(**config), EnvServices(tool_format=Hermes())))
        env.reset(given)
        steps = [env.step(Action(shell(command))) for command in commands]
        play.read = [step.observation.messages[0]["content"] for step in steps]  # type: ignore[attr-defined]
        return steps[-1] if steps and steps[-1].success is not None else env.step(Action("Done."))

    yield play
    for env in envs:
        env.close()


@pytest.mark.parametrize(
    ("name", "commands", "reward"),
    [
        ("hello", ["echo hello > hello.txt"], 1.0),
        ("hello", ["echo goodbye > hello.txt"], 0.0),
        ("sum", ["awk '{s += $1} END {print s}' numbers.txt", "echo 442 > sum.txt"], 1.0),
        ("double", [], 0.5),
        ("double", ["sed -i 's|// 2 [*] 4|* 2|' double.py"], 1.0),
        ("double", ["rm double.py"], 0.0),
        ("hello", ["kill -9 -1; kill -9 2", "ls"], 0.0),
    ],
)
def test_a_task_is_graded_by_its_own_tests(name: str, commands: list[str], reward: float, play: Play) -> None:
    step = play(task(name), *commands)
    assert (step.reward, step.success, step.terminated) == (reward, reward == 1, True)


def test_nothing_but_plain_files_reaches_the_tests_and_nothing_of_them_the_agent(play: Play) -> None:
    step = play(
        task("sum"),
        "ls /tests /logs; mkdir -p /logs/verifier /tests; echo 1 > /logs/verifier/reward.txt",
        "printf 'exit 0' > /tests/test.sh; (while true; do echo 1 > /logs/verifier/reward.txt; done) & ls /tests",
        "ln -s /tests/expected.txt sum.txt; ls -R / 2>/dev/null | grep -c expected.txt",
    )
    assert step.reward == 0.0
    first, _, last = play.read  # type: ignore[attr-defined]
    assert first == "/logs:\n\n/tests:"
    assert last.startswith("0")


def test_what_the_agent_left_is_graded_when_its_turns_are_over(play: Play) -> None:
    step = play(task("hello"), "true", "echo hello > hello.txt", max_turns=2)
    assert (step.reward, step.success, step.terminated) == (1.0, True, False)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the task `double`, to be changed."""
    return Path(shutil.copytree(TASKS / "double", tmp_path / "tasks" / "double"))


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo no tests; exit 1", "wrote no reward to /logs/verifier; they printed 'no tests\\n'"),
        ("echo many > /logs/verifier/reward.txt", "wrote b'many\\n' to /logs/verifier/reward.txt, which is no reward"),
        ("echo nan > /logs/verifier/reward.txt", "is no reward; write a finite number, or"),
        ('echo \'{"a": 1, "b": 2}\' > /logs/verifier/reward.json', "reward.json, which is no reward; write"),
        ("sleep 60", "took longer than 0.5 seconds"),
    ],
)
def test_tests_that_give_no_reward_fail_the_episode(copied: Path, script: str, said: str, play: Play) -> None:
    """LAW 5: it is no reward of 0."""
    (copied / "tests" / "test.sh").write_text(script)
    settings = copied / "task.toml"
    if "took longer" in said:
        settings.write_text(settings.read_text().replace("timeout_sec = 30.0", "timeout_sec = 0.5"))
    with pytest.raises(EpisodeError) as failed:
        play(task("double", copied.parent))
    assert said in str(failed.value)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"1.4"', '"1.5"', "asks for schema_version '1.5'; 1.4 is the newest that is read"),
        ("[agent]", "[[steps]]\nname = 'one'\n[agent]", "asks for several steps"),
        ("[environment]", "[environment]\ngpus = 1", "asks for GPUs"),
        ("[environment]", "[environment]\nenv = {KEY = '${KEY}'}", "asks for variables of the host"),
        ("[environment]", "[environment]\ndocker_image = 'debian'", "needs an image, and no docker or podman answers"),
        ("[environment]", "[environment]\ndocker_image = '--privileged'", "is '--privileged'; give the name"),
        ("timeout_sec = 60.0", "timeout_sec = -1", "agent.timeout_sec of the task"),
        ("timeout_sec = 60.0", "timeout_sec = inf", "agent.timeout_sec of the task"),
        ("[environment]", "[[environment]]", "environment of the task"),
        ("[agent]", "[agent", "cannot be read"),
    ],
)
def test_what_is_not_offered_is_refused_by_name(copied, old, new, said, monkeypatch) -> None:
    monkeypatch.setattr(source.shutil, "which", lambda name: None)
    settings = copied / "task.toml"
    settings.write_text(settings.read_text().replace(old, new, 1))
    with pytest.raises(TaskError) as refused:
        HarborTasks(HarborTasks.Config(path=str(copied.parent))).load()
    assert said in str(refused.value)
    assert str(copied) in str(refused.value)


@pytest.mark.parametrize("link", ["tests/link /etc/hostname", "tests/more/link /etc", "tests /etc"])
def test_a_task_brings_nothing_of_the_host(copied: Path, link: str) -> None:
    link, to = link.split()
    shutil.rmtree(copied / "tests")
    (copied / link).parent.mkdir(parents=True, exist_ok=True)
    (copied / link).symlink_to(to)
    with pytest.raises(TaskError, match=f"{copied / link} is a link"):
        read_files(copied / "tests")


def container(copied: Path, does: str) -> Container:
    """By a command that notes its arguments in the task's folder and does what a test says."""
    settings, command = copied / "task.toml", copied / "docker"
    settings.write_text(settings.read_text().replace("[environment]", "[environment]\ndocker_image = 'debian'"))
    command.write_text(f'#!/bin/sh\necho "$*" >> {copied}/asked\ncase "$*" in {does} esac\n')
    command.chmod(0o755)
    return Container(str(command), read_task(copied), 64, 4)


@pytest.mark.parametrize("does", ["run*) exit 1 ;;", "exec*) exit 1 ;;"])
def test_a_container_has_bounds_and_is_removed_by_its_name(copied: Path, does: str) -> None:
    with pytest.raises(BoxEnded):
        container(copied, does)
    run, *_, removed = (copied / "asked").read_text().splitlines()
    (name,) = re.findall("--name=(agent-r1-[0-9a-f]{32}) ", run)
    assert removed == f"rm --force {name}"
    assert "--memory=64m --memory-swap=64m" in run
    assert re.search(r'"\$SECONDS" -lt .* bash 14490$', run), "four hours beyond the task's own seconds"


def test_a_place_that_opens_after_the_end_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    env = Harbor(Harbor.Config(), EnvServices(tool_format=Hermes()))
    closed: list[str] = []

    def late() -> Any:
        env.close()  # as a rollout does while a reset that took too long goes on
        return SimpleNamespace(close=lambda: closed.append("closed"))

    monkeypatch.setattr(env, "_open", late)
    with pytest.raises(EpisodeError, match="the episode is over"):
        env.reset(task("hello"))
    assert closed == ["closed"]


def sparse(folder: Path, how: str) -> bytes:
    """8 MiB of zeros in an archive of a few bytes."""
    with (folder / "zeros").open("wb") as file:
        file.truncate(8 << 20)
    return subprocess.run(["tar", how, "-", "-C", folder, "zeros"], capture_output=True, check=True).stdout


def backwards(folder: Path) -> bytes:
    """A member after which comes one before it."""
    member = tarfile.TarInfo("file")
    member.size = -1024
    return tarfile.TarInfo("first").tobuf() + member.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize("archive", [lambda at: sparse(at, "-cSf"), lambda at: sparse(at, "-czf"), backwards])
def test_no_archive_becomes_more_than_it_is(copied: Path, archive: Callable[[Path], bytes]) -> None:
    (copied / "archive").write_bytes(archive(copied))
    with pytest.raises(BoxEnded):
        container(copied, f"*tar*) cat {copied}/archive ;;").take("/app")


def test_what_a_container_is_given_is_copied_piece_by_piece() -> None:
    given = bytes(2 << 20)
    tracemalloc.start()
    try:
        assert _run(["wc", "-c"], given, 20, 100) == (b"2097152\n", 0, 0)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_a_task_with_an_image_runs_in_containers(copied, tmp_path, monkeypatch, play) -> None:
    """By a command that stands in for docker: one container for the agent, another for the tests, none left."""
    monkeypatch.setenv("STAND_IN", str(tmp_path))
    (copied / "environment" / "Dockerfile").write_text("FROM scratch\nCOPY files /app\n")
    (copied / "environment" / "files").mkdir()
    (copied / "environment" / "double.py").rename(copied / "environment" / "files" / "double.py")
    config = HarborTasks.Config(path=str(copied.parent), container=str(STAND_IN))
    (given,) = HarborTasks(config).load()
    fixed = "sed -i 's|// 2 [*] 4|* 2|' double.py; ls /tests; echo 1 > /logs/reward.txt"
    assert play(given, fixed, container=str(STAND_IN)).reward == 1.0
    assert play.read == ["(no output)"]
    remove = ["rm -f double.py"] * 4  # on a busy machine one may take longer than its time
    assert play(given, "yes; sleep 60", *remove, container=str(STAND_IN), seconds=1).reward == 0.0
    assert "[killed: it took too long]" in play.read[0]
    assert not list(tmp_path.glob("agent-r1-*"))


@pytest.mark.slow
def test_the_recipes_show_the_solutions_and_then_train_on_own_episodes(tmp_path) -> None:
    place = [f"run.dir={tmp_path}", "evaluation={every: 0, at_start: false, at_end: false}", "checkpoint.every=100"]
    shown = train("harbor/shown", [*place, "run.name=shown", "training.steps=1"])
    assert [step["reward/mean"] for step in shown.metrics()] == [1], "every solution earns its reward"
    own = ["training.steps=1", "training.samples_per_task=2"]
    (step,) = train("harbor", [*place, "run.name=own", f"model.name={shown.path}", *own]).metrics()
    assert step["rollout/failed"] == 0
