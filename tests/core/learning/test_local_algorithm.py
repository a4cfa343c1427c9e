"""An algorithm in one file, written by an author who wants an entropy bonus of his own: nothing else changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.learning.learner import Learner
from agent_r1_core.learning.policy import Policy
from agent_r1_core.plugins import Registry
from agent_r1_core.testing import make_task, make_trajectory, tiny_model
from agent_r1_core.trajectory import Group

PLAIN = '''
"""REINFORCE with the group's mean as baseline."""
from agent_r1_core import Algorithm, AlgorithmConfig, AlgorithmSpec, hookimpl
from agent_r1_core.learning.batch import Advantages
from agent_r1_core.learning.credit import spread_over
from agent_r1_core.learning.groups import group_mean_advantage
from agent_r1_core.learning.loss import LossTerms

AGENT_R1_PLUGIN_API = 1


class Mine(Algorithm):
    """REINFORCE."""

    def advantages(self, batch):
        return Advantages(spread_over(group_mean_advantage(batch.returns, batch.group), batch.action_mask))

    def loss(self, tokens):
        return LossTerms((tokens.weights * -tokens.advantages * tokens.logprobs).sum())


@hookimpl
def register_algorithms():
    return [AlgorithmSpec("mine", ":Mine", "REINFORCE")]
'''
LATER_TURNS = PLAIN.replace(
    "-tokens.advantages * tokens.logprobs)",
    "(-tokens.advantages * tokens.logprobs - 0.5 * (tokens.turn > 0) * tokens.entropy))",
).replace(
    "    def loss(",
    "    def needs_entropy(self):\n        return True\n\n    def loss(",
)
"""A bonus on every turn but the first: a term in the loss, and the word that its gradient is needed."""


def uncertainty_gained(file: Path, options: dict[str, float]) -> float:
    """By how many nats a token the entropy rises over a few updates without any advantage."""
    algorithm = Registry.discover([file]).create("algorithm", {"name": "mine", **options})
    learner = Learner(Policy(tiny_model(initializer_range=0.1)), algorithm, TrainingConfig(lr=1e-2))
    turns = (((1, 2), (3, 4)), ((5,), (6, 7)))
    flat = [Group(make_task(), [make_trajectory(turns, sample=i) for i in range(3)])]
    metrics = [learner.update(flat, step).metrics for step in range(1, 9)]
    return metrics[-1].get("update/entropy", 0.0) - metrics[0].get("update/entropy", 0.0)


@pytest.mark.parametrize(
    ("code", "options", "gains"), [(PLAIN, {}, False), (PLAIN, {"entropy_coef": 0.5}, True), (LATER_TURNS, {}, True)]
)
def test_an_entropy_bonus_is_an_option_or_a_line(
    code: str, options: dict[str, float], gains: bool, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(code)
    assert (uncertainty_gained(tmp_path / "mine.py", options) > 0.05) == gains
