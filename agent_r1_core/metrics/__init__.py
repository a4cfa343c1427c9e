"""Declares every metric of a run once; producers, monitors, displays and trackers look it up."""

from __future__ import annotations

from agent_r1_core.metrics.catalogue import Catalogue

__all__ = ["Catalogue"]
