"""The task source `gsm8k`: grade-school word problems whose answer is a number (Cobbe et al. 2021, arXiv 2110.14168).

Reads the original JSON Lines files and the hub's copy. Answers are numbers: score them with `numeric_match`.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent_r1_core import Record, RecordsConfig, Task, TaskError, TaskSource, text_field


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
        return [self._task(record) for record in self.config.read()]

    def check_data(self) -> None:
        """Read the first record of a file.

        Raises:
            TaskError: as `load`.
        """
        record = self.config.first()
        if record is not None:
            self._task(record)

    def _task(self, record: Record) -> Task:
        where = record.where
        solution = text_field(record.content, "answer", where)
        _, mark, final = solution.rpartition("####")
        answer = final.strip().replace(",", "")
        if not mark or not answer:
            raise TaskError(
                f"the answer of {where} has no '#### NUMBER' at its end; give a file in the original format"
            )
        return Task(
            id=f"{self.config.stem}.{record.index}",
            prompt=text_field(record.content, "question", where),
            answers=(answer,),
            metadata={"solution": solution},
        )
