"""A whole update from the formulas: log-probs, advantages, losses, gradients, clipping, AdamW; one sequence at a time.

Nothing is saved, shared or skipped: a mini-batch is a loop over its rows. Gradients come from torch's autograd.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import mean
from typing import TYPE_CHECKING, Any

import torch
from plain_algorithms import PlainAlgorithm
from plain_model import Shape, Weights, in_float64, logprobs, values
from plain_tokens import Row, Token, rows_of
from torch import Tensor

from agent_r1_core.trajectory import Group

if TYPE_CHECKING:
    from real_learner import Run

Gradients = dict[str, Tensor]

SETTINGS: dict[str, Any] = {
    "steps": 30,
    "epochs": 1,
    "minibatches": 1,
    "lr": 2e-4,
    "critic_lr": None,
    "critic_warmup": 0,
    "weight_decay": 0.0,
    "betas": (0.9, 0.95),
    "adam_eps": 1e-8,
    "max_grad_norm": 1.0,
    "warmup_steps": 0,
    "schedule": "constant",
    "importance_clip": None,
    "mismatch_mask": None,
    "mismatch_low": None,
    "mismatch_high": None,
    "old_logprobs": "auto",
    "max_staleness": 0,
    "staleness_correction": "decoupled",
}
"""Defaults of the settings that mean something in a formula."""
MASKS = {"icepop": (0.5, 5.0), "sequence": (0.0, 3.0), "geometric": (0.99, 1.01), "off_policy": (math.exp(-0.5), 1e9)}
"""Between which the masks keep a ratio of learner and sampler."""


@dataclass
class AdamW:
    """Decoupled weight decay (1711.05101), after scaling the gradient down to a norm."""

    weights: Weights
    lr: float
    settings: dict[str, Any]
    steps: int = 0
    first: dict[str, Tensor] = field(default_factory=dict)
    second: dict[str, Tensor] = field(default_factory=dict)
    clipped: bool = False

    @torch.no_grad()
    def step(self, gradients: Gradients, factor: float) -> None:
        norm = math.sqrt(sum(float((gradient**2).sum()) for gradient in gradients.values()))
        if norm == 0.0:
            return
        bound = self.settings["max_grad_norm"]
        scale = bound / norm if 0 < bound < norm else 1.0
        self.clipped = self.clipped or scale < 1.0
        self.steps += 1
        decay, eps, (beta1, beta2) = (self.settings[key] for key in ("weight_decay", "adam_eps", "betas"))
        lr = self.lr * factor
        for name, weight in self.weights.items():
            gradient = gradients[name] * scale
            self.first[name] = beta1 * self.first.get(name, torch.zeros_like(weight)) + (1 - beta1) * gradient
            self.second[name] = beta2 * self.second.get(name, torch.zeros_like(weight)) + (1 - beta2) * gradient**2
            average = self.first[name] / (1 - beta1**self.steps)
            square = self.second[name] / (1 - beta2**self.steps)
            weight -= lr * decay * weight
            weight -= lr * average / (torch.sqrt(square) + eps)


class Network:
    """Weights that learn, and what is known of their steps.

    AdamW's first steps blow up rounding: a weight whose gradient is nothing but rounding moves as far as any other.
    So gradients are taken where the learner stood (`trail`, its weights before each of its steps), and AdamW moves
    weights of its own, which are compared with the learner's at the end.
    """

    def __init__(self, weights: Mapping[str, Tensor], trail: Sequence[Mapping[str, Tensor]], lr: float, settings: Any):
        self.weights = in_float64(weights)
        self.adamw = AdamW(in_float64(weights), lr, settings)
        self.gradients: list[Gradients] = []
        self._trail = trail

    def learn(self, loss: Tensor, factor: float) -> None:
        parts = torch.autograd.grad(loss, list(self.weights.values()), allow_unused=True, materialize_grads=True)
        self.gradients.append(dict(zip(self.weights, parts, strict=True)))
        self.adamw.step(self.gradients[-1], factor)

    def follow(self) -> None:
        """Go to where the learner stands before its next step, if it takes one."""
        if len(self.gradients) < len(self._trail):
            self.weights = in_float64(self._trail[len(self.gradients)])


class PlainLearner:
    """The reference of the learner."""

    def __init__(
        self, algorithm: PlainAlgorithm, shape: Shape, run: Run, temperature: float, seed: int, settings: dict[str, Any]
    ) -> None:
        self.algorithm, self.shape, self.temperature, self.seed = algorithm, shape, temperature, seed
        self.settings = SETTINGS | settings
        lr = self.settings["lr"]
        self.policy = Network(run.policy.before, run.policy.trail, lr, self.settings)
        self.critic = Network(run.critic.before, run.critic.trail, self.settings["critic_lr"] or lr, self.settings)
        self.reference = in_float64(run.reference)
        self.active = algorithm.active

    def update(self, groups: Sequence[Group], step: int) -> None:
        """Learn from a rollout; gradients of every mini-batch are kept."""
        every = rows_of(groups)
        kept = self.algorithm.keeps([[r.total for r in every if r.group == n] for n in range(len(groups))])
        if self.algorithm.greedy:
            kept = [taken and group.baseline is not None for group, taken in zip(groups, kept, strict=True)]
        rows = self.algorithm.chosen(rows_of([group for group, taken in zip(groups, kept, strict=True) if taken]))
        self.policy.follow()
        self.critic.follow()
        self._score(rows)
        self.algorithm.advantages(rows)
        self._entropies: list[float] = []
        several = self.settings["epochs"] * self.settings["minibatches"] > 1
        for epoch in range(self.settings["epochs"]):
            for batch in self._minibatches(rows, step, epoch):
                self._minibatch(batch, step, fixed_old=several or self.algorithm.needs_old())
        if self._entropies:
            self.algorithm.adapt(self._entropies)
        for name, network in (("policy_norm", self.policy), ("critic_norm", self.critic)):
            if network.adamw.clipped:
                self.active.add(name)

    def _minibatches(self, rows: list[Row], step: int, epoch: int) -> list[list[Row]]:
        """Shuffled by run, step and pass, cut as equally as can be; a single one needs no order."""
        count = min(self.settings["minibatches"], len(rows))
        rows = list(rows)
        if count > 1:
            random.Random(f"{self.seed}/{step}/{epoch}").shuffle(rows)
        return [rows[len(rows) * k // count : len(rows) * (k + 1) // count] for k in range(count)]

    @torch.no_grad()
    def _score(self, rows: list[Row]) -> None:
        """Log-probs before the update, the reference's, values and bootstraps."""
        for row in rows:
            old = self._logprobs(self.policy.weights, row)[0]
            reference = self._logprobs(self.reference, row)[0] if self.algorithm.needs_reference() else old
            if self.algorithm.options.get("hint"):
                reference = self._told(row)
            value = self._values(row) if self.algorithm.critic else old
            for token, a, b, c in zip(row.tokens, old, reference, value, strict=False):
                token.old = token.sampler if self.settings["old_logprobs"] == "engine" else float(a)
                token.reference, token.value = float(b), float(c)
            if self.algorithm.critic and row.bootstraps:
                row.bootstrap = float(value[-1])

    def _minibatch(self, rows: list[Row], step: int, fixed_old: bool) -> None:
        learns = not self.algorithm.critic or step > self.settings["critic_warmup"]
        self.policy.follow()
        self.critic.follow()
        loss = torch.zeros((), dtype=torch.float64)
        value_loss = torch.zeros((), dtype=torch.float64)
        observed = sum(not token.action for row in rows for token in row.responses)
        value_count = sum(len(self.algorithm.value_tokens(row)) for row in rows)
        for row, weight in zip(rows, self.algorithm.weights(rows), strict=True):
            now, entropies = self._logprobs(self.policy.weights, row)
            at = {id(token): place for place, token in enumerate(row.tokens)}
            tokens = self.algorithm.loss_tokens(row)
            plain_advantages = [token.advantage for token in tokens]
            for token in tokens:
                if not fixed_old or self._truncates() or self._compares_with_sampler():
                    token.old = now[at[id(token)]].item()
            actions = [token for token in tokens if token.action]
            self._leave_out(actions, [now[at[id(token)]].item() for token in actions])
            self._weigh(actions)
            places = [at[id(token)] for token in tokens]
            own = self.algorithm.loss(tokens, [now[place] for place in places], [entropies[place] for place in places])
            loss = loss + weight * own
            self._entropies += [entropies[at[id(token)]].item() for token in row.actions if learns]
            for token in row.responses if self.algorithm.observation_coef else []:
                if not token.action:  # ECHO (2605.24517)
                    loss = loss - self.algorithm.observation_coef * now[at[id(token)]] / observed
            for token, advantage in zip(tokens, plain_advantages, strict=True):
                token.advantage = advantage
            if self.algorithm.critic:
                value = self._values(row)
                for token in self.algorithm.value_tokens(row):
                    value_loss = value_loss + self.algorithm.value_loss(token, value[at[id(token)]]) / value_count
        if learns:
            waited = self.settings["critic_warmup"] if self.algorithm.critic else 0
            self.policy.learn(loss, self._factor(step - waited, self.settings["steps"] - waited))
        if self.algorithm.critic:
            self.critic.learn(value_loss, self._factor(step, self.settings["steps"]))

    def _truncates(self) -> bool:
        """Whether the policy of each pass is compared with the one that sampled, and clipped against itself."""
        return bool(self.settings["max_staleness"]) and self.settings["staleness_correction"] == "truncated"

    def _compares_with_sampler(self) -> bool:
        """Whether the loss itself does (DPPO)."""
        return self.algorithm.options.get("objective") == "dppo"

    def _leave_out(self, actions: Sequence[Token], now: Sequence[float]) -> None:
        """Take the advantage of those of one trajectory's actions that learner and sampler disagree about."""
        mask = self.settings["mismatch_mask"]
        if mask is None:
            return
        low, high = MASKS[mask]
        low, high = self.settings["mismatch_low"] or low, self.settings["mismatch_high"] or high
        learner = now if mask == "off_policy" else [token.old for token in actions]
        ratios = [math.exp(own - token.sampler) for own, token in zip(learner, actions, strict=True)]
        for token, ratio in zip(actions, ratios, strict=True):
            together = [other for other, one in zip(ratios, actions, strict=True) if one.segment == token.segment]
            of_segment = {"sequence": math.prod(together)}.get(mask, math.prod(together) ** (1 / len(together)))
            inside = low <= (ratio if mask == "icepop" else of_segment) <= high
            if inside or (mask == "off_policy" and token.advantage >= 0):
                self.active.add("kept" if inside else "kept_positive")
            else:
                self.active.add("left_out")
                token.advantage = 0.0

    def _weigh(self, actions: Sequence[Token]) -> None:
        """Weigh the advantages of one trajectory's actions; where its ratio is one for all, by the geometric mean, and
        where it is one for each turn, by the turn's."""
        if self._compares_with_sampler():
            for token in actions:
                token.old = token.sampler
            return
        differences = [token.old - token.sampler for token in actions]
        ratio = self.algorithm.options.get("ratio", "token")
        for token, difference in zip(actions, differences, strict=True):
            token.importance = self._importance(difference)
            together = [
                d for d, one in zip(differences, actions, strict=True) if ratio == "sequence" or one.turn == token.turn
            ]
            token.advantage *= token.importance if ratio == "token" else self._importance(mean(together))

    def _importance(self, difference: float) -> float:
        """Truncated importance weight of what another distribution sampled."""
        bound = self.settings["importance_clip"]
        if bound is None and self.settings["max_staleness"]:
            bound = 2.0
        if bound is None:
            return 1.0
        self.active.add("importance_bound" if math.exp(difference) > bound else "importance_weight")
        return min(math.exp(difference), bound)

    def _factor(self, step: int, steps: int) -> float:
        """Of the learning rate: a line up, then constant, a line down, or half a cosine, to 0 after the last step."""
        warmup, schedule = self.settings["warmup_steps"], self.settings["schedule"]
        if step <= warmup:
            return step / warmup
        progress = (step - warmup - 1) / (steps - warmup)
        return {"constant": 1.0, "linear": 1 - progress, "cosine": (1 + math.cos(math.pi * progress)) / 2}[schedule]

    def _told(self, row: Row) -> Tensor:
        """Per token what its teacher finds, who knows the hint; only actions count."""
        weights = self.reference if self.algorithm.needs_reference() else self.policy.weights
        if not row.hinted:
            return self._logprobs(weights, row)[0]
        self.active.add("hint")
        first, *others = row.segments
        begun = next(token.place for token in row.tokens if token.action)
        told = self._logprobs(weights, replace(row, segments=[row.hinted + first[begun:], *others]))[0]
        return torch.cat([torch.zeros(begun, dtype=torch.float64), told[len(row.hinted) :]])

    def _logprobs(self, weights: Weights, row: Row) -> tuple[Tensor, Tensor]:
        """Per token of the row; 0 at the first of a segment, which nothing predicts."""
        nothing = torch.zeros(1, dtype=torch.float64)
        pairs = [logprobs(weights, self.shape, ids, self.temperature) for ids in row.segments]
        return tuple(torch.cat([part for pair in pairs for part in (nothing, pair[k])]) for k in (0, 1))  # type: ignore[return-value]

    def _values(self, row: Row) -> Tensor:
        """Per token of the row the value of the state before it, and one more: that after the last id."""
        before, after = [], torch.zeros(1, dtype=torch.float64)
        for ids in row.segments:
            value = values(self.critic.weights, self.shape, ids)
            before += [torch.zeros(1, dtype=torch.float64), value[:-1]]
            after = value[-1:]
        return torch.cat([*before, after])
