"""LearnerState: all that an exact resume of a learner needs beside the policy's folder, as tensors by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor

from agent_r1_core.errors import ConfigError
from agent_r1_core.learning.critic import Critic
from agent_r1_core.learning.optimiser import Optimiser
from agent_r1_core.learning.policy import Policy


class LearnerState:
    """The tensors of whoever keeps a state, under that one's name; of several ranks each has its share.

    Args:
        critic: None: the algorithm needs none, nor its optimiser.
    """

    def __init__(
        self, policy: Policy, optimiser: Optimiser, critic: Critic | None, critic_optimiser: Optimiser | None
    ) -> None:
        self._parts: dict[str, Policy | Critic | Optimiser] = {"policy": policy, "optimiser": optimiser}
        if critic is not None and critic_optimiser is not None:
            self._parts |= {"critic": critic, "critic_optimiser": critic_optimiser}

    def tensors(self) -> dict[str, Tensor]:
        """The tensors themselves, by names such as `optimiser/model.norm.weight/exp_avg`."""
        parts = {part: holder.state_dict() for part, holder in self._parts.items()}
        return {f"{part}/{name}": tensor for part, state in parts.items() for name, tensor in state.items()}

    def room(self, names: Iterable[str]) -> dict[str, Tensor]:
        """Tensors into which a state with these names can be read, for `load`.

        Raises:
            ConfigError: the state is of an algorithm with other roles.
            ModelError: its adapters are of other LoRA options.
            KeyError: it is of another model.
        """
        parts = {part: self._parts[part].room(inner) for part, inner in self._by_part(names).items()}
        return {f"{part}/{name}": tensor for part, room in parts.items() for name, tensor in room.items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Put back what `tensors` gave, bit for bit; the optimiser's tensors become its own.

        Raises:
            ConfigError: the state is of an algorithm with other roles.
            ModelError: its adapters are of other LoRA options.
        """
        wanted = self._by_part(state)
        for part, holder in self._parts.items():
            holder.load_state_dict({name: state[f"{part}/{name}"] for name in wanted[part]})

    def _by_part(self, names: Iterable[str]) -> dict[str, list[str]]:
        """The names of a state without their first word, by that word."""
        split: dict[str, list[str]] = {part: [] for part in self._parts}
        for part, _, inner in (name.partition("/") for name in names):
            split.setdefault(part, []).append(inner)
        if bool(split.get("critic")) != ("critic" in self._parts):
            raise ConfigError(
                f"the checkpoint was written {'with' if split.get('critic') else 'without'} a critic and this learner "
                f"has {'one' if 'critic' in self._parts else 'none'}; resume with the algorithm of the run"
            )
        return split
