"""Advantages and losses of every algorithm from the formulas of their papers: loops over tokens, Python's floats.

A new algorithm gets a class here and its names in `REFERENCES`; defaults are written out, so that a changed default is
seen, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import mean, stdev, variance
from typing import Any, ClassVar

import torch
from hard_rollouts import WEIGHTS
from plain_tokens import Row, Token
from torch import Tensor

Active = set[str]
"""What acted during an update: `clip_low`, `clip_high`, `dual_clip`, `value_clip`, ..."""


class PlainAlgorithm:
    """What the algorithms share. Options not given have the defaults of `OPTIONS`."""

    OPTIONS: ClassVar[dict[str, Any]] = {
        "loss_mask": True,
        "aggregation": "token_mean",
        "horizon": 1024,
        "entropy_coef": 0.0,
        "entropy_target": None,
        "entropy_step": 0.005,
        "observation_coef": 0.0,
        "filter": "none",
        "filter_share": 0.25,
        "filter_p": 0.9,
    }
    critic = False
    greedy = False
    """Whether a group needs a greedy baseline."""

    def __init__(self, **options: Any) -> None:
        self.options = PlainAlgorithm.OPTIONS | self.OPTIONS | options
        self.active: Active = set()
        self.bonus: float = self.options["entropy_coef"]
        self.entropy = -math.inf
        """Of the policy in the update before."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["options"][name]
        except KeyError:
            raise AttributeError(name) from None

    def needs_reference(self) -> bool:
        return self.options.get("kl_coef", 0.0) > 0

    def needs_old(self) -> bool:
        """Whether the advantages read log-probs from before the update."""
        return False

    def keeps(self, rollout: Sequence[Sequence[float]]) -> list[bool]:
        """Whether each of a rollout's groups, of these returns, is trained on."""
        if self.filter == "none":
            return [True] * len(rollout)
        spreads = [stdev(returns) if len(returns) > 1 and _spread(returns) else 0.0 for returns in rollout]
        kept, budget = [False] * len(rollout), sum(spreads)
        if self.filter == "top_p":
            budget = self.filter_p * budget
        places = len(rollout)
        if self.filter == "top_share":
            places = next(count for count in range(1, places + 1) if count >= self.filter_share * places)
        for _ in range(places):
            widest = max((spread for spread, taken in zip(spreads, kept, strict=True) if not taken), default=0.0)
            taken_so_far = sum(spread for spread, taken in zip(spreads, kept, strict=True) if taken)
            if widest == 0.0 or taken_so_far >= budget:
                break
            kept[spreads.index(widest)] = True
        if not all(kept):
            self.active.add(self.filter)
        return kept

    def chosen(self, rows: Sequence[Row]) -> list[Row]:
        """Those of the kept groups' trajectories that are trained on."""
        return list(rows)

    def loss_tokens(self, row: Row) -> list[Token]:
        return row.actions if self.loss_mask else row.responses

    def value_tokens(self, row: Row) -> list[Token]:
        return []

    def weights(self, rows: Sequence[Row]) -> list[float]:
        """The weight of each row's loss tokens within a mini-batch."""
        lengths = [len(self.loss_tokens(row)) for row in rows]
        count = sum(length > 0 for length in lengths)
        per_token: dict[str, Callable[[int], float]] = {
            "token_mean": lambda length: 1 / sum(lengths),
            "sequence_mean": lambda length: 1 / (count * length),
            "sequence_sum": lambda length: 1 / count,
            "constant": lambda length: 1 / (count * self.horizon),
        }
        return [per_token[self.aggregation](length) if length else 0.0 for length in lengths]

    def advantages(self, rows: Sequence[Row]) -> None:
        """Write every token's advantage, and with a critic its value target."""
        raise NotImplementedError

    def kl_in_loss(self) -> bool:
        """Whether a KL to the reference is in the loss of a token."""
        return False

    def policy_loss(self, tokens: Sequence[Token], logprobs: Sequence[Tensor]) -> Tensor:
        """Sum of the losses of one row's tokens, without the entropy: PPO's surrogate, and a KL where it is in it."""
        total = torch.zeros((), dtype=torch.float64)
        for token, now in zip(tokens, logprobs, strict=True):
            total = total + self.clipped(torch.exp(now - token.old), token.advantage, self.options.get("dual_clip"))
            if self.kl_in_loss():
                total = total + self.kl_coef * _kl(self.kl_estimator or "k2", now - token.reference)
        return total

    def loss(self, tokens: Sequence[Token], logprobs: Sequence[Tensor], entropies: Sequence[Tensor]) -> Tensor:
        """Sum of the losses of one row's tokens; entropy is a bonus, where there is too little of it."""
        loss = self.policy_loss(tokens, logprobs)
        if self.entropy_target is not None and self.entropy > self.entropy_target:
            self.active.add("entropy_above")
            return loss
        if self.entropy_target is not None and self.bonus:
            self.active.add("entropy_below")
        return loss - self.bonus * sum(entropies) if self.bonus else loss

    def adapt(self, entropies: Sequence[float]) -> None:
        """Move the bonus after an update with these entropies at its actions (2505.22312)."""
        if self.entropy_target is not None:
            self.entropy = mean(entropies)
            step = self.entropy_step if self.entropy <= self.entropy_target else -self.entropy_step
            self.bonus = min(max(self.bonus + step, 0.0), 1.0)

    def clipped(self, ratio: Tensor, advantage: float, dual_clip: float | None) -> Tensor:
        """PPO's surrogate: the worse of the free and the bounded one, and no worse than the dual clip."""
        low, high = 1 - self.clip_low, 1 + self.clip_high
        if ratio.item() < low and advantage < 0:
            self.active.add("clip_low")
        if ratio.item() > high and advantage > 0:
            self.active.add("clip_high")
        gain = torch.minimum(ratio * advantage, torch.clamp(ratio, low, high) * advantage)
        if dual_clip is not None and advantage < 0 and gain.item() < dual_clip * advantage:
            self.active.add("dual_clip")
            return torch.tensor(-dual_clip * advantage, dtype=torch.float64)
        return -gain


