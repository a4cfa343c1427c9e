"""Wrong options of a component: a sentence for each, under the key that somebody wrote."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import Field, field_validator

from agent_r1_core import ComponentConfig
from agent_r1_core.plugins.validation import validate


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
def test_each_error_names_the_key_that_was_written(options: dict[str, Any], sentences: list[str]) -> None:
    config, problems = validate(Options, options)
    assert config is None
    found = [f"{key} {problem}" for key, problem in problems]
    assert [text[: len(sentence)] for text, sentence in zip(found, sentences, strict=True)] == sentences
