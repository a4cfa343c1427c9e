"""Declares the site `ray`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import SiteSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_sites() -> Iterable[SiteSpec]:
    """The one site of this plugin."""
    return [
        SiteSpec(
            "ray",
            "agent_r1_ray.site:ray_site",
            "Rollout and learner workers on Ray, on one machine or many",
            needs=("ray",),
            install="pip install 'agent-r1[distributed]'",
        )
    ]