class PlainGrpo(PlainAlgorithm):
    """GRPO (2402.03300) and what its options make of it."""

    OPTIONS: ClassVar = {
        "aggregation": "sequence_mean",
        "clip_low": 0.2,
        "clip_high": 0.2,
        "dual_clip": None,
        "baseline": "mean",
        "normalise_std": True,
        "normalise_mean": False,
        "decouple_rewards": False,
        "trees": 0,
        "eps": 1e-6,
        "kl_coef": 0.0,
        "kl_estimator": "k3",
        "kl_correction": False,
        "ratio": "token",
        "objective": "clip",
    }

    def advantages(self, rows: Sequence[Row]) -> None:
        found = self.within(rows, lambda row: row.group)
        if self.trees:
            in_trees = self.within(rows, lambda row: (row.group, row.root))
            if any(advantage != 0 for advantage in in_trees):
                self.active.add("trees")
            found = [a + b for a, b in zip(found, in_trees, strict=True)]
        for row, advantage in zip(rows, found, strict=True):
            for token in self.loss_tokens(row):
                token.advantage = advantage

    def within(self, rows: Sequence[Row], of: Callable[[Row], object]) -> list[float]:
        """What each row is worth among those that `of` takes for its own."""
        found = []
        for row in rows:
            group = [other for other in rows if of(other) == of(row)]
            if self.decouple_rewards:
                parts = [(w, row.earned.get(k, 0.0), [r.earned.get(k, 0.0) for r in group]) for k, w in WEIGHTS.items()]
                parts.append((1.0, _unnamed(row), [_unnamed(other) for other in group]))
                found.append(sum(weight * self.compared(own, among) for weight, own, among in parts))
            else:
                found.append(self.compared(row.total, [other.total for other in group]))
        if self.decouple_rewards and len(found) > 1 and _spread(found):
            centre, scale = mean(found), math.sqrt(variance(found) + 1e-8)
            found = [(advantage - centre) / scale if abs(advantage) > 1e-9 else 0.0 for advantage in found]
        return found

    def compared(self, own: float, returns: Sequence[float]) -> float:
        if not _spread(returns):
            return 0.0
        if self.baseline == "leave_one_out":
            return own - (sum(returns) - own) / (len(returns) - 1)
        if self.normalise_mean:  # MaxRL (2602.02710), whose returns are never negative
            return (own - mean(returns)) / mean(abs(one) for one in returns)
        return (own - mean(returns)) / (stdev(returns) + self.eps if self.normalise_std else 1.0)

    def policy_loss(self, tokens: Sequence[Token], logprobs: Sequence[Tensor]) -> Tensor:
        differences = [now - token.old for token, now in zip(tokens, logprobs, strict=True)]
        if self.ratio == "sequence":
            differences = [torch.stack(differences).mean()] * len(tokens)
        if self.ratio == "turn":
            turns = {
                token.turn: [d for t, d in zip(tokens, differences, strict=True) if t.turn == token.turn]
                for token in tokens
            }
            means = {turn: torch.stack(own).mean() for turn, own in turns.items()}
            differences = [means[t.turn] if t.action else d for t, d in zip(tokens, differences, strict=True)]
        total = torch.zeros((), dtype=torch.float64)
        for token, now, difference in zip(tokens, logprobs, differences, strict=True):
            ratio = torch.exp(difference)
            if self.objective == "cispo":
                weight = min(max(ratio.item(), 1 - self.clip_low), 1 + self.clip_high)
                if weight < ratio.item():
                    self.active.add("clip_high")
                total = total - weight * token.advantage * now
            elif self.objective == "dppo":
                total = total - self.trusted(token, now) * min(ratio.item(), 20.0) * token.advantage * now
            else:
                total = total + self.clipped(ratio, token.advantage, self.dual_clip)
            if self.kl_coef:
                total = total + self.kl_coef * self.penalty(token, now)
        return total

    def trusted(self, token: Token, now: Tensor) -> int:
        """0 where the probability has gone too far from the sampler's, in the direction of the advantage (DPPO)."""
        moved = math.exp(now.item()) - math.exp(token.old)
        if token.advantage > 0 and moved > self.clip_high:
            self.active.add("clip_high")
            return 0
        if token.advantage < 0 and moved < -self.clip_low:
            self.active.add("clip_low")
            return 0
        return 1

    def penalty(self, token: Token, now: Tensor) -> Tensor:
        """The KL of a token; corrected, it is weighted by how much likelier the policy makes the token than the
        sampler did, which for k3 is a part of the estimate (DeepSeek-V3.2)."""
        penalty = _kl(self.kl_estimator, now - token.reference)
        if not self.kl_correction:
            return penalty
        ratio = torch.exp(now - token.old) * token.importance
        return penalty * (ratio if self.kl_estimator == "k3" else ratio.item())


