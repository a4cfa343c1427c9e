"""Numbers of rows that are known beforehand: what is exact has no error, what says nothing has nothing but bias."""

from __future__ import annotations

import random

import pytest
import torch
from agent_r1_league.contest import Measurement, Size, angle, first_logits
from agent_r1_league.entrants import TRUTH, Entrant, entrants
from agent_r1_league.estimator import Estimator, Played
from agent_r1_league.levels import Credited, errors, moments
from agent_r1_league.play import Player
from agent_r1_league.truth import Places, exact, probabilities
from agent_r1_league.worlds import WORLDS, key

from agent_r1_core.plugins import Registry

REGISTRY = Registry.discover()
UNWHITENED = "ppo,lam=0,whiten=false"


def estimator(places: Places, block: str, critic: str | None = None) -> Estimator:
    row = Entrant(block, critic)  # type: ignore[arg-type]
    return Estimator(row.algorithm(REGISTRY), row.critic, places)


@pytest.fixture(scope="module")
def measurement() -> Measurement:
    """Of a world without luck."""
    return Measurement(Places(key(2)), 0, Size(updates=6, warmup=0))


@pytest.mark.parametrize("block", [UNWHITENED, f"{UNWHITENED},advantage_mask=false", TRUTH])
def test_without_luck_a_step_of_an_exact_critic_is_the_exact_advantage(measurement: Measurement, block: str) -> None:
    row = measurement.row(estimator(Places(key(2)), block, None if block == TRUTH else "exact"))
    for level in ("token", "turn", "episode"):
        assert errors(row["moments"][level]) == pytest.approx((0, 0), abs=1e-6)
    assert row["angle_of_all"] < row["angle"]["token"] < row["angle"]["episode"]


def test_what_says_nothing_is_nothing_but_bias(measurement: Measurement) -> None:
    nothing = measurement.row(estimator(Places(key(2)), f"{UNWHITENED},gamma=0", "zero"))
    assert errors(nothing["moments"]["token"])[0] > 0.3, "rewards that come later are left out"
    own = measurement.row(estimator(Places(key(2)), "rft,success_at=9"))
    assert own["angle"]["token"] == own["angle_of_all"] == 90
    assert errors(own["moments"]["token"]) == (1, 0)


def test_the_mean_update_of_leave_one_out_is_the_true_gradient() -> None:
    """Also in length: no copy of the formula is needed to see that play, credit and loss fit together."""
    places = Places(key(2))
    policy = probabilities(places, first_logits(places, 0))
    truth, rloo, rng = exact(places, policy), estimator(places, "rloo"), random.Random(0)
    total, count = torch.zeros_like(policy), 40
    for _ in range(count):
        rollout = Player(places, policy).rollout(rng, groups=4, samples=8, greedy=False)
        credit = rloo.credit(Played.of(rollout.groups, places), truth)
        if credit is not None:
            total += rloo.gradient(credit, policy) / count
    assert angle(total, truth.gradient) < 12
    assert float((total * truth.gradient).sum() / truth.gradient.square().sum()) == pytest.approx(1, abs=0.15)


def test_values_stand_where_a_critic_looks() -> None:
    """Behind an action luck is still open; the first word of the answer tells it."""
    places = Places(WORLDS["tool"])
    policy = probabilities(places, first_logits(places, 0))
    truth = exact(places, policy)
    rollout = Player(places, policy).rollout(random.Random(0), 4, 8, greedy=False)
    played = Played.of(rollout.groups, places)
    credit = estimator(places, f"{UNWHITENED},advantage_mask=false", "exact").credit(played, truth)
    assert credit is not None
    own, batch = credit.advantages.advantages, credit.played.batch
    exact_ones = truth.of(played.places[batch.action_mask], batch.ids[batch.action_mask]).float()
    last = torch.tensor([one.reward for one in batch.trajectories])
    ends = batch.action_mask.long().cumsum(1).argmax(1)
    certain = own.clone()
    certain[torch.arange(batch.size), ends] = 0
    expected = torch.zeros_like(own)
    expected[batch.action_mask] = exact_ones
    expected[torch.arange(batch.size), ends] = 0
    assert torch.allclose(certain[batch.action_mask], expected[batch.action_mask], atol=1e-6)
    assert last.any()
    answers = batch.response_mask & ~batch.action_mask
    first = answers & torch.cat([torch.zeros(batch.size, 1, dtype=torch.bool), batch.action_mask[:, :-1]], 1)
    assert own[first].abs().min() > 0.01
    assert not own[answers & ~first].any()


def test_scale_and_a_baseline_of_the_place_are_no_bias() -> None:
    generator = torch.Generator().manual_seed(0)
    where = torch.arange(4000) % 4
    decided = 2 * where + torch.randint(2, (4000,), generator=generator)
    truth = (decided % 2).double() - 0.5
    noise = torch.randn(4000, generator=generator, dtype=torch.float64) / 10
    half = (torch.arange(4000) // 4) % 2
    bias, variance = errors(moments("token", [Credited(7 * (truth + where + noise), truth, decided, where, half)]))
    assert bias == pytest.approx(0, abs=1e-3)
    assert variance == pytest.approx(4 * ((0 + 1 + 4 + 9) / 4 + 0.01), rel=0.05), "a baseline is variance"
    wrong = torch.where(where == 0, -truth, truth)
    bias, _ = errors(moments("token", [Credited(wrong, truth, decided, where, half)]))
    assert bias == pytest.approx(1 - 0.5**2, abs=1e-2), "of four places one is wrong, and the scale halves them all"
    anywhere = torch.zeros_like(where)
    episodes = moments("episode", [Credited(noise, truth + noise * 1e-16, anywhere, anywhere, half)])
    assert episodes == pytest.approx(moments("token", [Credited(noise, truth, decided % 2, anywhere, half)])), "ties"


def test_every_registered_name_takes_part_or_says_why_not() -> None:
    rows, left_out = entrants(REGISTRY, [])
    named = {one.name for one in REGISTRY.components("algorithm") if one.alias_of is None}
    assert {row.block for row in rows} - {TRUTH} | set(left_out) == named
    assert "demonstrations" in left_out["sft"]
    assert "has no teacher" in left_out["distillation"], "a reference that agrees with the policy teaches nothing"
    assert [row.critic for row in rows if row.block == "ppo"] == ["exact", "fitted", "zero"]
