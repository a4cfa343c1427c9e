"""Seconds in words."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """`42 s`, `3:05`, `2:10:00`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, rest = divmod(whole, 3600)
    minutes, rest = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