class PlainGigpo(PlainAlgorithm):
    """GiGPO (2505.10978): a trajectory among its group, and a turn among those of the group that began as it did."""

    OPTIONS: ClassVar = {
        "omega": 1.0,
        "gamma_turn": 0.95,
        "normalise_std": True,
        "eps": 1e-6,
        "clip_low": 0.2,
        "clip_high": 0.2,
        "kl_coef": 0.0,
        "kl_estimator": "k3",
    }

    def advantages(self, rows: Sequence[Row]) -> None:
        to_go = [self.to_go(row) for row in rows]
        for row, own in zip(rows, to_go, strict=True):
            episode = self.compared(row.total, [other.total for other in rows if other.group == row.group])
            for token in self.loss_tokens(row):
                token.advantage = episode
                state = row.states.get(token.turn)
                if token.action and state is not None:
                    alike = [
                        value
                        for other, values in zip(rows, to_go, strict=True)
                        for turn, value in values.items()
                        if other.group == row.group and other.states[turn] == state
                    ]
                    token.advantage += self.omega * self.compared(own[token.turn], alike)

    def to_go(self, row: Row) -> dict[int, float]:
        """The discounted return from each turn on."""
        found, value = {}, 0.0
        for tokens in reversed(row.turns):
            value = sum(token.reward for token in tokens) + self.gamma_turn * value
            found[tokens[0].turn] = value
        return found

    def compared(self, own: float, all_of_them: Sequence[float]) -> float:
        if not _spread(all_of_them):
            return 0.0
        difference = own - mean(all_of_them)
        return difference / (stdev(all_of_them) + self.eps) if self.normalise_std else difference

    def kl_in_loss(self) -> bool:
        return self.kl_coef > 0


