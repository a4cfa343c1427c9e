"""Declares the tracker `tensorboard`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import TrackerSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_trackers() -> Iterable[TrackerSpec]:
    return [
        TrackerSpec(
            "tensorboard",
            "agent_r1_tensorboard.tracker:TensorBoard",
            "Curves and sampled trajectories for TensorBoard, in the run's folder tensorboard/",
        )
    ]
