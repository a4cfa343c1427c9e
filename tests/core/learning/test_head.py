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


def head_of(linear: nn.Module, **config: Any) -> Head:
    """A head with the options of an architecture's configuration."""
    model: Any = SimpleNamespace(get_output_embeddings=lambda: linear, config=SimpleNamespace(**config))
    return Head(model)


def by_the_book(linear: nn.Module, hidden: Tensor, ids: Tensor, factor: float) -> tuple[Tensor, Tensor]:
    table = torch.log_softmax(linear(hidden).float() * factor, -1)
    return table.gather(1, ids[:, None])[:, 0], -(table.exp() * table).sum(-1)


def gradients(outputs: tuple[Tensor, Tensor], leaves: list[Tensor], entropy: bool = False) -> list[Tensor]:
    """Of a weighted sum of the log-probs, and of the entropies under other weights where asked for."""
    pull = torch.linspace(-1.0, 2.0, TOKENS)
    loss = (outputs[0] * pull).sum()
    if entropy:
        loss = loss + (outputs[1] * pull.flip(0)).sum()
    return list(torch.autograd.grad(loss, leaves))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("config", "factor"), [({}, 1.0), ({"logit_scale": 0.3}, 0.3), ({"logits_scaling": 4.0}, 0.25)]
)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("entropy", [False, True])
def test_it_is_the_formula(
    bias: bool, config: dict[str, float], factor: float, precision: str, entropy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(head._CHUNK, "cpu", 64 * VOCABULARY)
    torch.manual_seed(0)
    linear = nn.Linear(WIDTH, VOCABULARY, bias=bias)
    hidden = torch.randn(TOKENS, WIDTH, requires_grad=True)
    ids = torch.randint(VOCABULARY, (TOKENS,))
    leaves = [hidden, *linear.parameters()]
    low = precision == "bfloat16"
    with torch.autocast("cpu", torch.bfloat16) if low else nullcontext():
        own = head_of(linear, **config).logprobs(hidden, ids, 0.7, entropy)
        expected = by_the_book(linear, hidden, ids, factor / 0.7)
    tolerance = {"rtol": 2e-2, "atol": 3e-2} if low else {"rtol": 1e-5, "atol": 1e-5}
    for value, right in zip(own, expected, strict=True):
        torch.testing.assert_close(value, right, **tolerance)
    assert own[1].requires_grad == entropy
    for gradient, right in zip(gradients(own, leaves, entropy), gradients(expected, leaves, entropy), strict=True):
        assert (gradient - right).norm() <= (1e-2 if low else 1e-5) * right.norm()


@pytest.mark.parametrize("temperature", [1.0, 2.0])
@pytest.mark.parametrize("chunk", [2**24, 1])
def test_capped_logits_keep_to_autograd(chunk: int, temperature: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(head._CHUNK, "cpu", chunk)
    linear = nn.Linear(WIDTH, VOCABULARY, bias=False)
    hidden = torch.randn(TOKENS, WIDTH, requires_grad=True)
    ids = torch.randint(VOCABULARY, (TOKENS,))
    capped = head_of(linear, final_logit_softcapping=0.5)
    table = torch.log_softmax(0.5 * torch.tanh(linear(hidden) / 0.5) / temperature, -1)
    expected = table.gather(1, ids[:, None])[:, 0], -(table.exp() * table).sum(-1)
    assert not capped.logprobs(hidden, ids, temperature)[1].requires_grad
    for entropy in (False, True):
        (own,) = gradients(capped.logprobs(hidden, ids, temperature, entropy), [hidden], entropy)
        (right,) = torch.autograd.grad(
            (expected[0] * torch.linspace(-1.0, 2.0, TOKENS)).sum()
            + entropy * (expected[1] * torch.linspace(2.0, -1.0, TOKENS)).sum(),
            [hidden],
            retain_graph=True,
        )
        torch.testing.assert_close(own, right)


def test_an_id_of_probability_zero_adds_nothing_to_the_gradient_of_the_entropy() -> None:
    """A bias of -inf rules an id out, as vocabularies padded with unused rows do."""
    linear = nn.Linear(WIDTH, VOCABULARY)
    with torch.no_grad():
        linear.bias[3] = float("-inf")
    hidden = torch.randn(TOKENS, WIDTH, requires_grad=True)
    ids = torch.randint(4, VOCABULARY, (TOKENS,))
    (own,) = gradients(head_of(linear).logprobs(hidden, ids, 1.0, True), [hidden], True)
    allowed = [index for index in range(VOCABULARY) if index != 3]
    table = torch.log_softmax(linear(hidden)[:, allowed], -1)
    book = table.gather(1, ids[:, None] - 1)[:, 0], -(table.exp() * table).sum(-1)
    (right,) = gradients(book, [hidden], True)
    torch.testing.assert_close(own, right)
