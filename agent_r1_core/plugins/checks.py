"""Static checks of a component against the contract of its kind; `plugins doctor` and the contract tests share them.

They look at a class and make one instance with default options; they cannot say whether it works well.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from agent_r1_core.contracts.component import Component, ComponentConfig
from agent_r1_core.contracts.reward import RewardFn
from agent_r1_core.contracts.score import DeclaredScore
from agent_r1_core.errors import AgentR1Error
from agent_r1_core.plugins.kinds import KINDS
from agent_r1_core.plugins.records import ComponentRecord, Findings, PluginRecord
from agent_r1_core.plugins.validation import validate, wrong_metrics
from agent_r1_core.specs import SiteSpec

if TYPE_CHECKING:
    from agent_r1_core.plugins.registry import Registry

REQUIRED: dict[str, tuple[str, ...]] = {
    "tool": ("run",),
    "env": ("reset", "step"),
    "reward": (),
    "score": ("score",),
    "algorithm": ("advantages", "loss"),
    "tasks": ("load",),
    "tracker": ("log",),
    "engine": ("start", "generate", "load_weights"),
    "tool_format": ("system_prompt", "parse", "render_call"),
    "context": ("next_context",),
}
"""Methods that a component of a kind must define; a reward's depends on its scope."""

SCORED = {"episode": "score", "turn": "score_turn", "group": "score_group"}
"""What a reward must define, by its scope."""

EITHER = {("tool", "run"), ("env", "reset"), ("env", "step"), ("env", "close")} | {
    ("reward", "score"),
    ("reward", "score_turn"),
    ("reward", "score_group"),
    ("score", "score"),
}
"""Methods that may be sync or async; every other method must be what the contract's own is."""


def check_plugin(registry: Registry, plugin: PluginRecord) -> Findings:
    """Import every component of a loaded plugin and look at it."""
    problems = [
        f"{record.kind} {record.name!r}: {problem}"
        for record in plugin.components
        for problem in check_registered(registry, record)
    ]
    own = [] if problems else [record for record in plugin.components if not record.alias_of]
    reasons = [(record, check_available(registry, record)) for record in own]
    return Findings(
        problems, [f"{record.kind} {record.name!r} cannot be used here: {why}" for record, why in reasons if why]
    )


def check_component(kind: str, cls: Any) -> list[str]:
    """What is wrong with a class as a component of `kind`: one sentence per problem."""
    base = KINDS[kind].base()
    if not (isinstance(cls, type) and issubclass(cls, base)):
        return [f"{getattr(cls, '__name__', cls)!r} does not subclass {base.__name__}"]
    problems = _check_config(cls, base) + _check_methods(kind, cls, base) + wrong_metrics(cls)
    if problems or any(field.is_required() for field in cls.Config.model_fields.values()):
        return problems
    try:
        instance = cls(cls.Config())
    except Exception as error:
        return [f"it cannot be made with its default options: {type(error).__name__}: {error}"]
    if not isinstance(getattr(instance, "config", None), cls.Config):
        return ["its constructor does not keep its options; call super().__init__(config)"]
    return _check_default_options(cls, instance.config) + _SPECIFIC.get(kind, lambda _: [])(instance)


def check_registered(registry: Registry, record: ComponentRecord) -> list[str]:
    """What is wrong with a registered name: its target, its class, the options that its preset sets."""
    try:
        if KINDS[record.kind].functions:
            return _FUNCTIONS[record.kind](registry.function(record.kind, record.qualified))
        loaded = registry.load(record.kind, record.qualified)
    except AgentR1Error as error:
        return [str(error)]
    if record.alias_of:
        return []
    if record.preset is None:
        return check_component(record.kind, loaded.cls)
    left_to_the_recipe = loaded.cls.Config.model_fields.keys() - loaded.preset_config.keys()
    _, problems = validate(loaded.cls.Config, loaded.preset_config)
    return [f"preset option {key} {problem}" for key, problem in problems if key not in left_to_the_recipe]


