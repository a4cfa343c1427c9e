"""One network's AdamW step: clipped, refused when its gradient is not finite, left out when it is zero.

The learning rate is a pure function of the step: nothing to save, nothing to lose on resume.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from agent_r1_core.contracts.metric import Metric
from agent_r1_core.contracts.training import Schedule, TrainingConfig
from agent_r1_core.learning.meter import Meter
from agent_r1_core.learning.ranks import whole
from agent_r1_core.metrics import declared as metric

_COUNT = "/step"
"""How AdamW ends the name of a count; all else that it keeps has the shape of the parameter."""


class Reports(NamedTuple):
    steps: Metric
    lr: Metric
    grad_norm: Metric
    skipped_nonfinite: Metric
    skipped_zero: Metric


OF_POLICY = Reports(
    *(metric.UPDATE_STEPS, metric.UPDATE_LR, metric.UPDATE_GRAD_NORM),
    *(metric.UPDATE_SKIPPED_NONFINITE, metric.UPDATE_SKIPPED_ZERO),
)
OF_CRITIC = Reports(
    *(metric.CRITIC_STEPS, metric.CRITIC_LR, metric.CRITIC_GRAD_NORM),
    *(metric.CRITIC_SKIPPED_NONFINITE, metric.CRITIC_SKIPPED_ZERO),
)


class Optimiser:
    """AdamW (arXiv 1711.05101) over float32 weights.

    Args:
        parameters: with their names, by which their moments are saved.
        lr: the peak learning rate.
        reports: the names of its metrics.
        waits: steps of the run before the network's first one; its schedule begins after them.
    """

    def __init__(
        self,
        parameters: Iterable[tuple[str, nn.Parameter]],
        lr: float,
        settings: TrainingConfig,
        reports: Reports,
        waits: int = 0,
    ) -> None:
        self.by_name = dict(parameters)
        self.parameters = list(self.by_name.values())
        self.lr = lr
        self.reports = reports
        self.settings = settings
        self.waits = waits
        self.adamw = torch.optim.AdamW(
            self.parameters,
            lr=lr,
            betas=settings.betas,
            eps=settings.adam_eps,
            weight_decay=settings.weight_decay,
            fused=True,
        )

    def clear(self) -> None:
        self.adamw.zero_grad(set_to_none=True)

    def step(self, step: int, meter: Meter) -> None:
        """Move the weights by the gradients that have been added up, at the learning rate of the run's `step`.

        A gradient that is not finite takes no step: it would destroy the weights. Neither does one of zero: there
        momentum alone would move them, without any evidence.
        """
        settings, waits = self.settings, self.waits
        lr = self.lr * lr_factor(step - waits, settings.steps - waits, settings.warmup_steps, settings.schedule)
        bound = settings.max_grad_norm if settings.max_grad_norm > 0 else float("inf")
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        total = whole(torch.nn.utils.get_total_norm(gradients))
        torch.nn.utils.clip_grads_with_norm_(self.parameters, bound, total)
        norm = float(total)
        finite = math.isfinite(norm)
        taken = finite and norm > 0
        if taken:
            for group in self.adamw.param_groups:
                group["lr"] = lr
            self.adamw.step()
            meter.add(self.reports.grad_norm, norm, 1.0)
        meter.add(self.reports.lr, lr, 1.0)
        meter.add(self.reports.steps, float(taken))
        meter.add(self.reports.skipped_nonfinite, float(not finite))
        meter.add(self.reports.skipped_zero, float(finite and norm == 0))
        self.clear()

    def state_dict(self) -> dict[str, Tensor]:
        """The moments themselves, and counts of steps, by `<parameter>/<kind>`; a parameter that never had a gradient
        has none."""
        moments = {name: self.adamw.state.get(parameter, {}) for name, parameter in self.by_name.items()}
        return {f"{name}/{kind}": tensor for name, kinds in moments.items() for kind, tensor in kinds.items()}

    def room(self, names: Iterable[str]) -> dict[str, Tensor]:
        """Tensors into which a state with these names can be read."""
        owners = {name: self.by_name[name.rpartition("/")[0]].detach() for name in names}
        return {
            name: torch.zeros((), device=owner.device) if name.endswith(_COUNT) else torch.empty_like(owner)
            for name, owner in owners.items()
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Put back what `state_dict` gave; the tensors become the optimiser's own."""
        self.adamw.state.clear()
        for name, tensor in state.items():
            parameter, _, kind = name.rpartition("/")
            self.adamw.state[self.by_name[parameter]][kind] = tensor


def lr_factor(step: int, steps: int, warmup_steps: int, schedule: Schedule) -> float:
    """Factor of the learning rate in (0, 1] at `step`, which counts from 1: step / warmup_steps during the warm-up,
    then 1, or a line or half a cosine from 1 towards 0, which step `steps + 1` would reach."""
    if step <= warmup_steps:
        return max(step, 1) / warmup_steps
    if schedule == "constant":
        return 1.0
    progress = (step - 1 - warmup_steps) / max(1, steps - warmup_steps)
    progress = min(max(progress, 0.0), 1.0)
    return 1.0 - progress if schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * progress))
