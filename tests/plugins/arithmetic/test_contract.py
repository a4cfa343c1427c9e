"""The task source `arithmetic` keeps the contract of task sources."""

from __future__ import annotations

from agent_r1_arithmetic.source import Arithmetic

from agent_r1_core.testing import TaskSourceContract


class TestArithmetic(TaskSourceContract):
    component = Arithmetic
