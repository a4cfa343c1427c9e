"""Many processes and machines, on Ray: both roles that the trainer knows, each by several workers."""

from __future__ import annotations

from agent_r1_core.distributed.site import RaySite, ray_site

__all__ = ["RaySite", "ray_site"]