class PlainPpo(PlainAlgorithm):
    """PPO (1707.06347) with GAE (1506.02438) over the credited tokens, or over turns and then within each
    (RAGEN, 2504.20073), and a dual clip (1912.09729)."""

    OPTIONS: ClassVar = {
        "gae": "token",
        "gamma": 1.0,
        "gamma_turn": 1.0,
        "process_scale": None,
        "lam": 1.0,
        "lam_critic": None,
        "lam_length": None,
        "lam_turn": 1.0,
        "whiten": True,
        "clip_low": 0.2,
        "clip_high": 0.2,
        "dual_clip": 3.0,
        "value_clip": 0.5,
        "kl_coef": 0.0,
        "kl_in": "reward",
        "kl_estimator": None,
        "advantage_mask": True,
    }
    critic = True

    def needs_old(self) -> bool:
        return self.kl_coef > 0 and self.kl_in == "reward"

    def value_tokens(self, row: Row) -> list[Token]:
        return row.actions if self.advantage_mask else row.responses

    def advantages(self, rows: Sequence[Row]) -> None:
        factor = _process_factor(rows, self.process_scale)
        for row in rows:
            if self.lam_critic is not None:
                self.credit(row, factor, self.lam_critic, self.lam_critic)
                targets = [token.target for token in self.value_tokens(row)]
            self.credit(row, factor, self.lam_of(row), self.lam_turn)
            if self.lam_critic is not None:
                for token, target in zip(self.value_tokens(row), targets, strict=True):
                    token.target = target
        if self.whiten:
            _whiten([token for row in rows for token in self.value_tokens(row)], self.whiten != "scale")

    def lam_of(self, row: Row) -> float:
        """One lambda for each trajectory, by its length (VAPO, 2504.05118)."""
        if self.lam_length is None or self.gae == "turn":
            return self.lam
        return max(1 - 1 / (self.lam_length * len(self.value_tokens(row))), 0.0)

    def credit(self, row: Row, factor: float, lam: float, lam_turn: float) -> None:
        if self.gae == "turn":
            self.credit_turns(row, factor, lam, lam_turn)
            return
        following, advantage = row.bootstrap, 0.0
        for token in reversed(self.value_tokens(row)):
            gamma = self.gamma * (self.gamma_turn if token.closes_turn else 1)
            reward = self.earned(token, factor)
            error = reward + gamma * following - token.value
            advantage = error + gamma * lam * advantage
            token.advantage, token.target = advantage, advantage + token.value
            following = token.value

    def earned(self, token: Token, factor: float) -> float:
        return _earned(token, factor, self.kl_coef if self.kl_in == "reward" else 0.0, self.kl_estimator or "k1")

    def credit_turns(self, row: Row, factor: float, lam: float, lam_turn: float) -> None:
        """The turn's advantage and its first value are what its last token earns; nothing comes after that token."""
        following, of_turn = row.bootstrap, 0.0
        for tokens in reversed(row.turns):
            earned = sum(self.earned(token, factor) for token in tokens)
            first = tokens[0].value
            of_turn = earned + self.gamma_turn * following - first + self.gamma_turn * lam_turn * of_turn
            following = first
            reward, after, advantage = of_turn + first, 0.0, 0.0
            for token in reversed(tokens):
                advantage = reward + self.gamma * after - token.value + self.gamma * lam * advantage
                token.advantage, token.target = advantage, advantage + token.value
                reward, after = 0.0, token.value

    def kl_in_loss(self) -> bool:
        return self.kl_coef > 0 and self.kl_in == "loss"

    def value_loss(self, token: Token, value: Tensor) -> Tensor:
        """Half the squared error, or that of the value clipped around its old one, whichever is larger."""
        free = (value - token.target) ** 2
        if self.value_clip is None:
            return 0.5 * free
        near = torch.clamp(value, token.value - self.value_clip, token.value + self.value_clip)
        bounded = (near - token.target) ** 2
        if bounded.item() > free.item():
            self.active.add("value_clip")
        return 0.5 * torch.maximum(free, bounded)


