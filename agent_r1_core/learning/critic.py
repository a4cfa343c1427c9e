"""The critic: a value for the state before a token, from a network of its own.

It begins as a copy of the policy's decoder with a scalar head of zeros, so every value begins at 0.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping

import torch
from torch import Tensor, nn

from agent_r1_core.devices import on_device
from agent_r1_core.learning.decoder import Decoder
from agent_r1_core.learning.packing import Packed, Tree
from agent_r1_core.learning.policy import Policy
from agent_r1_core.learning.ranks import ONE_RANK, Ranks


class Critic:
    """A value network; `policy` gives architecture and first weights, without adapters: the critic learns in full."""

    def __init__(self, policy: Policy) -> None:
        module = copy.deepcopy(policy.module)
        base = module.unload() if policy.lora else module  # type: ignore[operator]
        decoder = base.get_decoder().requires_grad_(True)  # type: ignore[operator]
        self.decoder = Decoder(decoder, policy.dtype, policy.gradient_checkpointing)
        width = decoder.get_input_embeddings().embedding_dim
        self.head = nn.Linear(getattr(decoder.config, "hidden_size", width), 1).to(policy.device)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.ranks = ONE_RANK
        self._network = _ValueNetwork(self.decoder, self.head)

    def shard(self, ranks: Ranks) -> None:
        """Leave this rank its share of the first rank's weights, where there are several ranks."""
        if ranks.share and not self.ranks.share:
            self.ranks = ranks
            self.decoder.shard(self._network, ranks)

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        return self._network.named_parameters()

    def values(self, packed: Packed, positions: Tensor) -> Tensor:
        """Value [k], float32, of the state after each of the packed positions: V before token t is read at t - 1
        (LAW 3).

        Args:
            positions: long [k], indices into the packed row, on the CPU.
        """
        values: Tensor = self._network(packed.tree, packed.place[positions])
        return values[:, 0]

    def state_dict(self) -> dict[str, Tensor]:
        return self._network.state_dict()

    def room(self, names: Iterable[str]) -> dict[str, Tensor]:
        """Tensors into which a state with these names can be read."""
        own = self.state_dict()
        return {name: torch.empty_like(own[name]) for name in names}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self._network.load_state_dict(state)


class _ValueNetwork(nn.Module):
    """A decoder and a scalar head with one forward pass: it alone puts parameters in shares together."""

    def __init__(self, decoder: Decoder, head: nn.Linear) -> None:
        super().__init__()
        self.decoder = decoder.module
        self.head = head
        self.hidden = decoder.hidden

    def forward(self, tree: Tree, at: Tensor) -> Tensor:
        """Values after computed tokens, float32 [k, 1].

        Args:
            at: long [k], which of them; on the CPU, as the tree is.
        """
        hidden = self.hidden(tree)
        values: Tensor = self.head(hidden[on_device(at, hidden.device)].float())
        return values
