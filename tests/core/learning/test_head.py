"""Log-probs and their gradients without a graph of logits equal those that autograd makes of the formula."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from agent_r1_core.learning import head
from agent_r1_core.learning.head import Head

TOKENS, WIDTH, VOCABULARY = 150, 12, 37


def head_of(linear: nn.Module, **config: Any) -> Head:
    """A head with the options of an architecture's configuration."""
    model: Any = SimpleNamespace(get_output_embeddings=lambda: linear, config=SimpleNamespace(**config))
    return Head(model)


def by_the_book(logits: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    table = torch.log_softmax(logits, -1)
    return table.gather(1, ids[:, None])[:, 0], -(table.exp() * table).sum(-1)


def gradients(outputs: tuple[Tensor, Tensor], leaves: list[Tensor], entropy: bool = False) -> list[Tensor]:
    """Of a weighted sum of the log-probs, and of the entropies under other weights where asked for."""
    pull = torch.linspace(-1.0, 2.0, TOKENS)
    loss = (outputs[0] * pull).sum()
    if entropy:
        loss = loss + (outputs[1] * pull.flip(0)).sum()
    return list(torch.autograd.grad(loss, leaves))


@pytest.mark.parametrize("chunk", [64, TOKENS], ids=["in chunks", "whole"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("config", "of_model"),
    [
        ({}, lambda logits: logits),
        ({"logit_scale": 0.3}, lambda logits: 0.3 * logits),
        ({"logits_scaling": 4.0}, lambda logits: logits / 4.0),
        ({"final_logit_softcapping": 0.5}, lambda logits: 0.5 * torch.tanh(logits / 0.5)),
    ],
    ids=["plain", "scaled", "scaled down", "capped"],
)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("entropy", [False, True])
def test_it_is_the_formula(
    chunk: int,
    bias: bool,
    config: dict[str, float],
    of_model: Callable[[Tensor], Tensor],
    precision: str,
    entropy: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(head._CHUNK, "cpu", chunk * VOCABULARY)
    torch.manual_seed(0)
    linear = nn.Linear(WIDTH, VOCABULARY, bias=bias)
    hidden = torch.randn(TOKENS, WIDTH, requires_grad=True)
    ids = torch.randint(VOCABULARY, (TOKENS,))
    leaves = [hidden, *linear.parameters()]
    low = precision == "bfloat16"
    with torch.autocast("cpu", torch.bfloat16) if low else nullcontext():
        own = head_of(linear, **config).logprobs(hidden, ids, 0.7, entropy)
        expected = by_the_book(of_model(linear(hidden).float()) / 0.7, ids)
    tolerance = {"rtol": 2e-2, "atol": 3e-2} if low else {"rtol": 1e-5, "atol": 1e-5}
    for value, right in zip(own, expected, strict=True):
        torch.testing.assert_close(value, right, **tolerance)
    assert own[1].requires_grad == entropy
    for gradient, right in zip(gradients(own, leaves, entropy), gradients(expected, leaves, entropy), strict=True):
        assert (gradient - right).norm() <= (1e-2 if low else 1e-5) * right.norm()


def test_an_id_of_probability_zero_adds_nothing_to_the_gradient_of_the_entropy() -> None:
    """A bias of -inf rules an id out, as vocabularies padded with unused rows do."""
    linear = nn.Linear(WIDTH, VOCABULARY)
    with torch.no_grad():
        linear.bias[3] = float("-inf")
    hidden = torch.randn(TOKENS, WIDTH, requires_grad=True)
    ids = torch.randint(4, VOCABULARY, (TOKENS,))
    (own,) = gradients(head_of(linear).logprobs(hidden, ids, 1.0, True), [hidden], True)
    allowed = [index for index in range(VOCABULARY) if index != 3]
    (right,) = gradients(by_the_book(linear(hidden)[:, allowed], ids - 1), [hidden], True)
    torch.testing.assert_close(own, right)
