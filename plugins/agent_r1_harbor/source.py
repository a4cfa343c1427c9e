"""The task source `harbor`: a folder of tasks, each a folder in the format of Harbor."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from agent_r1_core import ComponentConfig, DataPath, Message, Task, TaskError, TaskSource
from agent_r1_core.opening import read_text
from agent_r1_harbor.folder import HarborTask, read_task


class HarborConfig(ComponentConfig):
    """Options of the task source `harbor`."""

    path: DataPath
    """A folder of tasks, or of one."""
    demonstrate: bool = False
    """Each task is demonstrated by its `solution/solve.sh`, as one command; those without one are refused."""
    container: str | None = None
    """The command that runs tasks with an image, as the environment's `container`; null: docker or podman, if there is
    one."""


class HarborTasks(TaskSource):
    """Instructions as prompts; the environment `harbor` does the rest."""

    Config = HarborConfig

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
                raise TaskError(f"the task {task.folder} needs an image, and here is no docker or podman; leave it out")
        return [_task(task, config.demonstrate) for task in tasks]


def find_container(command: str | None) -> str | None:
    """The command that runs images; None where there is none."""
    return next(
        (found for one in ([command] if command else ["docker", "podman"]) if (found := shutil.which(one))), None
    )


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