class PlainReinforcePP(PlainAlgorithm):
    """REINFORCE++ (2501.03262), with and without the group's mean as baseline."""

    OPTIONS: ClassVar = {
        "baseline": False,
        "gamma": 1.0,
        "gamma_turn": 1.0,
        "process_scale": None,
        "clip_low": 0.2,
        "clip_high": 0.2,
        "dual_clip": None,
        "kl_coef": 0.0,
        "kl_estimator": None,
    }

    def needs_old(self) -> bool:
        return self.kl_coef > 0 and not self.baseline

    def advantages(self, rows: Sequence[Row]) -> None:
        if self.baseline:
            credited = []
            for row in rows:
                returns = [other.total for other in rows if other.group == row.group]
                if _spread(returns):
                    credited += self.loss_tokens(row)
                    for token in self.loss_tokens(row):
                        token.advantage = row.total - mean(returns)
            _whiten(credited)
            return
        factor = _process_factor(rows, self.process_scale)
        for row in rows:
            to_go = 0.0
            for token in reversed(self.loss_tokens(row)):
                reward = _earned(token, factor, self.kl_coef, self.kl_estimator or "k1")
                to_go = reward + self.gamma * (self.gamma_turn if token.closes_turn else 1) * to_go
                token.advantage = to_go
        _whiten([token for row in rows for token in self.loss_tokens(row)])

    def kl_in_loss(self) -> bool:
        return self.kl_coef > 0 and self.baseline


class PlainRemax(PlainAlgorithm):
    """ReMax (2310.10505): what is still to come, less what the greedy episode earned in all."""

    OPTIONS: ClassVar = {
        "aggregation": "sequence_sum",
        "clip_low": 0.2,
        "clip_high": 0.2,
        "kl_coef": 0.0,
        "kl_estimator": "k1",
    }
    greedy = True

    def needs_old(self) -> bool:
        return self.kl_coef > 0

    def advantages(self, rows: Sequence[Row]) -> None:
        for row in rows:
            to_go = 0.0
            for token in reversed(self.loss_tokens(row)):
                to_go += _earned(token, 1.0, self.kl_coef, self.kl_estimator)
                token.advantage = to_go - row.greedy


class PlainDistillation(PlainAlgorithm):
    """On-policy distillation (2306.13649): how much likelier the teacher, the reference, finds each action's token; or
    the policy that knows a hint, with SDAR's gate (2605.15155) and GRPO's advantage."""

    OPTIONS: ClassVar = {
        "teacher": None,
        "hint": None,
        "gate": None,
        "teacher_coef": 1.0,
        "reward_coef": 0.0,
        "clip_low": 0.2,
        "clip_high": 0.2,
    }

    def needs_reference(self) -> bool:
        return self.teacher is not None or not self.hint

    def needs_old(self) -> bool:
        return True

    def advantages(self, rows: Sequence[Row]) -> None:
        for row in rows:
            returns = [other.total for other in rows if other.group == row.group]
            earned = (row.total - mean(returns)) / (stdev(returns) + 1e-6) if _spread(returns) else 0.0
            for token in row.actions:
                taught = token.reference - token.old
                if self.gate is not None:
                    taught = 1 / (1 + math.exp(-self.gate * taught))
                token.advantage = self.teacher_coef * taught + self.reward_coef * earned


class PlainSft(PlainAlgorithm):
    """Supervised fine-tuning: the negative log-likelihood of what was done."""

    OPTIONS: ClassVar = {"observations": "tools"}

    def advantages(self, rows: Sequence[Row]) -> None:
        for row in rows:
            for token in self.loss_tokens(row):
                token.advantage = 1.0

    def policy_loss(self, tokens: Sequence[Token], logprobs: Sequence[Tensor]) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for token, now in zip(tokens, logprobs, strict=True):
            total = total - token.advantage * now
        return total


class PlainRft(PlainSft):
    """Rejection-sampling fine-tuning: the same for a few different successes of each task."""

    OPTIONS: ClassVar = {"success_at": None, "per_task": 4}

    def chosen(self, rows: Sequence[Row]) -> list[Row]:
        least = 1.0 if self.success_at is None else self.success_at
        kept: list[Row] = []
        for row in rows:
            own = [other for other in kept if other.group == row.group]
            if row.total < least - 1e-9:
                self.active.add("failure")
            elif any(_said(row) == _said(other) for other in own):
                self.active.add("duplicate")
            elif len(own) == self.per_task:
                self.active.add("too_many")
            else:
                kept.append(row)
        return kept