def check_command(function: Callable[..., Any]) -> list[str]:
    """What is wrong with a function as a command: one sentence per problem."""
    problems = [] if inspect.getdoc(function) else ["it has no docstring, which is its help"]
    parameters = inspect.signature(function).parameters.values()
    bare = [parameter.name for parameter in parameters if parameter.annotation is parameter.empty]
    return problems + [f"its parameter {name} has no annotation, by which Typer reads it" for name in bare]


def check_site(function: Callable[..., Any]) -> list[str]:
    """What is wrong with a function as a site: one sentence per problem."""
    problems = [] if inspect.getdoc(function) else ["it has no docstring"]
    try:
        inspect.signature(function).bind("settings", "note", "lost", "learning")
    except TypeError as error:
        problems.append(f"it cannot be called as site(settings, note, lost, learning): {error}")
    return problems


def check_available(registry: Registry, record: ComponentRecord) -> str | None:
    """Why a valid component cannot be used on this machine with its default options; None if it can."""
    if isinstance(record.spec, SiteSpec):
        return record.spec.unavailable()
    if KINDS[record.kind].functions:
        return None
    loaded = registry.load(record.kind, record.qualified)
    config, _ = validate(loaded.cls.Config, loaded.preset_config)
    return None if config is None else loaded.cls.unavailable(config)


def _check_config(cls: type[Component], base: type[Component]) -> list[str]:
    config, required = cls.Config, base.Config
    if not (isinstance(config, type) and issubclass(config, required)):
        return [f"Config does not subclass {required.__name__}; write class Config({required.__name__})"]
    problems = [
        f"Config switches {key} off; leave {key}={value!r} of ComponentConfig"
        for key, value in (("extra", "forbid"), ("frozen", True))
        if config.model_config.get(key) != value
    ]
    unknown = sorted(config.movable - config.model_fields.keys())
    problems += [f"Config.movable names {name!r}, which is not an option" for name in unknown]
    if any(field.is_required() for field in config.model_fields.values()):
        return problems
    try:
        default = config()
        again = config.model_validate(json.loads(default.model_dump_json()))
    except (ValueError, TypeError) as error:
        return [*problems, f"the defaults of Config cannot be written to config.yaml and read again: {error}"]
    if again != default:
        problems.append("the defaults of Config change when written to config.yaml and read again; use JSON-able types")
    return problems


def _check_methods(kind: str, cls: type[Component], base: type[Component]) -> list[str]:
    problems = [f"{name} is missing; define {name}{_signature(base, name)}" for name in _missing(kind, cls, base)]
    for name, original in inspect.getmembers(base, inspect.isfunction):
        method = inspect.getattr_static(cls, name)
        function = inspect.unwrap(getattr(cls, name)) if callable(getattr(cls, name)) else None
        if name.startswith("_") or function is original:
            continue
        if function is None or isinstance(method, (staticmethod, classmethod)):
            problems.append(f"{name} is not a method; write it as def {name}{_signature(base, name)}")
            continue
        given = inspect.signature(function)
        try:
            given.bind(*inspect.signature(original).parameters)
        except TypeError:
            problems.append(f"{name}{given} cannot be called as {name}{_signature(base, name)}")
        if (kind, name) not in EITHER and _is_async(function) != _is_async(original):
            problems.append(f"{name} must {'be' if _is_async(original) else 'not be'} async")
    return problems


def _missing(kind: str, cls: type[Component], base: type[Component]) -> list[str]:
    names = REQUIRED[kind]
    if kind == "reward":
        names = tuple(SCORED[scope] for scope in SCORED if scope == getattr(cls, "scope", ""))
    return [name for name in names if getattr(cls, name) is getattr(base, name)]


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _signature(base: type, name: str) -> str:
    return f"({', '.join(inspect.signature(getattr(base, name)).parameters)})"


