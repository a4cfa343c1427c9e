"""The task source `gsm8k`: grade-school word problems whose answer is a number (Cobbe et al. 2021, arXiv 2110.14168).

Reads the original JSON Lines files and the hub's copy. Answers are numbers: score them with `numeric_match`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_r1_core import RecordsConfig, Task, TaskError, TaskSource, text_field


class GSM8K(TaskSource):
    """Word problems; the answer is what follows `####` in the solution, without thousands separators."""

    class Config(RecordsConfig):
        hub: str = "openai/gsm8k"
        """The data set on the Hugging Face hub, read if `path` is null."""
        subset: str | None = "main"
        """Its configuration on the hub; null: the only one."""

    @classmethod
    def idle_options(cls, config: Config) -> dict[str, str]:
        """Those of the hub beside a local path, and those of a sample where none is drawn."""
        return config.idle()

    @classmethod
    def unavailable(cls, config: Config) -> str | None:
        """A sentence if the hub or a folder is to be read, and the package for it is missing."""
        return config.unavailable()

    def load(self) -> Sequence[Task]:
        """The tasks in the file's order; metadata: solution (the whole worked answer).

        Raises:
            TaskError: the data set is missing or malformed.
        """
        config = self.config
        return [_task(record.content, f"{config.stem}.{record.index}", record.where) for record in config.read()]


def _task(record: Any, key: str, where: str) -> Task:
    solution = text_field(record, "answer", where)
    _, mark, final = solution.rpartition("####")
    answer = final.strip().replace(",", "")
    if not mark or not answer:
        raise TaskError(f"the answer of {where} has no '#### NUMBER' at its end; give a file in the original format")
    return Task(
        id=key, prompt=text_field(record, "question", where), answers=(answer,), metadata={"solution": solution}
    )
