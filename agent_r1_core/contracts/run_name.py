"""The form of a run's name, which is also the name of its folder."""

from __future__ import annotations

RUN_NAME = r"[A-Za-z0-9][A-Za-z0-9._+-]*"
"""A regular expression; no name is `..` or looks like an option."""
