"""What an algorithm's author may get wrong, as one sentence each: for the learner at run time and for contract tests.

Every update checks types, shapes and places, the first one also whether the loss scales with its weights. Whether
micro-batches add up and good actions become likelier, the contract tests alone can tell.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from agent_r1_core.contracts.algorithm import Algorithm
from agent_r1_core.errors import AgentR1Error, AlgorithmError
from agent_r1_core.learning.batch import Advantages, Batch
from agent_r1_core.learning.loss import LossTerms, LossTokens

_TOLERANCE = 1e-4
"""Relative; rounding is a thousandth of it."""


class CheckedAlgorithm:
    """Calls an algorithm's methods and checks what they return."""

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        self._critic = "critic" in algorithm.roles()
        self._weights_checked = False

    def advantages(self, batch: Batch, loss_mask: Tensor) -> Advantages:
        """The advantages of a batch, whose tokens in the policy's loss are those of `loss_mask`, bool [n, T].

        Raises:
            AlgorithmError: it raised, changed the batch, or returned another type, dtype or shape, a gradient, numbers
                outside the credited tokens, or numbers that are not finite although the batch's are.
        """
        before, who = _contents(batch), name_of(self._algorithm)
        with author_errors(self._algorithm, "advantages"):
            advantages: Any = self._algorithm.advantages(batch)
        _check_unchanged(f"{who} changed batch", before, _contents(batch))
        if not isinstance(advantages, Advantages):
            raise AlgorithmError(
                f"{who}: advantages returned {_type(advantages)}; return Advantages(tensor), the tensor of the shape "
                "of batch.ids"
            )
        if self._critic and advantages.value_targets is None:
            raise AlgorithmError(
                f"{who} has a critic, and its advantages come without value_targets, so that the critic would learn "
                "nothing; return Advantages(..., value_targets=...)"
            )
        _check_tensors(who, advantages, batch)
        credited = loss_mask if advantages.value_mask is None else loss_mask | advantages.value_mask
        if bool(advantages.advantages[~credited].any()):
            raise AlgorithmError(
                f"{who}: advantages are not 0 at tokens that the policy did not choose; set them only where "
                "batch.action_mask is true, as spread_over does (LAW 3)"
            )
        for name, value in advantages.metrics.items():
            if not isinstance(value, float | int):
                raise AlgorithmError(f"{who}: metric {name!r} of its Advantages is {_type(value)}; make it a float")
        if isinstance(advantages.warnings, str) or not all(isinstance(text, str) for text in advantages.warnings):
            raise AlgorithmError(f"{who}: the warnings of its Advantages must be a tuple of sentences")
        return advantages

    def loss(self, tokens: LossTokens) -> LossTerms:
        """The losses of a micro-batch.

        Raises:
            AlgorithmError: it raised, changed the tokens, or returned another type, a loss that is no scalar or has no
                gradient, or a metric that is no pair; or, as soon as it can be told, a loss is no sum of weight times
                token loss.
        """
        if not self._weights_checked:  # keep track of what is computed from the weights
            value_weights = tokens.value_weights
            tokens = replace(
                tokens,
                weights=tokens.weights.clone().requires_grad_(),
                value_weights=None if value_weights is None else value_weights.clone().requires_grad_(),
            )
        before, who = _versions(tokens), name_of(self._algorithm)
        with author_errors(self._algorithm, "loss"):
            terms: Any = self._algorithm.loss(tokens)
        _check_unchanged(f"{who} changed tokens", before, _versions(tokens))
        _check_terms(who, terms, tokens)
        if not self._weights_checked:
            self._weights_checked = _check_sum(who, "loss", terms.loss, "weights", tokens.weights)
            if terms.value_loss is not None and tokens.value_weights is not None:
                _check_sum(who, "value_loss", terms.value_loss, "value_weights", tokens.value_weights)
        checked: LossTerms = terms
        return checked


@contextmanager
def author_errors(algorithm: Algorithm, method: str) -> Iterator[None]:
    """Turn what an algorithm's own code raises into a sentence with the author's file and line.

    Raises:
        AlgorithmError: it raised anything but one of agent-r1's own errors.
    """
    try:
        yield
    except AgentR1Error:
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {error}".rstrip(": ")
        raise AlgorithmError(f"{name_of(algorithm)} raised in {method} ({_line(algorithm, error)}): {said}") from error


def _contents(batch: Batch) -> dict[str, Any]:
    """Copies of what a batch holds: its tensors' bytes, since numpy writes to them unseen, and what is trained and
    credited of its trajectories. It takes a small part of the time that laying the batch out took."""
    tensors = {name: value for name, value in vars(batch).items() if isinstance(value, Tensor)}
    trajectories = [
        (one.reward, [turn.reward for turn in one.turns], [(s.ids[:], s.mask[:], s.logprobs[:]) for s in one.segments])
        for one in batch.trajectories
    ]
    return {name: value.detach().cpu().numpy().tobytes() for name, value in tensors.items()} | {
        "trajectories": trajectories
    }


def _versions(tokens: LossTokens) -> dict[str, Any]:
    """How often each tensor was written to; free, also on a GPU, but blind to writes through `data` and `numpy`."""
    return {name: value._version for name, value in vars(tokens).items() if isinstance(value, Tensor)}


