"""RaySite: a run whose roles are workers of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import ray
import torch

from agent_r1_core.distributed.cluster import Cluster, Placement, connected
from agent_r1_core.distributed.learner import RayLearner
from agent_r1_core.distributed.rollouts import RayRollouts
from agent_r1_core.distributed.spec import WorkerSpec
from agent_r1_core.errors import ConfigError
from agent_r1_core.training.components import make_learner
from agent_r1_core.training.hardware import Hardware, choose_hardware
from agent_r1_core.training.in_process import LocalLearner

if TYPE_CHECKING:
    from pathlib import Path

    from agent_r1_core.config import ResolvedConfig
    from agent_r1_core.config.models import DistributedConfig
    from agent_r1_core.training.blueprint import Blueprint
    from agent_r1_core.training.roles import LearnerRole, Rollouts


class RaySite:
    """Where the roles of a run are: on a cluster."""

    def __init__(self, settings: DistributedConfig, cluster: Cluster, note: Callable[[str], None]) -> None:
        self._settings, self._cluster, self._note = settings, cluster, note
        self._placement = Placement(settings, cluster)

    def hardware(self, resolved: ResolvedConfig, dtype: str, folder: Path) -> Hardware:
        """Device, precision and threads of every worker.

        Raises:
            ConfigError: one role has GPUs, and the other none.
        """
        config, placement = resolved.config, self._placement
        gpus = placement.play_gpus, placement.learn_gpus if placement.learners else float(torch.cuda.is_available())
        if any(gpus) and config.model.device != "cpu" and not config.deterministic:
            if not all(gpus):
                raise ConfigError(
                    f"a rollout worker has {gpus[0]:g} GPUs and the learner {gpus[1]:g}, but both compute on the same "
                    "kind of device; give GPUs to both, or set model.device=cpu"
                )
            return Hardware("cuda", "bfloat16" if dtype == "auto" else dtype, placement.threads)
        threads = placement.threads if config.threads == "auto" and not config.deterministic else config.threads
        return choose_hardware("cpu", dtype, threads, config.deterministic, folder)

    def make_roles(self, blueprint: Blueprint) -> tuple[Rollouts, LearnerRole | None]:
        """The roles of a run."""
        spec = ray.put(WorkerSpec.of(blueprint))
        rollouts: Rollouts = RayRollouts(blueprint, spec, self._placement, self._note)
        if not blueprint.learning:
            return rollouts, None
        if not self._settings.learner_workers:
            return rollouts, LocalLearner(make_learner(blueprint))
        learner: LearnerRole = RayLearner(blueprint, spec, self._placement)
        return rollouts, learner


@contextmanager
def ray_site(settings: DistributedConfig, note: Callable[[str], None]) -> Iterator[RaySite]:
    """A site on the cluster that the recipe names, or on a local Ray.

    Raises:
        ConfigError: there is no such cluster, or it is too small.
    """
    with connected(settings) as cluster:
        yield RaySite(settings, cluster, note)