def _check_default_options(cls: type[Component], config: ComponentConfig) -> list[str]:
    """What is wrong with what a class says of its default options."""
    problems = []
    try:
        unknown = set(cls.idle_options(config)) - set(cls.Config.model_fields)
    except Exception as error:
        problems.append(f"idle_options raised {type(error).__name__}: {error}")
    else:
        problems += [f"idle_options names {name!r}, which is not an option" for name in sorted(unknown)]
    try:
        reason = cls.unavailable(config)
    except Exception as error:
        problems.append(f"unavailable raised {type(error).__name__}: {error}")
    else:
        if reason is not None and not (isinstance(reason, str) and reason):
            problems.append(f"unavailable returned {reason!r}; return None or a sentence")
    return problems


def _check_tool(tool: Any) -> list[str]:
    arguments = tool.Arguments
    if not (isinstance(arguments, type) and issubclass(arguments, BaseModel)):
        return ["Arguments is not a pydantic model; write class Arguments(ToolArguments)"]
    problems = []
    if arguments.model_config.get("extra") != "forbid":
        problems.append("Arguments silently accepts unknown arguments; subclass ToolArguments, which forbids them")
    try:
        schema = tool.schema()
        json.dumps(schema)
        function = schema["function"]
        described, parameters = function["description"].strip(), function["parameters"]
    except Exception as error:
        return [*problems, f"schema() is not a function schema in JSON: {type(error).__name__}: {error}"]
    if not described:
        problems.append("the model is told nothing about it; give the class a docstring or a description")
    if parameters.get("type") != "object":
        problems.append("the parameters of its schema are not an object")
    return problems + ([] if tool.reward_range is None else _check_range("reward_range", tool.reward_range))


def _check_reward(reward: Any) -> list[str]:
    problems = []
    if reward.scope not in SCORED:
        problems.append(f"scope is {reward.scope!r}; use 'episode', 'turn' or 'group'")
    for scope, other in SCORED.items() if reward.scope in SCORED else ():
        if scope != reward.scope and getattr(type(reward), other) is not getattr(RewardFn, other):
            problems.append(f"{other} is never called under scope {reward.scope!r}; set the scope that you mean")
    if reward.cap is not None and reward.scope != "turn":
        problems.append(f"a cap has no effect under scope {reward.scope!r}, which scores once; remove it")
    elif reward.cap is not None and not (isinstance(reward.cap, int | float) and reward.cap > 0):
        problems.append(f"cap is {reward.cap!r}; use a number above 0, or None")
    if reward.asks_policy and reward.scope != "group":
        problems.append(f"asks_policy has no effect under scope {reward.scope!r}; use 'group', or remove it")
    return problems + _check_range("range", reward.range)


def _check_range(name: str, value: Any) -> list[str]:
    try:
        low, high = (float(bound) for bound in value)
    except (TypeError, ValueError):
        return [f"{name} is {value!r}; use (lowest, highest)"]
    if not low < high or math.isnan(low) or math.isnan(high):
        return [f"{name} is {value!r}; the lowest score must be below the highest"]
    return []


def _check_score(score: Any) -> list[str]:
    declares = isinstance(getattr(score, "declared", None), DeclaredScore)
    return [] if declares else ["declared is missing; write declared = DeclaredScore(meaning)"]


def _check_algorithm(algorithm: Any) -> list[str]:
    roles = algorithm.roles()
    known = {"policy", "critic", "reference"}
    if "policy" not in roles or not set(roles) <= known:
        return [f"roles() is {sorted(roles)}; it must have 'policy', and may have 'critic' and 'reference'"]
    return []


def _check_tool_format(tool_format: Any) -> list[str]:
    stops = tool_format.stop_strings
    problems = []
    if not isinstance(stops, tuple) or not all(isinstance(stop, str) and stop for stop in stops):
        problems.append(f"stop_strings is {stops!r}; use a tuple of non-empty strings")
    if not isinstance(tool_format.template_tools, bool):
        problems.append(f"template_tools is {tool_format.template_tools!r}; use True or False")
    return problems


_FUNCTIONS = {"command": check_command, "site": check_site}
"""By kind, what looks at a component that is a function."""
_SPECIFIC = {
    "tool": _check_tool,
    "reward": _check_reward,
    "score": _check_score,
    "algorithm": _check_algorithm,
    "tool_format": _check_tool_format,
}
"""By kind, what looks at an instance of a component's class."""
