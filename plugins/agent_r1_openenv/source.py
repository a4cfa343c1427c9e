"""The task source `openenv`: the tasks that a server lists, each of which becomes the arguments of a reset."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import Field

from agent_r1_core import ComponentConfig, EpisodeError, Task, TaskError, TaskSource
from agent_r1_openenv.env import Address
from agent_r1_openenv.server import ask


class OpenEnvTasks(TaskSource):
    """Tasks of a split, by `POST /{env}/tasks`. An environment without tasks takes the source `seeds`."""

    class Config(ComponentConfig):
        movable = frozenset({"url"})

        url: Address
        """The server, e.g. `http://127.0.0.1:8000`."""
        split: str = "train"
        """A split that the server has."""
        size: int | None = Field(None, ge=1)
        """The first tasks of the split; null: all that are listed."""

    def load(self) -> Sequence[Task]:
        """Tasks without answers; metadata: openenv (the arguments of the reset).

        Raises:
            TaskError: the server is away, has no tasks, or fewer than `size`.
        """
        config = self.config
        try:
            name = ask(config.url, "/list_environments")[0]
            listed = ask(config.url, f"/{name}/tasks", {"split": config.split})["tasks"]
        except EpisodeError as error:
            raise TaskError(f"openenv finds no tasks: {error}") from error
        if not listed or len(listed) < (config.size or 0):
            raise TaskError(f"openenv lists {len(listed)} tasks of split={config.split} at {config.url}; lower size")
        return [
            Task(
                id=f"{name}.{config.split}.{number}",
                prompt=json.dumps(task),
                seed=number,
                metadata={"openenv": task if isinstance(task, dict) else {"task": task}},
            )
            for number, task in enumerate(listed[: config.size])
        ]
