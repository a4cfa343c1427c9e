"""The critic: a value for the state before a token, from a network of its own.

It begins as a copy of the policy's decoder with a scalar head of zeros, so every value begins at 0.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping

import torch
from torch import Tensor, nn

from agent_r1_core.learning.decoder import Decoder
from agent_r1_core.learning.networks import ValueNetwork
from agent_r1_core.learning.packing import Packed
from agent_r1_core.learning.policy import Policy
from agent_r1_core.learning.ranks import ONE_RANK, Ranks
from agent_r1_core.learning.sharding import shard


class Critic:
    """A value network.

    Args:
        policy: gives the architecture and the first weights; its adapters are left out, the critic learns in full.
    """

    def __init__(self, policy: Policy) -> None:
        module = copy.deepcopy(policy.module)
        base = module.unload() if policy.lora else module  # type: ignore[operator]
        decoder = base.get_decoder().requires_grad_(True)  # type: ignore[operator]
        self.decoder = Decoder(decoder, policy.dtype, training_mode=policy.gradient_checkpointing)
        width = decoder.get_input_embeddings().embedding_dim
        self.head = nn.Linear(getattr(decoder.config, "hidden_size", width), 1).to(policy.device)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.ranks = ONE_RANK
        self._network = ValueNetwork(self.decoder, self.head)

    def shard(self, ranks: Ranks) -> None:
        """Leave this rank its share of the first rank's weights, where there are several ranks."""
        if ranks.share and not self.ranks.share:
            self.ranks = ranks
            shard(self._network, self.decoder, ranks)

    def parameters(self) -> Iterator[nn.Parameter]:
        """What learns."""
        return (parameter for _, parameter in self.named_parameters())

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """What learns, by name."""
        yield from self.decoder.module.named_parameters("decoder")
        yield from self.head.named_parameters("head")

    def values(self, packed: Packed, positions: Tensor) -> Tensor:
        """Value [k], float32, of the state after each of the packed positions: V before token t is read at t - 1
        (LAW 3).

        Args:
            positions: long [k], indices into the packed row, on the CPU.
        """
        values: Tensor = self._network(packed.tree, packed.place[positions])
        return values[:, 0]

    def state_dict(self) -> dict[str, Tensor]:
        """All weights themselves."""
        return {**self.decoder.module.state_dict(prefix="decoder."), **self.head.state_dict(prefix="head.")}

    def room(self, names: Iterable[str]) -> dict[str, Tensor]:
        """Tensors into which a state with these names can be read."""
        own = self.state_dict()
        return {name: torch.empty_like(own[name]) for name in names}

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Put back what `state_dict` gave."""
        for part, module in (("decoder.", self.decoder.module), ("head.", self.head)):
            own = {name.removeprefix(part): tensor for name, tensor in state.items() if name.startswith(part)}
            module.load_state_dict(own)
