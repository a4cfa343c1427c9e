"""The task source `verifiers`: the tasks of a v1 task set, as `Taskset.load` yields them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from agent_r1_core import Message, Task, TaskError, TaskSource
from agent_r1_core.helper import HelperError, HelperGone
from agent_r1_verifiers.asking import PythonConfig, helper, programs, unavailable


class VerifiersTasks(TaskSource):
    """Tasks that are scored by what is said: those with an environment, a container or a runtime are refused."""

    class Config(PythonConfig):
        taskset: str = Field(min_length=1)
        """The id of the task set, as verifiers imports it."""
        options: dict[str, Any] = Field(default_factory=dict)
        """Its configuration, e.g. `{seed: 5}`."""
        first: int = Field(0, ge=0)
        """The first task. Evaluate on others than those of training."""
        size: int | None = Field(None, ge=1)
        """Number of tasks; null: all, of a set that ends."""

    @classmethod
    def programs(cls, config: Any) -> dict[str, str]:
        return programs(config)

    @classmethod
    def unavailable(cls, config: Any) -> str | None:
        return unavailable(config)

    def load(self) -> Sequence[Task]:
        """The tasks; metadata: verifiers (the task set, its options, and which of its tasks).

        Raises:
            TaskError: Python or task set is missing, of the old API, in need of a runtime, or has too few tasks.
        """
        config = self.config
        if reason := unavailable(config):
            raise TaskError(f"verifiers cannot be used here: {reason}")
        named = {"taskset": config.taskset, "options": config.options}
        wanted = {"first": config.first, "size": config.size}
        try:
            listed = helper(config.python, config.path).ask("tasks", config.seconds, **named, **wanted)
        except (HelperError, HelperGone) as error:
            raise TaskError(f"verifiers cannot load {config.taskset}: {error}") from error
        if not listed or len(listed) < (config.size or 0):
            raise TaskError(
                f"verifiers has {len(listed)} tasks of {config.taskset} from first={config.first} but "
                f"size={config.size} was asked for; lower size"
            )
        return [_task(config.taskset, named, one) for one in listed]


def _task(taskset: str, named: dict[str, Any], told: dict[str, Any]) -> Task:
    system: list[Message] = [{"role": "system", "content": told["system"]}] if told["system"] else []
    messages: list[Message] = [*system, *told["messages"]]
    metadata = {"verifiers": {**named, "index": told["index"], "key": told["key"]}}
    return Task(f"{taskset}.{told['index']}", messages, metadata=metadata)