def _check_unchanged(what: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    for name in before | after:
        if before.get(name) != after.get(name):
            raise AlgorithmError(f"{what}.{name}; clone it before you change it")


def _check_terms(who: str, terms: Any, tokens: LossTokens) -> None:
    if not isinstance(terms, LossTerms):
        raise AlgorithmError(f"{who}: loss returned {_type(terms)}; return LossTerms(loss), the loss a scalar tensor")
    for name, loss in (("loss", terms.loss), ("value_loss", terms.value_loss)):
        if loss is not None and not (isinstance(loss, Tensor) and loss.ndim == 0):
            raise AlgorithmError(
                f"{who}: {name} of its LossTerms is {_type(loss)}; return a scalar tensor, the sum of weight times "
                "each token's loss"
            )
    if tokens.logprobs.requires_grad and not terms.loss.requires_grad:
        raise AlgorithmError(f"{who}: its loss has no gradient; compute it from tokens.logprobs without detaching them")
    if tokens.values is not None and terms.value_loss is None:
        raise AlgorithmError(
            f"{who} has a critic, and its loss comes without value_loss; return LossTerms(..., value_loss=...)"
        )
    for name, pair in terms.metrics.items():
        if not (isinstance(pair, tuple) and len(pair) == 2 and all(torch.as_tensor(one).ndim == 0 for one in pair)):
            raise AlgorithmError(
                f"{who}: metric {name!r} of its LossTerms is {_type(pair)}; return a pair of scalars, the sum and the "
                "number of tokens that it sums over, such as tokens.sum_of(values)"
            )


def _check_sum(who: str, name: str, loss: Tensor, field: str, weights: Tensor) -> bool:
    """Whether a loss could be shown to be a sum of w_t l_t; where all l_t are 0 it cannot.

    Such a sum is linear in w, so that its second derivative is 0, and without a constant, so that
    sum_t w_t dL/dw_t = L.
    """
    advice = f"return a sum of tokens.{field} times each token's loss, so that micro-batches add up (LAW 6)"
    slopes = second = None
    if loss.requires_grad:
        slopes = torch.autograd.grad(loss, weights, create_graph=True, allow_unused=True)[0]
    if slopes is None:
        raise AlgorithmError(f"{who}: its {name} does not depend on tokens.{field}; {advice}")
    if slopes.requires_grad:
        mixed = (slopes * torch.linspace(1, 2, len(slopes), device=slopes.device)).sum()
        second = torch.autograd.grad(mixed, weights, retain_graph=True, allow_unused=True)[0]
    weights, slopes = weights.detach().double(), slopes.detach().double()
    terms = weights * slopes
    scale = float(terms.abs().sum())
    excess = abs(float(terms.sum()) - float(loss.detach()))
    bend = 0.0 if second is None else float((second.double() * weights).abs().sum())
    if excess > _TOLERANCE * scale or bend > _TOLERANCE * float(slopes.abs().sum()):
        raise AlgorithmError(f"{who}: its {name} is not proportional to tokens.{field}; {advice}")
    return scale > 0


def _check_tensors(who: str, advantages: Advantages, batch: Batch) -> None:
    numbers = (batch.rewards, batch.old_logprobs, batch.reference_logprobs, batch.values, batch.bootstrap)
    sound = all(bool(torch.isfinite(tensor).all()) for tensor in numbers if tensor is not None)
    for name in ("advantages", "value_targets", "value_mask"):
        tensor = getattr(advantages, name)
        if tensor is None and name != "advantages":
            continue
        if not isinstance(tensor, Tensor) or tensor.shape != batch.ids.shape:
            raise AlgorithmError(
                f"{who}: {name} of its Advantages is {_type(tensor)} for a batch of {tuple(batch.ids.shape)}; return "
                "one number per token, in the shape of batch.ids"
            )
        sort = "bool" if name == "value_mask" else "float"
        if not (tensor.dtype == torch.bool if sort == "bool" else tensor.is_floating_point()):
            raise AlgorithmError(
                f"{who}: {name} of its Advantages must be {sort}, not {tensor.dtype}; convert it with .{sort}()"
            )
        if tensor.requires_grad:
            raise AlgorithmError(
                f"{who}: {name} of its Advantages carries a gradient, and it is a constant of the loss; detach it"
            )
        if sound and not bool(torch.isfinite(tensor).all()):
            raise AlgorithmError(
                f"{who}: {name} of its Advantages is not finite, although rewards, log-probs and values are; look for "
                "a division by zero"
            )


def name_of(algorithm: Algorithm) -> str:
    return f"algorithm {algorithm.name or type(algorithm).__name__}"


def _type(value: Any) -> str:
    return f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"


def _line(algorithm: Algorithm, error: Exception) -> str:
    """Where it was raised, or the author's line that led there."""
    frames = traceback.extract_tb(error.__traceback__)
    own = {
        function.__code__.co_filename
        for cls in type(algorithm).__mro__
        if not cls.__module__.startswith("agent_r1_core.")
        for function in vars(cls).values()
        if inspect.isfunction(function)
    }
    frame = next((frame for frame in reversed(frames) if frame.filename in own), frames[-1])
    return f"{frame.filename}, line {frame.lineno}"
