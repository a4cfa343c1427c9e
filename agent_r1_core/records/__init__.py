"""Records of data sets, for task sources."""

from __future__ import annotations

from agent_r1_core.records.config import Record, RecordsConfig
from agent_r1_core.records.files import read_records, stream_records, text_field
from agent_r1_core.records.tasks import RecordTasks

__all__ = ["Record", "RecordTasks", "RecordsConfig", "read_records", "stream_records", "text_field"]
