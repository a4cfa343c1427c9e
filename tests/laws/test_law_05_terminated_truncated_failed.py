"""LAW 5: terminated, truncated and failed are three things; only a limit outside the world bootstraps, nothing that
broke is ever trained on."""

from __future__ import annotations

import asyncio
import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agent_r1_grpo.grpo import GRPO
from agent_r1_ppo.ppo import PPO
from algorithms import ALGORITHMS
from gradients import update_gradients
from stage import BOTH_MODES, Recorder, Stage, questions

from agent_r1_core import Action, EnvConfig, EnvServices, Observation, RewardFn, Step, Task, ToolEnv
from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.errors import ConfigError, EngineError
from agent_r1_core.learning.batch import Advantages, Batch
from agent_r1_core.learning.critic import Critic
from agent_r1_core.learning.learner import Learner
from agent_r1_core.learning.policy import Policy
from agent_r1_core.rollout import RolloutRequest
from agent_r1_core.testing import ScriptedPolicy, make_task, make_trajectory, random_group, tiny_model
from agent_r1_core.trajectory import EndStatus, Group, Trajectory

END_OF = {"q0": "goal", "q1": "clock"}
"""How the worlds of the tasks end; the others go on until a budget of the run is spent."""


class World(ToolEnv):
    """A continuing world: it has a goal, or a clock from outside, or neither."""

    def reset(self, task: Task) -> Observation:
        self.end = END_OF.get(task.id)
        self.steps = 0
        return Observation([{"role": "user", "content": str(task.prompt)}])

    def step(self, action: Action) -> Step:
        self.steps += 1
        seen = Observation([{"role": "user", "content": f"step {self.steps}"}])
        over = self.steps == 2
        reached = over and self.end == "goal"
        return Step(seen, terminated=reached, truncated=over and self.end == "clock", answer="x" if reached else None)


class Answered(RewardFn):
    """1 for an answer, and a price for none."""

    name = "answered"
    range = (-1.0, 1.0)

    def score(self, trajectory: Trajectory) -> float:
        return 1.0 if trajectory.answer is not None else -1.0


def world(**config: int) -> Callable[[EnvServices], ToolEnv]:
    return lambda services: World(EnvConfig(**config), services)


def stage(make_env: Callable[[EnvServices], ToolEnv], **settings: Any) -> Stage:
    return Stage(ScriptedPolicy(["go on"]), make_env=make_env, **({"rewards": [Answered()]} | settings))


@BOTH_MODES
@pytest.mark.parametrize(("budget", "reason"), [({"max_turns": 3}, "max_turns"), ({"max_tokens": 150}, "max_tokens")])
def test_a_goal_a_clock_and_a_budget_end_an_episode_in_three_ways(budget, reason, deterministic):
    result = stage(world(**budget), deterministic=deterministic).play(questions(3))
    reached, cut, spent = (group.trajectories[0] for group in result.groups)
    assert (reached.status, reached.reason, reached.bootstrap) == (EndStatus.TERMINATED, "answer", False)
    assert (cut.status, cut.reason, cut.bootstrap) == (EndStatus.TRUNCATED, "env", True)
    assert (spent.status, spent.reason, spent.bootstrap) == (EndStatus.TRUNCATED, reason, False)
    assert [one.reward for one in (reached, cut, spent)] == [1.0, -1.0, -1.0], "no answer is scored as no answer"
    assert result.metrics["rollout/failed"] == 0.0


def test_only_the_clock_bootstraps_from_the_critic() -> None:
    batch = batch_of_an_update(stage(world(max_turns=3)).play(questions(3)).groups)
    assert batch.bootstrapped.tolist() == [False, True, False]
    assert batch.bootstrap[1].abs() > 1e-3
    assert batch.bootstrap[[0, 2]].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("credit", [{}, {"gae": "turn", "gamma_turn": 1.0}], ids=["tokens", "turns"])
