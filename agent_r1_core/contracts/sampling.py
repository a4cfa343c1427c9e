"""Sampling: how an action is sampled. Engine, rollout, learner and reports share this one object."""

from __future__ import annotations

from pydantic import Field

from agent_r1_core.contracts.component import ComponentConfig


class Sampling(ComponentConfig):
    """Options of sampling; every engine has them among its own."""

    temperature: float = Field(default=1.0, ge=0)
    """Temperature of training rollouts; log-probs are log softmax(logits / temperature) (LAW 2). 0: greedy; log-probs
    are then those of temperature 1."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Sample from the smallest set of likeliest ids whose probabilities reach this sum; 1: from all."""
    top_k: int = Field(default=0, ge=0)
    """Sample from this many of the likeliest ids; 0: from all."""
    max_new_tokens: int = Field(default=64, ge=1)
    """Most tokens in one action."""

    def greedy(self) -> Sampling:
        """Greedy sampling with the same budget."""
        return Sampling(temperature=0.0, max_new_tokens=self.max_new_tokens)

    def within(self, tokens: int) -> Sampling:
        """The same options with at most `tokens` new tokens.

        Raises:
            ValueError: `tokens` is below 1.
        """
        fields = self.model_dump()
        return Sampling(**fields | {"max_new_tokens": min(self.max_new_tokens, tokens)})
