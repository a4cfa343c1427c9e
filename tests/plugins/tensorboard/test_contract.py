"""The tracker `tensorboard` keeps the contract of trackers."""

from __future__ import annotations

from agent_r1_tensorboard.tracker import TensorBoard

from agent_r1_core.testing import TrackerContract


class TestTensorBoard(TrackerContract):
    component = TensorBoard
