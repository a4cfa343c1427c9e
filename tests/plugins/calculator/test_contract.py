"""The tool `calculator` keeps the contract of tools."""

from __future__ import annotations

from typing import ClassVar

from agent_r1_calculator.tool import Calculator

from agent_r1_core.testing import ToolContract


class TestCalculator(ToolContract):
    component = Calculator
    arguments: ClassVar = {"expression": "12 + 7"}
    expected = "19"
    refused: ClassVar = {"expression": "1 / 0"}
