"""Long work: how far it is, how long it will still take, and who shows it."""

from __future__ import annotations

from agent_r1_core.work.display import WorkDisplay, WorkList, is_terminal, work_row
from agent_r1_core.work.work import LINE_SECONDS, Work, duration, watched_by, working

__all__ = [
    "LINE_SECONDS",
    "Work",
    "WorkDisplay",
    "WorkList",
    "duration",
    "is_terminal",
    "watched_by",
    "work_row",
    "working",
]
