"""Checks of the section `distributed`: workers that miss each other, and options without effect."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from agent_r1_core.errors import PluginError

if TYPE_CHECKING:
    from agent_r1_core.config.setup import Setup


def check_distributed(setup: Setup) -> None:
    """Check how the work is shared."""
    section = setup.config.distributed
    if setup.config.training.cpu_offload and setup.training:
        _check_offload(setup)
    if section.learner_workers and not section.rollout_workers:
        text = "needs rollout workers beside it; set distributed.rollout_workers to 1 or more"
        setup.problems.add(("distributed", "learner_workers"), text)
    if not section.used:
        for option in ("site", "gpus_per_rollout_worker", "placement", "address"):
            setup.idle(("distributed", option), "distributed.rollout_workers is 0, so that everything is one process")
    else:
        _check_site(setup)
    _check_gpus_of_an_engine(setup)
    if not section.learner_workers:
        setup.idle(("distributed", "gpus_per_learner_worker"), "distributed.learner_workers is 0")
    if section.placement == "colocated":
        text = "colocated workers share the GPUs that distributed.gpus_per_learner_worker gives"
        setup.idle(("distributed", "gpus_per_rollout_worker"), text)
    if section.placement == "colocated" and section.rollout_workers != section.learner_workers:
        text = (
            f"is colocated, which pairs every rollout worker with a learner worker, but there are "
            f"{section.rollout_workers} and {section.learner_workers}; set both to the same number"
        )
        setup.problems.add(("distributed", "placement"), text)
    if (
        section.used
        and setup.config.deterministic
        and (section.gpus_per_rollout_worker or section.gpus_per_learner_worker)
    ):
        setup.problems.add(("deterministic",), "needs the CPU, and workers have GPUs; set distributed.gpus_per_*=0")


def _check_site(setup: Setup) -> None:
    """Check that a plugin offers the site, and that Ray is there for its own."""
    name = setup.config.distributed.site
    try:
        setup.registry.find("site", name)
    except PluginError as error:
        setup.problems.add(("distributed", "site"), f"names no site: {error}")
    if name == "ray" and importlib.util.find_spec("ray") is None:
        setup.unavailable["distributed"] = (
            "distributed.rollout_workers needs Ray, which is not installed; run: pip install 'agent-r1[distributed]'"
        )


def _check_gpus_of_an_engine(setup: Setup) -> None:
    """Check that an engine of ours uses all GPUs of its rollout worker."""
    gpus, engine = setup.config.distributed.gpus_per_rollout_worker or 0, setup.config.engine
    uses = 1 if engine.name == "transformers" else getattr(engine.config, "tensor_parallel_size", gpus)
    if gpus > 1 and gpus != uses:
        text = (
            f"is {gpus:g}, but the engine uses {uses}; set engine.name=vllm, engine.processes=separate and "
            f"engine.tensor_parallel_size={gpus:g}, or take more rollout workers with one GPU each"
        )
        setup.problems.add(("distributed", "gpus_per_rollout_worker"), text)


def _check_offload(setup: Setup) -> None:
    """Check training.cpu_offload, which FSDP2 does for ranks with GPUs."""
    config, key = setup.config, ("training", "cpu_offload")
    if not config.distributed.learner_workers:
        text = "needs a learner worker; set distributed.rollout_workers and distributed.learner_workers to 1 or more"
        setup.problems.add(key, text)
    elif config.deterministic or config.model.device == "cpu" or config.distributed.gpus_per_learner_worker == 0:
        setup.problems.add(key, "has no effect here: the learner workers compute on the CPU; set it to false")
