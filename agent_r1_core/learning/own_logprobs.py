"""OwnLogprobs: the policy's log-probs of action tokens before an update, for the run's files.

They come from passes that the update makes anyway, never from one more: the pass over the whole batch, where there is
one, else the gradient's passes over the first mini-batch, before the policy moves. Tokens that neither reached have
none: those of trajectories that were skipped, and of later mini-batches. Adapters with dropout say what they said in
that pass.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.packing import Packed
from agent_r1_core.learning.ranks import Ranks


class OwnLogprobs:
    """The log-probs of one update.

    Args:
        recorded: whether anybody wants them; else nothing is kept.
        forward: float [n, T], those of a pass over the whole batch, if there was one.
        loss_mask: bool [n, T], the tokens of that pass.
    """

    def __init__(self, batch: Batch, recorded: bool, forward: Tensor | None, loss_mask: Tensor) -> None:
        self._batch = batch
        self._forward = forward if recorded else None
        self._known = loss_mask if self._forward is not None else torch.zeros_like(loss_mask)
        self._open = recorded and forward is None
        self._taken: list[tuple[Packed, Tensor, Tensor]] = []
        """Of this rank's passes: the chosen tokens and their log-probs, which stay on their device until the end."""

    def take(self, packed: Packed, chosen: Tensor, logprobs: Tensor) -> None:
        """Keep what a pass of the gradient says, unless the policy has moved.

        Args:
            chosen: bool [packed tokens].
            logprobs: float [k], of the chosen tokens.
        """
        if self._open:
            self._taken.append((packed, chosen.nonzero().flatten(), logprobs.detach()))

    def close(self, rows: list[int], mask: Tensor) -> None:
        """The policy moves now; the ranks have made passes over the tokens of `mask`, bool [n, T], in these rows."""
        if self._open:
            self._open = False
            self._known[rows] = mask[rows]

    def padded(self, ranks: Ranks) -> Tensor:
        """float [n, T] on every rank, NaN where they are not known."""
        own = self._forward
        if own is None:
            own = torch.zeros(self._known.shape)
            for packed, at, logprobs in self._taken:
                packed.put(own, at, logprobs)
            ranks.add(own)
        return torch.where(self._known & self._batch.action_mask, own, math.nan)
