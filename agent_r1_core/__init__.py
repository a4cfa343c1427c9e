"""agent-r1: train LLM agents with end-to-end reinforcement learning over multi-turn tool use.

Everything that an author needs is here; names load on first access, so that importing this package stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from agent_r1_core.attribute_texts import show_attributes

_HOMES = {
    "Action": "contracts.env",
    "AgentR1Error": "errors",
    "Algorithm": "contracts.algorithm",
    "AlgorithmConfig": "contracts.algorithm",
    "AlgorithmSpec": "specs",
    "CallRecord": "trajectory",
    "CommandSpec": "specs",
    "ComponentConfig": "contracts.component",
    "ComponentLoadError": "errors",
    "ConfigError": "errors",
    "ContextSpec": "specs",
    "DataPath": "contracts.component",
    "DeclaredScore": "contracts.score",
    "DemonstratedAction": "contracts.demonstration",
    "ContextStrategy": "contracts.context",
    "DenseConfig": "contracts.algorithm",
    "EndStatus": "trajectory",
    "Engine": "contracts.engine",
    "EngineBackend": "engines.worker",
    "EngineConfig": "contracts.engine",
    "EngineError": "errors",
    "EngineLimits": "engines.worker",
    "EngineModel": "contracts.engine",
    "EngineSpec": "specs",
    "EnvConfig": "contracts.env",
    "EnvServices": "contracts.env",
    "EnvSpec": "specs",
    "EpisodeError": "errors",
    "Exchange": "contracts.context",
    "FunctionEngine": "engines.function",
    "Generation": "contracts.engine",
    "Group": "trajectory",
    "History": "contracts.context",
    "KnownWeights": "engines.weights",
    "LocalPath": "contracts.component",
    "Markup": "contracts.markup",
    "Message": "trajectory",
    "Metric": "contracts.metric",
    "NotedScore": "contracts.reward",
    "Observation": "contracts.env",
    "Outcome": "contracts.env",
    "ObservationSource": "trajectory",
    "ParsedAction": "contracts.tool_format",
    "Passage": "contracts.tasks",
    "Preset": "specs",
    "Request": "contracts.engine",
    "RequestOptions": "contracts.env",
    "Record": "records",
    "RecordTasks": "records",
    "RecordsConfig": "records",
    "RewardFn": "contracts.reward",
    "RewardSpec": "specs",
    "ScoreFn": "contracts.score",
    "ScoreSpec": "specs",
    "SiteSpec": "specs",
    "Run": "runs.run",
    "RunInfo": "contracts.tracker",
    "Sampling": "contracts.engine",
    "SchemaTool": "contracts.toolset",
    "Segment": "trajectory",
    "Step": "contracts.env",
    "SummaryRequest": "contracts.context",
    "Task": "trajectory",
    "TaskError": "errors",
    "TaskSource": "contracts.tasks",
    "TaskSpec": "specs",
    "ThreadedEngine": "engines.threaded",
    "Tool": "contracts.tool",
    "ToolArguments": "contracts.tool",
    "ToolCall": "contracts.tool_format",
    "ToolContext": "contracts.tool",
    "ToolEnv": "contracts.env",
    "ToolError": "errors",
    "ToolFormat": "contracts.tool_format",
    "ToolFormatBlock": "contracts.blocks",
    "ToolFormatSpec": "specs",
    "ToolResources": "contracts.tool",
    "ToolResult": "contracts.tool_format",
    "Toolset": "contracts.toolset",
    "ToolSpec": "specs",
    "Tracker": "contracts.tracker",
    "TrackerSpec": "specs",
    "Trajectory": "trajectory",
    "Turn": "trajectory",
    "Work": "work",
    "WorkDisplay": "work",
    "cache_dir": "folders",
    "check_request": "contracts.engine",
    "context_digest": "contracts.engine",
    "demonstrated_actions": "contracts.demonstration",
    "describe_schema": "contracts.tool_format",
    "exact_match_score": "metrics.scorers",
    "f1_score": "metrics.scorers",
    "hookimpl": "hookspecs",
    "new_lines": "evaluation.episode_record",
    "normalize_answer": "metrics.scorers",
    "read_records": "records",
    "stream_records": "records",
    "supporting_titles": "evaluation.episode_record",
    "text_field": "records",
    "text_of": "contracts.demonstration",
    "tool": "contracts.tool",
    "train": "training.api",
    "working": "work",
}

__version__ = "0.1.0"
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'agent_r1_core' has no attribute {name!r}")
    value = getattr(import_module(f"agent_r1_core.{home}"), name)
    if isinstance(value, type):
        show_attributes(value)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
