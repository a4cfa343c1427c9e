"""Bounds of rewards: the range that a component declares for one, and the cap of their sum over an episode."""

from __future__ import annotations

from typing import Any

from agent_r1_core.trajectory import Trajectory

LARGEST = 1e18
"""No reward may be larger: its square must still be a number in float32."""
_SLACK = 1e-6
"""By how much a reward may exceed its range, for rounding."""


def number_of(value: Any) -> float | None:
    """Plain data as a float, if it is a number."""
    return float(value) if type(value) in (int, float, bool) else None


def allowed(bounds: tuple[float, float]) -> tuple[float, float]:
    """The declared range of a reward, as far as a reward may reach at all."""
    return max(bounds[0], -LARGEST), min(bounds[1], LARGEST)


def in_range(reward: float, bounds: tuple[float, float]) -> bool:
    """Whether a reward is, but for rounding, within its declared range."""
    low, high = allowed(bounds)
    return low - _SLACK <= reward <= high + _SLACK


def reward_problem(reward: float, bounds: tuple[float, float] | None) -> str | None:
    """What is wrong with the reward of a tool's call, to follow the tool's name; None if nothing is."""
    if bounds is None:
        return f"gave a reward of {reward:g} but declares no reward_range; declare one" if reward != 0 else None
    if in_range(reward, bounds):
        return None
    low, high = allowed(bounds)
    return f"gave a reward of {reward:g}, outside its reward_range {low:g} to {high:g}; fix one of them"


def within_cap(reward: float, cap: float | None, name: str, trajectory: Trajectory) -> float:
    """The part of the next reward that the cap leaves: the sum over the episode's turns stays from -cap to cap."""
    if cap is None:
        return reward
    earned = sum(turn.rewards.get(name, 0.0) for turn in trajectory.turns)
    return min(max(reward, -cap - earned), cap - earned)