def test_a_budget_is_worth_its_outcome_and_a_clock_what_would_have_come(credit: dict[str, Any]) -> None:
    """With gamma = lam = 1 the last action's target is the reward, plus the value of what follows under a clock."""
    batch = batch_of_an_update(stage(world(max_turns=3)).play(questions(3)).groups)
    targets = PPO(PPO.Config(whiten=False, **credit)).advantages(batch).value_targets
    last = batch.action_mask.long().cumsum(1).argmax(1)
    expected = torch.tensor([1.0, -1.0, -1.0]) + batch.bootstrap
    torch.testing.assert_close(targets.gather(1, last[:, None])[:, 0], expected)


def batch_of_an_update(groups: list[Group]) -> Batch:
    """What PPO's advantages see of an update, under a critic that is not zero everywhere."""
    batches: list[Batch] = []

    class Watching(PPO):
        def advantages(self, batch: Batch) -> Advantages:
            batches.append(batch)
            return super().advantages(batch)

    policy = Policy(tiny_model())
    critic = Critic(policy)
    torch.nn.init.constant_(critic.head.weight, 0.1)
    Learner(policy, Watching(), TrainingConfig(), critic=critic).update(groups, 1)
    (batch,) = batches
    return batch


ERRORS = {"engine": EngineError, "greedy": EngineError, "reward": ZeroDivisionError}
"""What breaks otherwise than worlds do."""


def fragile(where: str, times: int | float, **settings: Any) -> tuple[Stage, list[str]]:
    """A stage on which something breaks a number of times, and the tasks whose worlds were begun, one by one."""
    left, starts = [times], list[str]()

    def may_break(here: str) -> None:
        if here == where and left[0] > 0:
            left[0] -= 1
            raise ERRORS.get(where, ConnectionError)(f"the {where} is gone")

    class FragileWorld(World):
        def reset(self, task: Task) -> Observation:
            starts.append(task.id)
            may_break("reset")
            return super().reset(task)

        def step(self, action: Action) -> Step:
            may_break("step")
            return super().step(action)

    class FragileEngine(ScriptedPolicy):
        async def generate(self, request: Any) -> Any:
            may_break("engine" if request.sampling.temperature else "greedy")
            return await super().generate(request)

    class FragileReward(Answered):
        def score(self, trajectory: Trajectory) -> float:
            may_break("reward")
            return super().score(trajectory)

    config = EnvConfig(max_turns=3)
    given: dict[str, Any] = {"make_env": lambda services: FragileWorld(config, services), "rewards": [FragileReward()]}
    return Stage(FragileEngine(["go on"]), **given, **settings), starts


EVERYWHERE = pytest.mark.parametrize("where", ["reset", "step", "engine", "reward"])


@BOTH_MODES
@EVERYWHERE
def test_what_broke_is_played_again_and_told_once(
    where: str, deterministic: bool, caplog: pytest.LogCaptureFixture
) -> None:
    own, starts = fragile(where, times=2, max_retries=2, deterministic=deterministic)
    result = own.play(questions(1))
    (one,) = result.groups[0].trajectories
    assert (one.status, one.attempts, one.reward) == (EndStatus.TERMINATED, 3, 1.0)
    assert len(one.turns) == 2, "nothing of the broken attempts may stay"
    assert len(starts) == 3
    assert result.dropped == []
    assert (result.metrics["rollout/retries"], result.metrics["rollout/failed"]) == (2.0, 0.0)
    (told,) = [record.message for record in caplog.records if "is played again" in record.message]
    assert f"the {where} is gone" in told


@BOTH_MODES
@EVERYWHERE
@pytest.mark.parametrize("retries", [0, 2])
def test_what_goes_on_breaking_is_dropped_and_counted(where: str, retries: int, deterministic: bool) -> None:
    own, starts = fragile(where, times=math.inf, max_retries=retries, deterministic=deterministic)
    result = own.play(questions(2))
    assert result.groups == []
    assert [one.status for one in result.dropped] == [EndStatus.FAILED] * 2
    assert [one.attempts for one in result.dropped] == [retries + 1] * 2
    assert all("is gone" in one.reason for one in result.dropped)
    assert len(starts) == 2 * (retries + 1)
    assert (result.metrics["rollout/failed"], result.metrics["rollout/episodes"]) == (2.0, 0.0)


