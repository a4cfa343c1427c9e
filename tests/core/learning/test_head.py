"""Log-probs and their gradients without a graph of logits equal those that autograd makes of the formula."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from agent_r1_core.learning import head
from agent_r1_core.learning.head import Head

TOKENS, WIDTH, VOCABULARY = 150, 12, 37


def made(linear: nn.Module, **config: Any) -> Head:
    """A head with the options of an architecture's configuration."""
    model: Any = SimpleNamespace(get_output_embeddings=lambda: linear, config=SimpleNamespace(**config))
    return Head(model)


def by_the_book(linear: nn.Module, hidden: Tensor, ids: Tensor, factor: float) -> tuple[Tensor, Tensor]:
    table = torch.log_softmax(linear(hidden).float() * factor, -1)
    return table.gather(1, ids[:, None])[:, 0], -(table.exp() * table).sum(-1)


def gradients(scores: tuple[Tensor, Tensor], leaves: list[Tensor]) -> list[Tensor]:
    pull = torch.linspace(-1.0, 2.0, TOKENS)
    return list(torch.autograd.grad((scores[0] * pull).sum(), leaves))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("config", "factor"), [({}, 1.0), ({"logit_scale": 0.3}, 0.3), ({"logits_scaling": 4.0}, 0.25)]
)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_it_is_the_formula(
    bias: bool, config: dict[str, float], factor: float, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head, "_CHUNK", 64 * VOCABULARY)
    torch.manual_seed(0)
    linear = nn.Linear(WIDTH, VOCABULARY, bias=bias)
    hidden = torch.randn(TOKENS, WIDTH, requires_grad=True)
    ids = torch.randint(VOCABULARY, (TOKENS,))
    leaves = [hidden, *linear.parameters()]
    low = precision == "bfloat16"
    with torch.autocast("cpu", torch.bfloat16) if low else nullcontext():
        found = made(linear, **config).scores(hidden, ids, 0.7)
        expected = by_the_book(linear, hidden, ids, factor / 0.7)
    tolerance = {"rtol": 2e-2, "atol": 3e-2} if low else {"rtol": 1e-5, "atol": 1e-5}
    for own, right in zip(found, expected, strict=True):
        torch.testing.assert_close(own, right, **tolerance)
    assert not found[1].requires_grad
    for own, right in zip(gradients(found, leaves), gradients(expected, leaves), strict=True):
        assert (own - right).norm() <= (1e-2 if low else 1e-5) * right.norm()


def test_frozen_weights_get_no_gradient() -> None:
    linear = nn.Linear(WIDTH, VOCABULARY, bias=False).requires_grad_(False)
    hidden = torch.randn(TOKENS, WIDTH, requires_grad=True)
    ids = torch.randint(VOCABULARY, (TOKENS,))
    (own,) = gradients(made(linear).scores(hidden, ids, 1.0), [hidden])
    (right,) = gradients(by_the_book(linear, hidden, ids, 1.0), [hidden])
    torch.testing.assert_close(own, right)
    assert linear.weight.grad is None


def test_capped_logits_keep_to_autograd() -> None:
    linear = nn.Linear(WIDTH, VOCABULARY, bias=False)
    hidden = torch.randn(TOKENS, WIDTH, requires_grad=True)
    ids = torch.randint(VOCABULARY, (TOKENS,))
    capped = made(linear, final_logit_softcapping=0.5)
    (own,) = gradients(capped.scores(hidden, ids, 1.0), [hidden])
    table = torch.log_softmax(0.5 * torch.tanh(linear(hidden) / 0.5), -1)
    (right,) = gradients((table.gather(1, ids[:, None])[:, 0], table), [hidden])
    torch.testing.assert_close(own, right)