def _said(row: Row) -> list[list[int]]:
    return [[row.segments[token.segment][token.place] for token in turn] for turn in row.turns]


REFERENCES: dict[str, tuple[type[PlainAlgorithm], dict[str, Any]]] = {
    "grpo": (PlainGrpo, {}),
    "starpo": (PlainGrpo, {"aggregation": "sequence_mean"}),
    "dr_grpo": (PlainGrpo, {"normalise_std": False, "aggregation": "constant"}),
    "dapo": (PlainGrpo, {"clip_high": 0.28, "aggregation": "token_mean", "filter": "resample"}),
    "rloo": (PlainGrpo, {"baseline": "leave_one_out", "aggregation": "sequence_sum"}),
    "gspo": (PlainGrpo, {"ratio": "sequence", "clip_low": 3e-4, "clip_high": 4e-4}),
    "cispo": (
        PlainGrpo,
        {"objective": "cispo", "aggregation": "token_mean", "clip_low": 1.0, "clip_high": 4.0},
    ),
    "maxrl": (PlainGrpo, {"normalise_mean": True}),
    "gdpo": (PlainGrpo, {"decouple_rewards": True}),
    "tree_grpo": (PlainGrpo, {"trees": 2}),
    "gigpo": (PlainGigpo, {}),
    "ppo": (PlainPpo, {}),
    "starpo_s": (PlainPpo, {"filter": "top_share", "filter_share": 0.25, "clip_low": 0.2, "clip_high": 0.28}),
    "turn_gae": (PlainPpo, {"gae": "turn", "gamma_turn": 0.95}),
    "reinforce_pp": (PlainReinforcePP, {}),
    "reinforce++": (PlainReinforcePP, {}),
    "remax": (PlainRemax, {}),
    "distillation": (PlainDistillation, {}),
    "sdar": (
        PlainDistillation,
        {"hint": "The answer is {answers}.", "gate": 5.0, "teacher_coef": 0.01, "reward_coef": 1.0},
    ),
    "rft": (PlainRft, {}),
    "sft": (PlainSft, {}),
    "reinforce_pp_baseline": (PlainReinforcePP, {"baseline": True}),
}
"""By registered name: the reference, and the options that the name stands for."""


def plain(name: str, **options: Any) -> PlainAlgorithm:
    """The reference of a registered algorithm."""
    kind, preset = REFERENCES[name]
    return kind(**(preset | options))


def _unnamed(row: Row) -> float:
    """What it got that no reward's name explains."""
    return row.total - sum(WEIGHTS[name] * score for name, score in row.earned.items())


def _spread(returns: Sequence[float]) -> bool:
    return max(returns) - min(returns) > 1e-9


def _earned(token: Token, factor: float, coefficient: float, estimator: str) -> float:
    """Its reward, with the process reward in it times `factor`, less the KL of the old policy, at an action."""
    tax = 0.0
    if coefficient and token.action:
        tax = coefficient * _kl(estimator, torch.tensor(token.old - token.reference, dtype=torch.float64)).item()
    return token.reward + (factor - 1) * token.process - tax


def _process_factor(rows: Sequence[Row], scale: float | None) -> float:
    """What brings the root mean square of the turns' process rewards to `scale`."""
    rewards = [token.process for row in rows for token in row.tokens if token.closes_turn]
    return 1.0 if scale is None else scale / math.sqrt(mean(reward**2 for reward in rewards))


def _whiten(tokens: Sequence[Token], shift: bool = True) -> None:
    numbers = [token.advantage for token in tokens]
    if len(numbers) < 2 or not _spread(numbers):
        centre, scale = 0.0, math.inf
    else:
        centre, scale = mean(numbers), math.sqrt(variance(numbers) + 1e-8)
    for token in tokens:
        token.advantage = (token.advantage - centre * shift) / scale


def _kl(estimator: str, difference: Tensor) -> Tensor:
    """Of log pi - log pi_ref at a token (Schulman, 2020)."""
    estimates = {"k1": difference, "k2": difference**2 / 2, "k3": torch.exp(-difference) - 1 + difference}
    return estimates[estimator]
