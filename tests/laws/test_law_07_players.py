"""LAW 7, and 1, 4, 5 and 11, of a policy that plays several players: a group is one player of one task. Each has a
trajectory of its own, with the ids that were sampled for it, and its own rewards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from agent_r1_grpo.grpo import GRPO
from stage import BOTH_MODES, TOKENIZER, Recorder, Stage, questions

from agent_r1_core import Action, Observation, Outcome, Step, Task, ToolEnv
from agent_r1_core.contracts.env import EnvConfig
from agent_r1_core.evaluation.evaluator import Prepared, evaluate_tasks
from agent_r1_core.learning.batch import Batch
from agent_r1_core.runs.trajectory_file import read_trajectories, write_trajectories
from agent_r1_core.testing import ScriptedPolicy
from agent_r1_core.testing.scripted import Cue
from agent_r1_core.trajectory import EndStatus, Trajectory

FIRST, SECOND = "You begin.", "You follow."


class Duel(ToolEnv):
    """Two players act in turn; who names the larger number twice wins what the other loses."""

    class Config(EnvConfig):
        frozen: bool = False
        rounds: int = 2

    def reset(self, task: Task) -> Observation:
        self.said: list[int] = []
        return self._to(FIRST)

    def step(self, action: Action) -> Step:
        self.said.append(int(action.text))
        mover, turns = (len(self.said) - 1) % 2, len(self.said)
        if turns < 2 * self.config.rounds:
            return Step(self._to(SECOND if turns == 1 else f"They said {action.text}."), info={"mover": mover})
        margin = sum(self.said[0::2]) - sum(self.said[1::2])
        others = {0: Outcome(margin, margin > 0, {"margin": margin})}
        return Step(reward=-margin, terminated=True, success=margin < 0, others=others)

    def _to(self, text: str) -> Observation:
        player = len(self.said) % 2
        frozen = self.config.frozen and player == 1
        return Observation([{"role": "user", "content": text}], player=player, frozen=frozen)


def numbers(cue: Cue) -> str:
    """A number of each request's own, from its seed."""
    return str(10 + cue.request.seed % 80)


def stage(engine: Any = None, frozen: Any = None, duel: type[Duel] = Duel, config: Any = None, **more: Any) -> Stage:
    options = Duel.Config(frozen=frozen is not None, **(config or {}))
    recorder = Recorder(engine or ScriptedPolicy(numbers))
    own = Stage(recorder, make_env=lambda services: duel(options, services), tool_format=None, **more)
    own.collector.frozen = frozen
    return own


def said(trajectory: Trajectory) -> list[int]:
    return [int(turn.text) for turn in trajectory.turns]


@BOTH_MODES
def test_each_player_is_trained_on_the_very_ids_that_were_sampled_for_it(deterministic: bool) -> None:
    own = stage(deterministic=deterministic)
    result = own.play(questions(3), samples=2)
    expected = [(f"q{task}", player) for task in range(3) for player in range(2)]
    assert [(group.task.id, group.player) for group in result.groups] == expected
    batch = Batch.from_groups(result.groups)
    for row, trajectory in enumerate(batch.trajectories):
        heard = own.engine.of(trajectory)
        sampled = [index for _, made in heard for index in made.ids]
        assert batch.ids[row][batch.action_mask[row]].tolist() == sampled
        (segment,) = trajectory.segments
        for turn, (request, _) in zip(trajectory.turns, heard, strict=True):
            assert segment.ids[: turn.start] == list(request.ids), "the engine saw another context"
        text = TOKENIZER.decode(segment.ids)
        assert (FIRST in text, SECOND in text) == (trajectory.player == 0, trajectory.player == 1)
    every = [made for heard in own.engine.heard.values() for _, made in heard]
    assert int(batch.action_mask.sum()) == sum(len(made.ids) for made in every), "each id once, and no other"


def test_each_player_gets_its_own_reward_on_its_own_last_action() -> None:
    for group in stage().play(questions(2), samples=3).groups:
        batch = Batch.from_groups([group])
        for row, trajectory in enumerate(group.trajectories):
            other = next(one for one in trajectory.others) if group.player == 0 else None
            last = int(batch.action_mask[row].nonzero()[-1])
            assert batch.rewards[row, last] == trajectory.total_reward == batch.returns[row]
            assert batch.rewards[row].count_nonzero() <= 1
            if other is not None:
                assert trajectory.total_reward == sum(said(trajectory)) - sum(said(other)) == -other.total_reward
                assert (trajectory.success, other.success) == (trajectory.total_reward > 0, other.total_reward > 0)
                assert trajectory.turns[-1].info == {"mover": 0, "margin": trajectory.total_reward}


