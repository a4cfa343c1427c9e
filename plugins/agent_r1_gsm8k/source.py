"""The task source `gsm8k`: grade-school word problems whose answer is a number (Cobbe et al. 2021, arXiv 2110.14168).

Reads the original JSON Lines files and the hub's copy. Answers are numbers: score them with `numeric_match`.
"""

from __future__ import annotations

from agent_r1_core import Record, RecordsConfig, RecordTasks, Task, TaskError, text_field


class GSM8K(RecordTasks):
    """Word problems; the answer is what follows `####` in the solution, without thousands separators."""

    class Config(RecordsConfig):
        hub: str = "openai/gsm8k"
        """The data set on the Hugging Face hub, read if `path` is null."""
        subset: str | None = "main"
        """Its configuration on the hub; null: the only one."""

    def task(self, record: Record) -> Task:
        """Metadata: solution (the whole worked answer)."""
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
