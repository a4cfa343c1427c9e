"""The task source `harbor`: a folder of tasks, each a folder in the format of Harbor."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_r1_core import ComponentConfig, DataPath, Message, Task, TaskError, TaskSource
from agent_r1_core.opening import read_text
from agent_r1_harbor.folder import HarborTask, read_task

KNOWN = ("docker", "podman")


class HarborConfig(ComponentConfig):
    """Options of the task source `harbor`."""

    path: DataPath
    """A folder of tasks, or of one."""
    demonstrate: bool = False
    """Each task is demonstrated by its `solution/solve.sh`, as one command; those without one are refused."""
    container: str | None = None
    """The command that runs tasks with an image, as the environment's `container`; null: docker or podman, if one
    answers."""


class HarborTasks(TaskSource):
    """Instructions as prompts; the environment `harbor` does the rest."""

    Config = HarborConfig

    @classmethod
    def programs(cls, config: Any) -> dict[str, str]:
        return programs(config)

    def load(self) -> Sequence[Task]:
        """The tasks in the order of their folders' names; metadata: folder.

        Raises:
            TaskError: there is none, or one cannot be read or needs an image that nothing here can run.
        """
        config, root = self.config, Path(self.config.path)
        folders = [root] if (root / "task.toml").exists() else sorted(path.parent for path in root.glob("*/task.toml"))
        tasks = [read_task(folder) for folder in folders]
        if not tasks:
            raise TaskError(f"{root} holds no folder with a task.toml; give a folder of tasks")
        for task in tasks:
            if task.needs_image and find_container(config.container) is None:
                raise TaskError(
                    f"the task {task.folder} needs an image, and no docker or podman answers here; leave it out"
                )
        return [_task(task, config.demonstrate) for task in tasks]


def programs(config: Any) -> dict[str, str]:
    """The command that runs images, unless it is one of the user's own by name."""
    command = config.container
    return {} if not command or command in KNOWN else {"container": f"runs {command} for tasks that need an image"}


def find_container(command: str | None) -> str | None:
    """The command that runs images; None where there is none, or docker without its service."""
    if command:
        return shutil.which(command)
    return next((found for one in KNOWN if (found := shutil.which(one)) and _answers(found)), None)


@functools.cache
def _answers(command: str) -> bool:
    try:
        return not subprocess.run([command, "info"], capture_output=True, timeout=20, check=False).returncode
    except (OSError, subprocess.TimeoutExpired):
        return False


def _task(task: HarborTask, demonstrate: bool) -> Task:
    metadata = {"folder": str(task.folder)}
    shown = _demonstration(task.folder / "solution" / "solve.sh") if demonstrate else ()
    return Task(id=task.folder.name, prompt=task.instruction, metadata=metadata, demonstration=shown)


def _demonstration(solution: Path) -> list[Message]:
    try:
        arguments = json.dumps({"command": read_text(solution).removeprefix("#!/bin/bash\n").strip()})
    except OSError as error:
        raise TaskError(f"{solution} cannot be read, and the task is to be demonstrated: {error}") from error
    call = {"type": "function", "function": {"name": "shell", "arguments": arguments}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": ""},
        {"role": "assistant", "content": "Done."},
    ]