def test_a_player_is_compared_with_the_same_player_of_the_same_task() -> None:
    """Both players of a game of win and loss together would always have a mean of 0."""
    batch = Batch.from_groups(stage().play(questions(2), samples=4).groups)
    found = GRPO(GRPO.Config(normalise_std=False)).advantages(batch).advantages
    for row, one in enumerate(batch.trajectories):
        peers = [peer for peer in batch.trajectories if (peer.task.id, peer.player) == (one.task.id, one.player)]
        advantage = one.total_reward - sum(peer.total_reward for peer in peers) / 4
        assert found[row][batch.action_mask[row]].tolist() == pytest.approx([advantage] * one.action_tokens, abs=1e-3)


def test_of_a_frozen_model_nothing_is_kept_and_it_always_samples() -> None:
    frozen, own = Recorder(ScriptedPolicy(["5"])), Recorder(ScriptedPolicy(["7"]))
    result = stage(own, frozen).play(questions(2), samples=2, greedy=True)
    assert [group.player for group in result.groups] == [0, 0]
    assert all(one.others == () and said(one) == [7, 7] and one.total_reward == 4 for one in result.trajectories)
    asked = [request for heard in frozen.heard.values() for request, _ in heard]
    assert {request.sampling.temperature for request in asked} == {1.0}
    assert {request.sampling.temperature for heard in own.heard.values() for request, _ in heard} == {0.0}
    assert len({request.seed for request in asked}) == 8
    assert not own.heard.keys() & frozen.heard.keys(), "an engine that keeps caches would mix them up"


def test_what_is_shown_at_the_end_is_read_by_who_acted_last() -> None:
    class Told(Duel):
        def step(self, action: Action) -> Step:
            step = super().step(action)
            return replace(step, observation=self._to("It is over.")) if step.terminated else step

    (first, second) = stage(duel=Told).play(questions(1)).trajectories
    assert [[message["content"] for message in one.closing] for one in (first, second)] == [[], ["It is over."]]
    read = [TOKENIZER.decode(one.segments[0].ids) for one in (first, second)]
    assert ["It is over." in text for text in read] == [False, True]


def test_a_budget_ends_the_game_for_both_and_nobody_bootstraps() -> None:
    result = stage(config={"rounds": 9, "max_turns": 2}).play(questions(1))
    ended = [(len(said(one)), one.status, one.reason, one.bootstrap) for one in result.trajectories]
    assert ended == [(2, EndStatus.TRUNCATED, "max_turns", False)] * 2


def test_a_game_that_fails_is_dropped_whole_and_counted_once() -> None:
    result = stage(ScriptedPolicy(lambda cue: "no number" if SECOND in cue.prompt else "4")).play(questions(2))
    assert result.groups == []
    assert (result.metrics["rollout/failed"], result.metrics["rollout/episodes"]) == (2, 0)


def test_a_game_in_which_player_0_never_acts_fails_with_a_sentence() -> None:
    class Late(Duel):
        def _to(self, text: str) -> Observation:
            return Observation([{"role": "user", "content": text}], player=1)

    (failed,) = stage(duel=Late, config={"rounds": 1}).play(questions(1)).dropped
    assert "before player 0 acted" in failed.reason


def test_the_same_seed_gives_the_same_games_one_at_a_time_or_together() -> None:
    def games(**settings: Any) -> list[list[int]]:
        return [said(one) for one in stage(**settings).play(questions(3), samples=3).trajectories]

    assert games() == games(max_episodes=1) == games(deterministic=True)
    flat = [number for game in games() for number in game]
    assert len(set(flat)) > len(flat) / 2, "players share seeds"


def test_an_evaluation_scores_player_0_and_counts_a_game_once() -> None:
    own = stage()
    evaluation = own.run(evaluate_tasks(own.collector.collect, Prepared(questions(4)), greedy=False))
    assert [one.player for one in evaluation.trajectories] == [0] * 4
    assert len(evaluation.episodes) == 4
    assert [one.total for one in evaluation.episodes] == [one.total_reward for one in evaluation.trajectories]


def test_files_keep_the_players_apart(tmp_path: Any) -> None:
    result = stage().play(questions(2), samples=2)
    write_trajectories(tmp_path / "a.parquet", 1, result.trajectories)
    read = read_trajectories(tmp_path / "a.parquet")
    told, own = ([(one.id, one.player, said(one)) for one in each] for each in (read, result.trajectories))
    assert told == own
    assert len({one.id for one in read}) == 8
