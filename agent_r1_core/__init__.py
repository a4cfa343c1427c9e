"""agent-r1: train LLM agents with end-to-end reinforcement learning over multi-turn tool use.

Everything that an author needs is here; names load on first access, so that importing this package stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from agent_r1_core.attribute_texts import show_attributes

_NAMES = {
    "contracts.algorithm": "Algorithm AlgorithmConfig DenseConfig",
    "contracts.blocks": "ToolFormatBlock",
    "contracts.component": "ComponentConfig DataPath LocalPath",
    "contracts.context": "ContextStrategy Exchange History SummaryRequest",
    "contracts.demonstration": "demonstrated_actions DemonstratedAction text_of",
    "contracts.engine": "check_request context_digest Engine EngineConfig EngineModel Generation Request Sampling",
    "contracts.env": "Action EnvConfig EnvServices Observation Outcome RequestOptions Step ToolEnv",
    "contracts.markup": "Markup",
    "contracts.metric": "Metric",
    "contracts.reward": "NotedScore RewardFn",
    "contracts.score": "DeclaredScore ScoreFn",
    "contracts.tasks": "Passage TaskSource",
    "contracts.tool": "Tool tool ToolArguments ToolContext ToolResources",
    "contracts.tool_format": "describe_schema ParsedAction ToolCall ToolFormat ToolResult",
    "contracts.toolset": "SchemaTool Toolset",
    "contracts.tracker": "RunInfo Tracker",
    "engines.function": "FunctionEngine",
    "engines.threaded": "ThreadedEngine",
    "engines.weights": "KnownWeights",
    "engines.worker": "EngineBackend EngineLimits",
    "errors": "AgentR1Error ComponentLoadError ConfigError EngineError EpisodeError TaskError ToolError",
    "evaluation.episode_record": "new_lines supporting_titles",
    "folders": "cache_dir",
    "hookspecs": "hookimpl",
    "metrics.scorers": "exact_match_score f1_score is_accepted misread normalize_answer",
    "records": "read_records Record RecordTasks RecordsConfig stream_records text_field",
    "runs.run": "Run",
    "specs": "AlgorithmSpec CommandSpec ContextSpec EngineSpec EnvSpec Preset RewardSpec ScoreSpec "
    "SiteSpec TaskSpec ToolFormatSpec ToolSpec TrackerSpec",
    "training.api": "train",
    "trajectory": "CallRecord EndStatus Group Message ObservationSource Segment Task Trajectory Turn",
    "work": "Work WorkDisplay working",
}
"""Public names by the module that has them."""
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

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
