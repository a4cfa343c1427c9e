"""An environment that rewrites the context, from a real rollout through an update to the run's files."""

from __future__ import annotations

import pytest

from agent_r1_cli.transcript import episode_json
from agent_r1_core import Run, train
from agent_r1_core.testing import tiny_model_folder
from agent_r1_core.trajectory import EndStatus

ENV = '''
"""Keeps a notebook: every turn the policy reads the notes and nothing else."""
from agent_r1_core import EnvSpec, Observation, RewardFn, RewardSpec, Step, ToolEnv, hookimpl

AGENT_R1_PLUGIN_API = 1


class Notebook(ToolEnv):
    """Three turns; of every second task a clock from outside ends the third."""

    def reset(self, task):
        self.notes, self.clock = [], len(task.id) % 2 == 0
        return Observation([{"role": "user", "content": f"Solve {task.prompt} " + "Think. " * 8}], state_key="0")

    def step(self, action):
        self.notes.append(len(action.text))
        over = len(self.notes) == 3
        text = f"Your notes: {self.notes}. Go on."
        seen = Observation([{"role": "user", "content": text}], new_context=True, state_key=str(len(self.notes)))
        reward = sum(letter in "aeiou" for letter in action.text) / 10
        end = {"terminated": over and not self.clock, "truncated": over and self.clock}
        return Step(seen, reward=reward, success=over, info={"notes": len(self.notes)}, **end)

    @classmethod
    def uses_tools(cls):
        return False


class Zero(RewardFn):
    """0."""

    def score(self, trajectory):
        return 0.0


@hookimpl
def register_envs():
    return [EnvSpec("notebook", ":Notebook", "notes")]


@hookimpl
def register_rewards():
    return [RewardSpec("zero", ":Zero", "zero")]
'''


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two steps of PPO, whose critic reads values in every segment."""
    folder = tmp_path_factory.mktemp("notebook")
    tiny_model_folder(folder / "model")
    (folder / "notebook.py").write_text(ENV)
    keys = {
        "model.name": folder / "model",
        "tasks.train": "{name: arithmetic, size: 8, max_value: 40}",
        "tasks.eval": "{name: arithmetic, split: eval, size: 1}",
        "env": "{name: notebook, max_tokens: 110}",
        "tools": "[]",
        "rewards": "[zero]",
        "algorithm": "ppo",
        "engine.max_new_tokens": 12,
        "training": "{steps: 2, tasks_per_step: 4, samples_per_task: 2, lr: 1e-2}",
        "evaluation.at_start": "false",
        "deterministic": "true",
        "run": f"{{dir: {folder}, name: run}}",
    }
    return train("default", [f"{key}={value}" for key, value in keys.items()], plugins=[folder / "notebook.py"])


def test_every_context_is_a_segment_with_a_budget_of_its_own(run: Run) -> None:
    for one in run.read_trajectories(2):
        clocked = one.status is EndStatus.TRUNCATED
        assert len(one.segments) == 3 + clocked, "a bootstrap is read in the context that would have come"
        assert [turn.segment for turn in one.turns] == [0, 1, 2]
        assert all(len(segment.ids) <= 110 for segment in one.segments)
        assert one.tokens > 110
        assert sum(one.segments[-1].mask) == (0 if clocked else one.turns[-1].tokens)


def test_the_learner_computes_what_the_engine_did_and_credits_all_segments(run: Run) -> None:
    for line in run.metrics():
        assert line["logprob_gap"] < 1e-4
        assert line["update/trajectories"] == 8
    for one, advantages in zip(run.read_trajectories(1), run.read_advantages(1), strict=True):
        assert advantages is not None
        mask = [kept for segment in one.segments for kept in segment.mask]
        assert [value != 0 for value in advantages] == [kept == 1 for kept in mask]


def test_files_and_readers_tell_that_the_context_was_rewritten(run: Run) -> None:
    one = run.read_trajectories(2)[0]
    assert [turn.new_context for turn in one.turns] == [False, True, True]
    assert [turn.state_key for turn in one.turns] == ["0", "1", "2"]
    assert [turn.versions for turn in one.turns] == [((1, turn.tokens),) for turn in one.turns]
    assert [message["role"] for message in one.messages()] == ["user", "assistant"] * 3 + ["user"]
    told = episode_json(one, lambda ids: "")
    assert [turn["new_context"] for turn in told["turns"]] == [False, True, True]


def test_what_the_environment_says_becomes_metrics(run: Run) -> None:
    first = run.metrics()[0]
    assert first["episode/success"] == 1.0
    assert first["env/notes"] == 2.0
    assert first["episode/segments"] > 3.0
