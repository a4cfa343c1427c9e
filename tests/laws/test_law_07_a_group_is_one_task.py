"""LAW 7: a group is one task under one policy; alone or without spread it teaches nothing."""

from __future__ import annotations

import pytest
import torch
from agent_r1_grpo.grpo import GRPO
from algorithms import COMPARING, make
from gradients import update_gradients
from stage import Recorder, Stage, questions

from agent_r1_core import Action, EnvConfig, Observation, Step, Task, ToolEnv
from agent_r1_core.contracts.algorithm import Algorithm, AlgorithmConfig, GroupFilter
from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.selection import kept_groups
from agent_r1_core.testing import ScriptedPolicy, make_task, make_trajectory, random_group, tiny_model
from agent_r1_core.trajectory import EndStatus, Group

every_group_estimator = pytest.mark.parametrize("algorithm", COMPARING.values(), ids=list(COMPARING))
WHITENED = {"reinforce_pp_baseline", "reinforce_pp_baseline_kl", "gdpo"}
"""Those that scale advantages over the whole batch."""
TWO_TURNS = (((1, 2), (3, 4)), ((5,), (6,)))


def group_of(task: str, *rewards: float, status: EndStatus = EndStatus.TERMINATED) -> Group:
    made = [make_trajectory(task=make_task(task), sample=i, reward=r, status=status) for i, r in enumerate(rewards)]
    return Group(make_task(task), made)


def advantages(algorithm: Algorithm, *groups: Group) -> list[float]:
    """One number per trajectory: its advantage at its first action token."""
    batch = Batch.from_groups(groups)
    found = algorithm.advantages(batch).advantages
    first = batch.action_mask.int().argmax(1)
    return found.gather(1, first[:, None])[:, 0].tolist()


@every_group_estimator
@pytest.mark.parametrize("failures", [0, 2])
def test_a_group_of_one_has_no_advantage_rather_than_its_raw_reward(algorithm: Algorithm, failures: int) -> None:
    """Also one that failures left alone."""
    group = group_of("alone", 7.0)
    group.trajectories += group_of("alone", *[0.0] * failures, status=EndStatus.FAILED).trajectories
    assert advantages(algorithm, group, group_of("pair", 0.0, 1.0))[0] == 0.0


@every_group_estimator
@pytest.mark.parametrize("reward", [0.0, 1.0, 0.1, -0.3])
def test_a_group_without_spread_has_advantage_zero_exactly(algorithm: Algorithm, reward: float) -> None:
    found = advantages(algorithm, group_of("flat", *[reward] * 7), group_of("pair", 0.0, 1.0))
    assert found[:7] == [0.0] * 7
    assert found[7] < 0 < found[8]


@every_group_estimator
def test_the_same_rewards_in_another_order_are_no_spread(algorithm: Algorithm) -> None:
    """Nor are .1 and .2 in place of .3, or what should cancel: of both only rounding is left."""
    orders = [(0.1, 0.7, -0.3), (-0.3, 0.1, 0.7), (0.7, -0.3, 0.1), (0.3, 0.1, 0.1), (0.2, 0.3, 0.0)]
    for outcome in (0.0, -0.5, 1000.1):
        same, turns = Group(make_task("same"), []), [((1,), (2,))] * 3
        for k, order in enumerate(orders):
            same.trajectories.append(make_trajectory(turns, sample=k, turn_rewards=order, reward=outcome))
        found = advantages(algorithm, same, group_of("pair", 0.0, 1.0))
        assert found[:5] == [0.0] * 5
        assert found[5] < 0 < found[6]
        assert kept_groups([same], AlgorithmConfig(filter="zero_spread")) == []


@pytest.mark.parametrize("name", [name for name in COMPARING if name not in WHITENED])
def test_another_groups_rewards_change_nothing(name: str) -> None:
    algorithm = COMPARING[name]
    one = advantages(algorithm, group_of("a", 0.0, 1.0, 0.5), group_of("b", 0.0, 1.0))[:3]
    other = advantages(algorithm, group_of("a", 0.0, 1.0, 0.5), group_of("b", 100.0, -7.0))[:3]
    assert one == other


def test_two_groups_of_one_task_are_two_groups() -> None:
    """A group is what came together under one policy version, not everything with the task's name."""
    together = advantages(GRPO(), group_of("same", 0.0, 1.0, 0.0, 0.0))
    apart = advantages(GRPO(), group_of("same", 0.0, 1.0), group_of("same", 0.0, 0.0))
    assert apart[2:] == [0.0, 0.0]
    assert together[2] != 0.0


def group_in_states(task: str, *played: tuple[str | None, float]) -> Group:
    """Trajectories of two turns, given by the name of the second state and the reward of the second action."""
    made = [
        make_trajectory(TWO_TURNS, sample=i, state_keys=(f"start-{i}", state), turn_rewards=(0.0, reward))
        for i, (state, reward) in enumerate(played)
    ]
    return Group(make_task(task), made)


