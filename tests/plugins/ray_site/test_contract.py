"""The site keeps the contract of its kind."""

from __future__ import annotations

from agent_r1_ray.site import ray_site

from agent_r1_core.testing import SiteContract


class TestRay(SiteContract):
    component = ray_site
