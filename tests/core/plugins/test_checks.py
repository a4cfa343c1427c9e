"""What `check_component` finds, kind by kind; and what is said of wrong options, under the key that somebody wrote."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator

from agent_r1_core import Algorithm, ComponentConfig, Engine, Metric, RewardFn, Tool, ToolEnv, ToolFormat
from agent_r1_core.contracts.score import DeclaredScore, ScoreFn
from agent_r1_core.plugins import Registry
from agent_r1_core.plugins.checks import check_component, check_registered
from agent_r1_core.plugins.validation import validate


def with_methods(base: type, /, **members: Any) -> type:
    return type("Mine", (base,), {"__doc__": "Mine.", **members})


def run(self: Any, arguments: Any, context: Any) -> str:
    return ""


def nothing(self: Any, *arguments: Any) -> None:
    return None


async def later(self: Any, *arguments: Any) -> None:
    return None


class Loose(ComponentConfig):
    model_config = ConfigDict(extra="ignore")


class Moving(ComponentConfig):
    movable: ClassVar[frozenset[str]] = frozenset({"adress"})
    address: str = ""


class Unsteady(ComponentConfig):
    share: float = float("nan")


class Needy(ComponentConfig):
    path: str


class LooseArguments(BaseModel):
    x: int = 0


FORMAT = {"system_prompt": nothing, "parse": nothing, "render_call": nothing}


@pytest.mark.parametrize(
    ("kind", "cls", "problem"),
    [
        ("tool", dict, "'dict' does not subclass Tool"),
        ("tool", with_methods(Tool), "run is missing; define run(self, arguments, context)"),
        ("tool", with_methods(Tool, run=lambda self: 1), "run(self) cannot be called as run(self, arguments, context)"),
        ("tool", with_methods(Tool, run=staticmethod(run)), "run is not a method"),
        ("tool", with_methods(Tool, run=run, open=later), "open must not be async"),
        ("tool", with_methods(Tool, run=run, __doc__=None), "the model is told nothing about it"),
        ("tool", with_methods(Tool, run=run, Arguments=LooseArguments), "silently accepts unknown arguments"),
        ("tool", with_methods(Tool, run=run, Arguments=dict), "Arguments is not a pydantic model"),
        ("tool", with_methods(Tool, run=run, schema=lambda self: {1, 2}), "not a function schema in JSON"),
        ("tool", with_methods(Tool, run=run, Config=dict), "Config does not subclass ComponentConfig"),
        ("tool", with_methods(Tool, run=run, Config=Loose), "leave extra='forbid' of ComponentConfig"),
        ("tool", with_methods(Tool, run=run, Config=Unsteady), "cannot be written to config.yaml and read again"),
        ("tool", with_methods(Tool, run=run, Config=Moving), "Config.movable names 'adress', which is not an option"),
        ("tool", with_methods(Tool, run=run, __init__=nothing), "does not keep its options"),
        ("tool", with_methods(Tool, run=run, __init__=lambda self: None), "cannot be made with its default options"),
        (
            "tool",
            with_methods(Tool, run=run, idle_options=classmethod(lambda cls, config: {"x": "y"})),
            "idle_options names 'x', which is not an option",
        ),
        ("env", with_methods(ToolEnv, reset=nothing, step=nothing, Config=Needy), "Config does not subclass EnvConfig"),
        ("reward", with_methods(RewardFn, scope="turn", score=nothing), "score_turn is missing"),
        (
            "reward",
            with_methods(RewardFn, score=nothing, scope="both"),
            "scope is 'both'; use 'episode', 'turn' or 'group'",
        ),
        ("reward", with_methods(RewardFn, score=nothing, score_turn=nothing), "score_turn is never called under scope"),
        ("reward", with_methods(RewardFn, score=nothing, range=(1, 0)), "the lowest score must be below the highest"),
        ("reward", with_methods(RewardFn, score=nothing, range=3), "range is 3; use (lowest, highest)"),
        ("reward", with_methods(RewardFn, score=nothing, cap=1.0), "a cap has no effect under scope 'episode'"),
        ("reward", with_methods(RewardFn, score_turn=nothing, scope="turn", cap=0), "cap is 0; use a number above 0"),
        ("tool", with_methods(Tool, run=run, reward_range=(1, 1)), "reward_range is (1, 1); the lowest score must be"),
        (
            "algorithm",
            with_methods(Algorithm, advantages=nothing, loss=nothing, roles=lambda self: frozenset({"judge"})),
            "roles() is ['judge']; it must have 'policy'",
        ),
        ("score", with_methods(ScoreFn, score=later), "declared is missing"),
        ("engine", with_methods(Engine, start=later, generate=nothing, load_weights=later), "generate must be async"),
        ("tool_format", with_methods(ToolFormat, **FORMAT, stop_strings="</a>"), "use a tuple of non-empty strings"),
        *(
            (
                "env",
                with_methods(ToolEnv, reset=nothing, step=nothing, metrics=metrics),
                f'metrics of Mine is {metrics!r}; write metrics = (Metric("name", "meaning"),), with Metric from',
            )
            for metrics in (("hits",), {"hits": "many"}, Metric("hits", "many"))
        ),
        ("tool_format", with_methods(ToolFormat, **FORMAT, template_tools=1), "use True or False"),
    ],
)
def test_a_broken_contract_is_said(kind, cls, problem):
    problems = check_component(kind, cls)
    assert any(problem in found for found in problems), problems


@pytest.mark.parametrize(
    ("kind", "cls"),
    [
        ("env", with_methods(ToolEnv, reset=later, step=later)),
        ("reward", with_methods(RewardFn, scope="turn", score_turn=later)),
        ("score", with_methods(ScoreFn, score=later, declared=DeclaredScore("turns"))),
    ],
)
def test_what_an_author_may_write_async_is_no_problem(kind, cls):
    assert check_component(kind, cls) == []


def test_wrong_options_of_a_preset_are_problems_missing_ones_are_not(local_plugin):
    path = local_plugin("""
        class Always(RewardFn):
            '''Always one.'''

            class Config(ComponentConfig):
                value: int
                other: int

            def score(self, trajectory):
                return 1.0

        @hookimpl
        def register_rewards():
            return [RewardSpec("always", ":Always", "One", presets=(Preset("twice", {"value": "x", "times": 2}),))]
        """)
    registry = Registry.discover([path])
    problems = {record.name: check_registered(registry, record) for record in registry.components("reward")}
    assert problems["always"] == []
    assert problems["twice"] == [
        "preset option value is 'x': input should be a valid integer, unable to parse string as an integer",
        "preset option times is not an option (options: value, other)",
    ]


class Inner(ComponentConfig):
    size: int
    shape: Literal["round", "flat"] = "round"


class Options(ComponentConfig):
    share: float | Literal["auto"] = "auto"
    inner: Inner | int = 1
    several: tuple[Inner, ...] = ()
    named: dict[str, Inner] = Field(default={})
    counts: dict[Literal["a"], int] = Field(default={}, max_length=1)
    even: int = 0

    @field_validator("even")
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("Odd numbers are not taken")
        return value


SIZE = "is not an option; did you mean 'size'? (options: size, shape)"


@pytest.mark.parametrize(
    ("options", "sentences"),
    [
        (
            {"share": "al"},
            [
                "share is 'al': input should be a valid number, unable to parse string as a number",
                "share is 'al': input should be 'auto'",
            ],
        ),
        (
            {"inner": {"size": 1, "siez": 2}},
            [f"inner.siez {SIZE}", "inner is {'size': 1, 'siez': 2}: input should be a valid integer"],
        ),
        ({"inner": {}}, ["inner.size is missing; it has no default", "inner is {}: input should be a valid integer"]),
        ({"several": [{"size": 1}, {"size": 1, "siez": 2}]}, [f"several[1].siez {SIZE}"]),
        ({"named": {"one": {"size": 1, "siez": 2}}}, [f"named.one.siez {SIZE}"]),
        ({"several": ({"size": 1, "shape": "x"},)}, ["several[0].shape is 'x': input should be 'round' or 'flat'"]),
        ({"counts": {"b": 1}}, ["counts.b is 'b': input should be 'a'"]),
        ({"even": 3}, ["even is 3: odd numbers are not taken"]),
        (
            {"even": "x" * 80},
            [f"even is '{'x' * 56}...: input should be a valid integer, unable"],
        ),
    ],
    ids=["union", "nested", "missing", "list", "mapping", "tuple", "key", "own rule", "long"],
)
def test_each_error_names_the_key_that_was_written(options, sentences):
    config, problems = validate(Options, options)
    assert config is None
    found = [f"{key} {problem}" for key, problem in problems]
    assert [text[: len(sentence)] for text, sentence in zip(found, sentences, strict=True)] == sentences