def test_the_others_of_its_group_go_on_without_it() -> None:
    own, _ = fragile("step", times=1, max_retries=0, max_episodes=1)
    result = own.play(questions(1), samples=3)
    assert [one.sample for one in result.groups[0].trajectories] == [1, 2]
    assert [one.sample for one in result.dropped] == [0]


def test_a_greedy_baseline_that_broke_is_none_and_never_one_of_zero() -> None:
    own, _ = fragile("greedy", times=math.inf, max_retries=1)
    result = own.play(questions(2), samples=2, greedy_baseline=True)
    assert [len(group.trajectories) for group in result.groups] == [2, 2]
    assert [(one.id, one.attempts) for one in result.dropped] == [("q0/greedy", 2), ("q1/greedy", 2)]
    assert (result.metrics["baseline/failed"], result.metrics["rollout/failed"]) == (2.0, 2.0)
    algorithm = ALGORITHMS["remax"]
    assert algorithm.filter(result.groups) == []
    broken = make_trajectory(reward=0.0, baseline=True, status=EndStatus.FAILED)
    for group in (result.groups[0], Group(make_task(), [make_trajectory(reward=1.0)], broken)):
        assert not algorithm.advantages(Batch.from_groups([group])).advantages.any()


def test_a_broken_attempt_leaves_no_ids_behind() -> None:
    """Of two attempts only the second is trained, under a name and a context of its own."""
    own, _ = fragile("step", times=1, max_retries=1)
    recorder = Recorder(own.engine)
    own.collector.engine = recorder
    (one,) = own.play(questions(1)).groups[0].trajectories
    assert len(recorder.heard) == 2
    kept = [tuple(one.segments[0].ids[turn.start : turn.stop]) for turn in one.turns]
    assert [made.ids for _, made in recorder.of(one)] == kept


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_a_failed_episode_never_trains_as_a_zero_reward(name: str) -> None:
    """The gradient with it is the gradient without it: in the loss, the baseline, the whitening, the normaliser."""
    clean = [random_group(1, 3), random_group(2, 3)]
    with_failures = copy.deepcopy(clean)
    for group in with_failures:
        lost = make_trajectory(task=group.task, sample=9, status=EndStatus.FAILED, reward=0.0)
        group.trajectories.insert(1, lost)
    one, other = (update_gradients(tiny_model(), ALGORITHMS[name], groups)[0] for groups in (clean, with_failures))
    assert one.norm() > 1e-6
    assert torch.equal(one, other)


def test_a_failed_episode_is_counted_by_the_learner_too() -> None:
    group = random_group(1, 3)
    group.trajectories.append(make_trajectory(task=group.task, sample=3, status=EndStatus.FAILED, reward=5.0))
    update = Learner(Policy(tiny_model()), GRPO(), TrainingConfig()).update([group], 1)
    assert (update.metrics["update/trajectories"], update.metrics["update/failed_trajectories"]) == (3.0, 1.0)
    assert group.trajectories[3].id not in update.numbers.spans


def test_a_wrong_template_is_not_played_again() -> None:
    """What no retry can mend ends the rollout at once, instead of dropping every episode in turn."""
    starts: list[str] = []

    class Misconfigured(World):
        def reset(self, task: Task) -> Observation:
            starts.append(task.id)
            raise ConfigError("env.board must be one of small, large")

    with pytest.raises(ConfigError, match="board must be"):
        stage(lambda services: Misconfigured(None, services), max_episodes=1).play(questions(9))
    assert starts[0] == "q0"
    assert len(starts) == len(set(starts)) < 9


async def test_an_interruption_is_no_failure() -> None:
    """Ctrl-C ends the rollout; it is not retried, and no half episode is dropped as failed."""
    ended: list[Trajectory] = []

    own = stage(world())
    arrived = asyncio.Event()

    async def never(request: Any) -> Any:
        arrived.set()
        await asyncio.Event().wait()

    own.engine.generate = never  # type: ignore[method-assign]
    task = asyncio.create_task(own.collector.collect(RolloutRequest(questions(2), 1, 1), ended.append))
    await arrived.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == []
