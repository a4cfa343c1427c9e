"""Declares the tracker `trackio`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import TrackerSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_trackers() -> Iterable[TrackerSpec]:
    return [
        TrackerSpec(
            "trackio",
            "agent_r1_trackio.tracker:Trackio",
            "Curves and sampled trajectories for trackio's local dashboard, in the run's folder trackio/",
        )
    ]
