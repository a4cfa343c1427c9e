"""The task source `reasoning_gym`: any data set of the package reasoning-gym, and mixtures of them.

Questions are generated in a process of their own with a fixed hash seed: the same options give the same tasks in every
process, and nothing here draws from their random generators. That takes from 0.1 ms to half a second for a question.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Literal

from pydantic import Field

from agent_r1_core import ComponentConfig, Task, TaskError, TaskSource
from agent_r1_core.helper import HelperError, HelperGone
from agent_r1_reasoning_gym.asking import helper

READ_AS_DATA = (
    "binary_matrix",
    "intermediate_integration",
    "n_queens",
    "polynomial_multiplication",
    "simple_integration",
    "spiral_matrix",
    "string_insertion",
)
"""The package's scorers run the answers to these as Python code. (So they do for countdown and puzzle24, which have
scorers of our own.)"""


class ReasoningGym(TaskSource):
    """Questions of one data set, all different; the splits share none."""

    class Config(ComponentConfig):
        dataset: str = Field(min_length=1)
        """Its name, such as `leg_counting`; or `composite`, with `options: {datasets: [{name: leg_counting}, ...]}`,
        each with a `weight`, and options of its own under `config`."""
        options: dict[str, Any] = Field(default_factory=dict)
        """Options of the data set, as reasoning-gym names them, e.g. `{max_animals: 2}`."""
        size: int = Field(500, ge=1)
        """Number of questions."""
        split: Literal["train", "eval", "all"] = "train"
        """A fifth of all questions, by their text, is for evaluation, so that five must be made for one of it; `all`
        does not part them, for a set that is slow to make or small."""
        seed: int = 0
        """Seed of the questions; the package's own seeds would overlap, this one's do not."""
        evaluate_answers: bool = False
        """Allow the sets whose scorers run the answer as Python code: here it is read as data, a literal or a formula,
        in a process of its own that is killed when it takes too long."""
        demonstrate: bool = False
        """Show the package's own answer to `sft`, between `<answer>` tags, where there is one."""
        generation_timeout: float = Field(600.0, gt=0)
        """Seconds for making all questions."""

    @classmethod
    def idle_options(cls, config: Config) -> dict[str, str]:
        """`evaluate_answers`, where no answer would be run."""
        if set(names_of(config.dataset, config.options)) & set(READ_AS_DATA):
            return {}
        return {"evaluate_answers": f"the scorer of {config.dataset} runs no answer"}

    @classmethod
    def unavailable(cls, config: Config) -> str | None:
        """A sentence if reasoning-gym is missing."""
        if find_spec("reasoning_gym") is None:
            return "the package reasoning-gym is missing; run `pip install 'agent-r1[reasoning_gym]'`"
        return None

    def check_data(self) -> None:
        """Make one question."""
        ReasoningGym(self.config.model_copy(update={"size": 1, "split": "all", "generation_timeout": 60.0})).load()

    def load(self) -> Sequence[Task]:
        """The tasks; metadata: dataset (of a mixture, which of them), and what the reward makes the question from.

        Raises:
            TaskError: the package is missing, refuses the options, has not as many questions, or a set is off.
        """
        config = self.config
        if reason := self.unavailable(config):
            raise TaskError(f"reasoning_gym cannot be used here: {reason}")
        off = sorted(set(names_of(config.dataset, config.options)) & set(READ_AS_DATA))
        if off and not config.evaluate_answers:
            raise TaskError(
                f"reasoning_gym has {', '.join(off)} off, since the package's scorers run the answers to "
                f"{', '.join(READ_AS_DATA)} as Python code; with evaluate_answers=true they are read as data, in a "
                "process that is killed when it takes too long"
            )
        made = _made(config.model_dump_json(include={"dataset", "options", "size", "split", "seed"}), config)
        if len(made) < config.size:
            raise TaskError(
                f"reasoning_gym finds {len(made)} different questions of {config.dataset} for split={config.split} but "
                f"size={config.size} was asked for; lower size, or widen options"
            )
        return [self._task(one) for one in made]

    def _task(self, made: dict[str, Any]) -> Task:
        config, answer = self.config, made["answer"]
        shown = config.demonstrate and answer is not None
        return Task(
            id=f"{config.dataset}.{config.split}.{config.seed}.{made['again']['index']}",
            prompt=made["question"],
            answers=(answer,) if answer is not None else (),
            metadata={"dataset": made["dataset"], "reasoning_gym": made["again"]},
            demonstration=[{"role": "assistant", "content": f"<answer>{answer}</answer>"}] if shown else (),
        )


def names_of(dataset: str, options: dict[str, Any]) -> list[str]:
    """The sets of a mixture, or the one."""
    parts = options.get("datasets")
    if dataset != "composite" or not isinstance(parts, list):
        return [dataset]
    return [str(part.get("name")) for part in parts if isinstance(part, dict)]


_KEPT: dict[str, list[dict[str, Any]]] = {}


def _made(key: str, config: ReasoningGym.Config) -> list[dict[str, Any]]:
    """The questions, generated once in a process."""
    if key not in _KEPT:
        try:
            _KEPT[key] = helper().ask("make", config.generation_timeout, **json.loads(key))
        except (HelperError, HelperGone) as error:
            raise TaskError(f"reasoning_gym cannot make {config.dataset}: {error}") from error
    return _KEPT[key]
