"""ToolCounts: calls, errors, time-outs and seconds, tool by tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_r1_core.metrics import declared as metric
from agent_r1_core.metrics.rollouts import SCALE, mean_of_sum

_AWAY = "away"
"""What tools call their record of whether the service behind them was away."""


@dataclass
class ToolCount:
    """The calls of one tool."""

    calls: int = 0
    errors: int = 0
    timeouts: int = 0
    seconds: float = 0.0
    """Sum over calls."""
    numbers: dict[str, tuple[float, int]] = field(default_factory=dict)
    """The tool's own metrics: for each, the sum over the calls that recorded it, times `SCALE`, and their number."""

    def add(self, *, error: bool, seconds: float, numbers: Mapping[str, float]) -> None:
        self.calls += 1
        self.errors += error
        self.seconds += seconds
        for name, value in numbers.items():
            total, count = self.numbers.get(name, (0.0, 0))
            self.numbers[name] = (total + value * SCALE, count + 1)

    def __add__(self, other: ToolCount, sign: int = 1) -> ToolCount:
        numbers = dict(self.numbers)
        for name, (total, count) in other.numbers.items():
            own_total, own_count = numbers.get(name, (0.0, 0))
            numbers[name] = (own_total + sign * total, own_count + sign * count)
        return ToolCount(
            self.calls + sign * other.calls,
            self.errors + sign * other.errors,
            self.timeouts + sign * other.timeouts,
            self.seconds + sign * other.seconds,
            {name: number for name, number in numbers.items() if number[1]},
        )

    def __sub__(self, other: ToolCount) -> ToolCount:
        return self.__add__(other, -1)


@dataclass
class ToolCounts:
    """The calls of all tools."""

    by_tool: dict[str, ToolCount] = field(default_factory=dict)
    """Calls of tools that do not exist are counted under the empty name."""
    hung: int = 0
    """Calls that were given up: threads abandoned, processes killed."""

    @property
    def total(self) -> ToolCount:
        """All tools together; their seconds overlap."""
        return sum(self.by_tool.values(), ToolCount())

    def metrics(self) -> dict[str, float]:
        """Calls, errors and time, of all tools together and of each tool, and each tool's own metrics."""
        total = self.total
        metrics: dict[str, float] = {
            metric.TOOL_CALLS: float(total.calls),
            metric.TOOL_ERRORS: float(total.errors),
            metric.TOOL_TIMEOUTS: float(total.timeouts),
            metric.TIME_TOOLS: total.seconds,
        }
        for name, count in sorted(self.by_tool.items()):
            if name and count.calls:
                metrics[metric.CALLS_OF_TOOL.of(name)] = float(count.calls)
                metrics[metric.ERRORS_OF_TOOL.of(name)] = float(count.errors)
                metrics[metric.SECONDS_OF_TOOL.of(name)] = count.seconds / count.calls
                numbers = {key: mean_of_sum(total, n) for key, (total, n) in count.numbers.items()}
                metrics |= {f"tools/{name}/{key}": value for key, value in numbers.items()}
                if _AWAY in numbers:
                    metrics[metric.TOOL_AWAY] = max(metrics.get(metric.TOOL_AWAY, 0.0), numbers[_AWAY])
        return metrics

    def __add__(self, other: ToolCounts) -> ToolCounts:
        names = {**self.by_tool, **other.by_tool}
        return ToolCounts({name: self._of(name) + other._of(name) for name in names}, self.hung + other.hung)

    def __sub__(self, other: ToolCounts) -> ToolCounts:
        return ToolCounts({name: self._of(name) - other._of(name) for name in self.by_tool}, self.hung - other.hung)

    def _of(self, name: str) -> ToolCount:
        return self.by_tool.get(name, ToolCount())
