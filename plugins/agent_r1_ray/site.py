"""RaySite: a run whose roles are workers of a Ray cluster. Ray is imported when a site opens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from agent_r1_core.assembly.components import make_learner
from agent_r1_core.assembly.hardware import Hardware, choose_hardware
from agent_r1_core.assembly.local_roles import LocalLearner
from agent_r1_core.errors import ConfigError
from agent_r1_core.work.running import run_async

if TYPE_CHECKING:
    from pathlib import Path

    from agent_r1_core.assembly.blueprint import Blueprint
    from agent_r1_core.assembly.roles import LearnerRole, Rollouts
    from agent_r1_core.config import ResolvedConfig
    from agent_r1_core.config.models import DistributedConfig
    from agent_r1_ray.cluster import Cluster


class RaySite:
    """Where the roles of a run are: on a cluster. Its rollout workers outlive a lost learner, and end in `close`."""

    def __init__(
        self, settings: DistributedConfig, cluster: Cluster, note: Callable[[str], None], learning: bool, direct: bool
    ) -> None:
        from agent_r1_ray.cluster import Placement
        from agent_r1_ray.crew import Crew

        self._settings, self._note, self._learning, self._direct = settings, note, learning, direct
        self._placement = Placement(settings, cluster)
        self._crew = Crew()

    def hardware(self, resolved: ResolvedConfig, dtype: str, folder: Path) -> Hardware:
        """Device, precision and threads of every worker. For `auto` every GPU is taken to compute in bfloat16: the
        controller cannot ask those of other machines. Where one does not, set model.dtype.

        Raises:
            ConfigError: one role has GPUs, and the other none; or there is nothing to off-load from.
        """
        config, placement = resolved.config, self._placement
        here = float(torch.cuda.is_available())
        learns = (placement.learn_gpus if placement.learners else here) if self._learning else placement.play_gpus
        gpus = placement.play_gpus, learns
        if any(gpus) and config.model.device != "cpu" and not config.deterministic:
            if not all(gpus):
                raise ConfigError(
                    f"a rollout worker has {gpus[0]:g} GPUs and the learner {gpus[1]:g}, but both compute on the same "
                    "kind of device; give GPUs to both, or set model.device=cpu"
                )
            return Hardware("cuda", "bfloat16" if dtype == "auto" else dtype, placement.threads)
        if self._learning and config.training.cpu_offload:
            raise ConfigError(
                "training.cpu_offload moves what a learner worker keeps from its GPU to main memory, but the learner "
                "workers of this run have no GPUs; set it to false"
            )
        threads = placement.threads if config.threads == "auto" and not config.deterministic else config.threads
        return choose_hardware("cpu", dtype, threads, config.deterministic, folder)

    def make_roles(self, blueprint: Blueprint) -> tuple[Rollouts, LearnerRole | None]:
        """The roles of a run."""
        import ray

        from agent_r1_ray.learner import RayLearner
        from agent_r1_ray.rollouts import RayRollouts
        from agent_r1_ray.spec import WorkerSpec

        spec = ray.put(WorkerSpec.of(blueprint))
        rollouts: Rollouts = RayRollouts(blueprint, spec, self._placement, self._crew, self._note)
        if not blueprint.learning:
            return rollouts, None
        if not self._settings.learner_workers:
            return rollouts, LocalLearner(make_learner(blueprint))
        learner: LearnerRole = RayLearner(blueprint, spec, self._placement, self._direct)
        return rollouts, learner

    def close(self) -> None:
        """End the rollout workers."""
        run_async(self._crew.close())


@contextmanager
def ray_site(
    settings: DistributedConfig, note: Callable[[str], None], lost: Callable[[str], None], learning: bool = True
) -> Iterator[RaySite]:
    """A site on the cluster that the recipe names, or on a local Ray.

    Args:
        lost: told in a thread, in one sentence, that Ray itself is lost; then the process ends.
        learning: False: nobody learns, so that nothing is kept free for it.

    Raises:
        ConfigError: there is no such cluster, it is too small, or NIXL is wanted and does not start.
    """
    from agent_r1_ray.cluster import connected
    from agent_r1_ray.lifeline import Lifeline

    if not learning:
        settings = settings.model_copy(update={"learner_workers": 0, "placement": "separate"})
    with connected(settings) as cluster:
        machines = "1 machine" if len(cluster.machines) == 1 else f"{len(cluster.machines)} machines"
        note(
            f"{'joined the' if settings.address else 'started a'} Ray at {cluster.address} ({machines}, "
            f"{sum(cluster.machines):g} CPUs, {cluster.gpus:g} GPUs) for {settings.rollout_workers} rollout and "
            f"{settings.learner_workers} learner workers"
        )
        direct = bool(settings.learner_workers) and _direct(settings.weights, note)
        site = RaySite(settings, cluster, note, learning, direct)
        lifeline = Lifeline(lost, learning, cluster.mark)
        try:
            yield site
        finally:
            site.close()
            lifeline.close()


def _direct(wanted: str, note: Callable[[str], None]) -> bool:
    """Whether new weights travel by NIXL.

    Raises:
        ConfigError: it is wanted, and does not start everywhere.
    """
    if wanted != "nixl":
        return False
    from agent_r1_ray.direct import refusal

    refused = refusal()
    if refused is not None:
        raise ConfigError(
            f"distributed.weights is nixl, which does not start: {refused}; `pip install 'agent-r1[nixl]'` on every "
            "machine, or set distributed.weights=store"
        )
    note("rollout workers read new weights from the learner workers by NIXL")
    return True
