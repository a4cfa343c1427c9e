"""RecordTasks: the base of task sources that make each task from one record of a file or hub data set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from agent_r1_core.contracts.tasks import TaskSource
from agent_r1_core.errors import TaskError
from agent_r1_core.records.config import Record, RecordsConfig
from agent_r1_core.trajectory import Task


class RecordTasks(TaskSource, ABC):
    """A subclass says what task a record is; its `Config` extends `RecordsConfig`."""

    Config = RecordsConfig

    @classmethod
    def idle_options(cls, config: Any) -> dict[str, str]:
        """Those of the hub beside a local path, and those of a sample where none is drawn."""
        idle: dict[str, str] = config.idle()
        return idle

    @classmethod
    def unavailable(cls, config: Any) -> str | None:
        """A sentence if the hub or a folder is to be read, and the package for it is missing."""
        reason: str | None = config.unavailable()
        return reason

    def usable(self, record: Record) -> bool:
        """Whether a record counts at all; called before offset and size apply.

        Raises:
            TaskError: the record says that the whole data set is the wrong one.
        """
        return True

    @abstractmethod
    def task(self, record: Record) -> Task:
        """The task of a record.

        Raises:
            TaskError: the record is malformed.
        """

    def load(self) -> Sequence[Task]:
        """The tasks of the chosen records, in the file's order.

        Raises:
            TaskError: the data set is missing or malformed, or an id occurs twice.
        """
        tasks: dict[str, Task] = {}
        for record in self.records:
            task = self.task(record)
            if task.id in tasks:
                raise TaskError(f"{record.where} has the id {task.id!r} of an earlier one; remove it")
            tasks[task.id] = task
        return list(tasks.values())

    def check_data(self) -> None:
        """Load a file or folder of at most 8 MiB; read the first record of a larger file.

        Raises:
            TaskError: as `load`.
        """
        if self.config.is_small:
            self.load()
            self.corpus()
        elif (record := self.config.first(self.usable)) is not None:
            self.task(record)

    @cached_property
    def records(self) -> list[Record]:
        """The chosen records.

        Raises:
            TaskError: the data set is missing, unreadable, or does not hold that many records.
        """
        return self.config.read(self.usable)
