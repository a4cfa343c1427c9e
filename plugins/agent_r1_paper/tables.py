"""The tables of the paper (Agent-R1, arXiv 2511.14460): their rows, the recipes that repeat them, and its numbers.

Exact match of Qwen2.5-3B-Instruct. The first two columns are what it was trained on, the last one is out of domain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

COLUMNS = ("HotpotQA", "2Wiki", "MuSiQue")
"""Evaluation sets of the paper; the sets that a recipe reports stand for them in this order."""
OUT_OF_DOMAIN = COLUMNS[-1]
AVERAGE = "average"


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    name: str
    """Names its cells, too: two tables that share a row share its runs."""
    title: str
    paper: Mapping[str, float]
    """Exact match as the paper reports it, by column."""
    method: str
    """Whose recipe it plays; rows that train nothing take the model, the tools and the sets from it."""
    overrides: tuple[str, ...] = ()
    baseline: str | None = None
    """The policy of `agent-r1 eval` that plays in place of a trained one."""

    @property
    def trained(self) -> bool:
        """Whether it is a method, not a baseline."""
        return self.baseline is None


@dataclass(frozen=True)
class Table:
    """A table of the paper."""

    name: str
    title: str
    rows: tuple[Row, ...]
    pairs: tuple[tuple[str, str], ...] = ()
    """Rows of which the paper found the first one better than the second."""
    columns: tuple[str, ...] = COLUMNS
    metric: str = "exact_match"
    """Of an episode 0 or 1."""
    recipe: str = ""
    """The name of a row's recipe, with `{method}`, where it is not the scale's; the scale is then `tiny`."""
    source: str = (
        "The paper's numbers (arXiv 2511.14460) are those of Qwen2.5-3B-Instruct on its own sets, corpus and questions."
    )
    """Whose numbers stand beside ours."""
    trainings_score: bool = False
    """A row's score is its training's own last evaluation; else a command of its own scores the policy."""

    @property
    def shown(self) -> tuple[str, ...]:
        """The columns, and the average of several."""
        return (*self.columns, AVERAGE) if len(self.columns) > 1 else self.columns


@dataclass(frozen=True)
class Check:
    """What a model must be able to do; where it is not, the row says nothing about the baseline and is void."""

    overrides: tuple[str, ...]
    """Of the questions that decide it."""
    least: float
    """Exact match on them."""
    questions: str
    """The questions in words."""


@dataclass(frozen=True)
class Costs:
    """What an estimate assumes."""

    about: str
    """The machine, and where the numbers come from."""
    parameters: float
    tokens: float
    """Of an episode: prompt, actions, passages."""
    sampled: float
    """Tokens of an episode that the policy samples."""
    questions: int
    """In a reported set whose recipe gives no size."""
    flops: float
    """Per second, in the learner."""
    sampling: float
    """Sampled tokens per second."""
    start: float
    """Seconds before a command works."""


@dataclass(frozen=True)
class Scale:
    """A size at which the tables can be repeated."""

    name: str
    recipe: str
    """The name of a method's recipe, with `{method}`."""
    about: str
    costs: Costs
    checks: Mapping[str, Check] = field(default_factory=dict)
    """By row."""
    changes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By table: what it changes of the recipes at this scale. Tables without changes share a folder."""

    def overrides(self, table: str, given: Sequence[str]) -> tuple[str, ...]:
        """The overrides of a table: its changes, but for those whose keys are given, and then what is given."""
        keys = {text.partition("=")[0].strip() for text in given}
        return (*(text for text in self.changes.get(table, ()) if text.partition("=")[0] not in keys), *given)

    def folder(self, table: str) -> str:
        """The name of the folder for a table."""
        return f"reproduce-{self.name}" + (f"-{table}" if table in self.changes else "")


def _method(name: str, title: str, *numbers: float) -> Row:
    return Row(name, title, dict(zip((*COLUMNS, AVERAGE), numbers, strict=True)), name)


def _baseline(name: str, title: str, *numbers: float) -> Row:
    return replace(_method(name, title, *numbers), method="grpo", baseline=name)


def _without(masks: Sequence[str], of: Row, name: str, what: str, average: float) -> Row:
    overrides = tuple(f"algorithm.{mask}=false" for mask in masks)
    title = f"{of.title}, {what} off"
    return replace(of, name=f"{of.name}-{name}", title=title, paper={AVERAGE: average}, overrides=overrides)


_PPO = _method("ppo", "PPO", 0.4136, 0.5468, 0.1552, 0.3719)
_GRPO = _method("grpo", "GRPO", 0.4405, 0.5741, 0.1485, 0.3877)

TABLES = {
    table.name: table
    for table in (
        Table(
            "table3",
            "Methods: exact match of baselines and of agents trained by reinforcement learning",
            (
                _baseline("base_tool_call", "Base Tool Call", 0.1372, 0.0891, 0.0277, 0.0847),
                _baseline("naive_rag", "Naive RAG", 0.1916, 0.1792, 0.0277, 0.1328),
                _method("reinforce_pp", "REINFORCE++", 0.3768, 0.4796, 0.1336, 0.3300),
                _method("reinforce_pp_baseline", "REINFORCE++-baseline", 0.3966, 0.5406, 0.1485, 0.3619),
                _method("rloo", "RLOO", 0.4089, 0.5641, 0.1419, 0.3716),
                _PPO,
                _GRPO,
            ),
        ),
        Table(
            "table4",
            "Masks: exact match with the action masks switched off",
            (
                _PPO,
                _without(["advantage_mask"], _PPO, "no_advantage_mask", "advantage mask", 0.3136),
                _without(["advantage_mask", "loss_mask"], _PPO, "no_masks", "advantage and loss mask", 0.3022),
                _GRPO,
                _without(["loss_mask"], _GRPO, "no_loss_mask", "loss mask", 0.3722),
            ),
            (
                ("ppo", "ppo-no_advantage_mask"),
                ("ppo-no_advantage_mask", "ppo-no_masks"),
                ("grpo", "grpo-no_loss_mask"),
            ),
        ),
    )
}

SCALES = {
    scale.name: scale
    for scale in (
        Scale(
            "tiny",
            "paper/miniwiki-{method}",
            "the bundled model on invented worlds, on two CPU cores",
            Costs(
                "two idle CPU cores, with rates rounded from runs of these recipes",
                parameters=1.7e6,
                tokens=165,
                sampled=45,
                questions=200,
                flops=3.0e11,
                sampling=4500,
                start=6,
            ),
            {
                "naive_rag": Check(
                    ("tasks.eval={name: miniwiki, split: eval, hops: [1], size: 100}", "evaluation.choose_on=null"),
                    0.8,
                    "questions that one passage answers",
                )
            },
            # With any masks a few steps teach it to answer greedily; how surely it does tells them apart.
            {"table4": ("training.steps=6", "evaluation.greedy=false"), "shaping": ()},
        ),
        Scale(
            "paper",
            "paper/hotpotqa-2wiki-{method}",
            "Qwen2.5-3B-Instruct, with a search over Wikipedia",
            Costs(
                "one H200: computed, not measured, from 35 % of its 989 TFLOP/s (bfloat16) in the learner, "
                "6,000 sampled tokens per second, and episodes of 2,000 tokens of which 400 are sampled",
                parameters=3.09e9,
                tokens=2000,
                sampled=400,
                questions=7500,
                flops=0.35 * 989e12,
                sampling=6000,
                start=120,
            ),
        ),
    )
}
