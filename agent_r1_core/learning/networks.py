"""Policy and critic as modules with one forward pass each: parameters that are in shares stand whole only within it."""

from __future__ import annotations

from torch import Tensor, nn

from agent_r1_core.learning.decoder import Decoder
from agent_r1_core.learning.head import Head
from agent_r1_core.learning.packing import Tree


class PolicyNetwork(nn.Module):
    """A decoder and its output embeddings.

    Args:
        module: holds both, and adapters if there are any.
    """

    def __init__(self, module: nn.Module, decoder: Decoder, head: Head) -> None:
        super().__init__()
        self.module = module
        self.decoder = decoder
        self.head = head

    def forward(
        self, tree: Tree, before: Tensor, ids: Tensor, temperature: float, entropy_gradient: bool
    ) -> tuple[Tensor, Tensor]:
        """Log-probs of ids, and entropies, float32 [k] each, nats.

        Args:
            before: long [k], the computed token before each id; on the CPU, as all here is.
            ids: long [k].
        """
        hidden = self.decoder.hidden(tree)
        device = hidden.device
        with self.decoder.precision():
            return self.head.logprobs(hidden[before.to(device)], ids.to(device), temperature, entropy_gradient)


class ValueNetwork(nn.Module):
    """A decoder and a scalar head."""

    def __init__(self, decoder: Decoder, head: nn.Linear) -> None:
        super().__init__()
        self.module = decoder.module
        self.decoder = decoder
        self.head = head

    def forward(self, tree: Tree, at: Tensor) -> Tensor:
        """Values after computed tokens, float32 [k, 1].

        Args:
            at: long [k], which of them; on the CPU, as the tree is.
        """
        hidden = self.decoder.hidden(tree)
        values: Tensor = self.head(hidden[at.to(hidden.device)].float())
        return values
