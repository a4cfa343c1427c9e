"""Survivors that no test can tell from the original, or that none should: why, by file, text before and text after."""

from __future__ import annotations

EXPLAINED: dict[tuple[str, str, str], str] = {}
