"""The site keeps the contract of its kind, and all workers have room when a machine is lost."""

from __future__ import annotations

import pytest
from agent_r1_ray.cluster import cpus_per_worker
from agent_r1_ray.site import ray_site

from agent_r1_core.testing import SiteContract


class TestRay(SiteContract):
    component = ray_site


@pytest.mark.parametrize(
    ("machines", "workers", "share"),
    [
        ([16], 4, 1),
        ([2], 3, 0.666),
        ([2, 2], 4, 0.5),
        ([1, 1, 1], 3, 0.5),  # two on each, though two CPUs would give three workers more
        ([0, 4], 8, 0.5),  # a head that runs no workers
        ([64, 8, 8], 20, 0.8),
        ([16] * 33, 512, 1),
        ([2], 3000, 0),  # Ray counts no less than a thousandth
    ],
)
def test_all_workers_fit_without_the_largest_machine(machines: list[float], workers: int, share: float) -> None:
    assert cpus_per_worker(machines, workers) == share