def test_a_group_of_actions_is_one_state_of_one_group() -> None:
    """Actions compare only within a group and a state; alone, without spread or without a name they tell nothing."""
    first = group_in_states("a", ("x", 1.0), ("x", 0.0), ("alone", 1.0), (None, 0.0), (None, 1.0))
    second = group_in_states("b", ("x", 5.0), ("flat", 0.3), ("flat", 0.3), ("flat", 0.3))
    batch = Batch.from_groups([first, second])
    both = [make({"name": "gigpo", "omega": omega}).advantages(batch).advantages for omega in (1.0, 0.0)]
    steps = (both[0] - both[1])[:, 5].tolist()  # GiGPO's A_step of each trajectory's second turn
    assert steps[0] > 0 > steps[1]
    assert steps[2:] == [0.0] * 7


@pytest.mark.parametrize("name", [name for name in COMPARING if not COMPARING[name].needs_every_trajectory()])
def test_a_rollout_that_teaches_nothing_has_no_gradient(name: str) -> None:
    algorithm = COMPARING[name]
    groups = [group_of("flat", 1.0, 1.0, 1.0), group_of("alone", 5.0)]
    for skip in (True, False):
        gradient = update_gradients(tiny_model(), algorithm, groups, skip_without_gradient=skip)[0]
        assert not gradient.any()


def test_a_greedy_baseline_makes_a_group_of_one_enough_and_is_itself_no_sample() -> None:
    """ReMax's baseline is not the group's: the raw reward is compared all the same."""
    greedy = make_trajectory(sample=1, reward=0.25, baseline=True)
    alone = Group(make_task(), [make_trajectory(reward=1.0)], greedy)
    assert alone.returns == [1.0]
    assert advantages(make("remax"), alone, group_of("without", 1.0)) == [0.75, 0.0]


def test_a_greedy_baseline_is_played_beside_the_samples_and_is_none_of_them() -> None:
    own = Stage(ScriptedPolicy(["Hm.", "<answer>Tavelo</answer>"]))
    own.collector.engine = recorder = Recorder(own.engine)
    (group,) = own.play(questions(1), samples=2, greedy_baseline=True).groups
    assert [one.id for one in group.trajectories] == ["q0/0", "q0/1"]
    assert group.baseline.id == "q0/greedy"
    temperatures = {name: {asked.sampling.temperature for asked, _ in heard} for name, heard in recorder.heard.items()}
    assert sorted(temperatures.values(), key=min) == [{0.0}, {1.0}, {1.0}]
    assert [len(heard) for heard in recorder.heard.values()] == [2, 2, 2]


def test_a_group_whose_baseline_other_weights_sampled_is_mixed() -> None:
    group = Group(make_task(), [make_trajectory()], make_trajectory(baseline=True))
    for version, one in enumerate((*group.trajectories, group.baseline)):
        for turn in one.turns:
            turn.versions = ((version, turn.tokens),)
    assert group.versions == {0, 1}


@pytest.mark.parametrize("filter", ["zero_spread", "resample", "top_share", "top_p"])
def test_no_filter_chooses_a_group_for_a_failed_trajectory_or_a_lone_one(filter: GroupFilter) -> None:
    broken = group_of("broken", 1.0, 1.0)
    broken.trajectories += group_of("broken", 0.0, status=EndStatus.FAILED).trajectories
    told = group_of("told", -1.0, -0.5)
    groups = [group_of("alone", 7.0), broken, group_of("flat", -2.0, -2.0), told]
    assert kept_groups(groups, AlgorithmConfig(filter=filter, filter_share=1.0, filter_p=1.0)) == [told]


def test_advantages_are_finite_for_any_rewards() -> None:
    for seed in range(10):
        batch = Batch.from_groups([random_group(seed, 3)])
        batch.returns = batch.returns * 10.0 ** (seed - 5)
        for algorithm in COMPARING.values():
            assert torch.isfinite(algorithm.advantages(batch).advantages).all()


class Shop(ToolEnv):
    """Keeps its books in the task."""

    def reset(self, task: Task) -> Observation:
        self.stock = task.metadata["stock"]
        self.stock.pop()
        return Observation([{"role": "user", "content": f"There are {len(self.stock)}."}])

    def step(self, action: Action) -> Step:
        return Step(terminated=True, answer=str(len(self.stock)))


def test_what_an_episode_does_to_its_task_no_other_meets() -> None:
    for stock in (["apple", "pear"], [["apple"] * 3000] * 2):  # small, and too large for the event loop
        task = Task("t", "Buy.", metadata={"stock": stock})
        stage = Stage(ScriptedPolicy(["go"]), make_env=lambda services: Shop(EnvConfig(), services), tool_format=None)
        answers = [one.answer for _ in range(2) for one in stage.play([task], samples=3).trajectories]
        assert (answers, len(task.metadata["stock"])) == (["1"] * 6, 2)
