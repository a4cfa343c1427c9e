"""The tracker `trackio` keeps the contract of trackers."""

from __future__ import annotations

from agent_r1_trackio.tracker import Trackio

from agent_r1_core.testing import TrackerContract


class TestTrackio(TrackerContract):
    component = Trackio
