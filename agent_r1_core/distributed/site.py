"""RaySite: a run whose roles are workers of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import ray

from agent_r1_core.distributed.cluster import Cluster, Placement, connected
from agent_r1_core.distributed.learner import RayLearner
from agent_r1_core.distributed.rollouts import RayRollouts
from agent_r1_core.distributed.spec import WorkerSpec
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
        """Device, precision and threads of every worker."""
        config, placement = resolved.config, self._placement
        gpus = placement.play_gpus or placement.learn_gpus
        if gpus and config.model.device != "cpu" and not config.deterministic:
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
