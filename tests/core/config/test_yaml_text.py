"""YAML is read as people write it, and nothing in it is dropped."""

from __future__ import annotations

import itertools
import math

import pytest
import yaml

from agent_r1_core.config import yaml_text
from agent_r1_core.config.yaml_text import dump, parse
from agent_r1_core.errors import ConfigError

ANCHORS = "abcdefghi"
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{above}'] * 9)}]\n" for above, name in itertools.pairwise(ANCHORS)
)
"""Nine lines that stand for 9 to the power of 9 values."""
MERGED_BOMB = "a: &a {x: 1}\n" + "".join(
    f"{name}: &{name} {{<<: [{', '.join([f'*{above}'] * 9)}]}}\n" for above, name in itertools.pairwise(ANCHORS)
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("1e-6", 1e-6), ("2E4", 2e4), ("-1.5e+3", -1500.0), ("3", 3), ("1_000", 1000), ("true", True)),
        *((text, text) for text in ("010", "1:30", "yes", "2024-01-01")),
        *(("'1e-6'", "1e-6"), ("[a, {b: 1}]", ["a", {"b": 1}]), ("null", None), ("", None)),
    ],
)
def test_scalars_mean_what_a_person_means(text, value):
    found = parse(text, "here").value
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\nb: 2\na: 3", ["recipe x, line 3", "'a'", "line 1"]),
        ("a: {b: 1, b: 2}", ["line 1", "'b'"]),
        ("1: x", ["line 1", "'1'", "not text"]),
        ("a: [1,", ["recipe x", "not valid YAML"]),
        ("a: !custom 3", ["not valid YAML", "!custom"]),
        ("a: !!bool maybe", ["recipe x is not valid YAML", "does not fit the tag"]),
        ("a: !!float ''", ["recipe x is not valid YAML", "does not fit the tag"]),
        ("a: &x [*x]", ["contains itself"]),
        ("a: 1\n---\nb: 2", ["not valid YAML"]),
        ("a: \x00", ["not valid YAML"]),
        (f"a: {'9' * 10_000}", ["not valid YAML", "digits"]),
        ("[" * 5_000, ["recipe x", "nested too deeply"]),
        (BOMB, ["recipe x", "more than 100,000 keys and values, its aliases spelled out"]),
        (MERGED_BOMB, ["recipe x", "more than 100,000 keys and values, its aliases spelled out"]),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_what_cannot_be_read_is_named_with_its_line(text, words):
    with pytest.raises(ConfigError) as caught:
        parse(text, "recipe x")
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_long_text_is_not_read_to_its_end(monkeypatch):
    monkeypatch.setattr(yaml_text, "MOST_NODES", 10)
    with pytest.raises(ConfigError, match="more than 10 keys and values"):
        parse("a: [x, x, x, x, x, x, x, x, x, x, never closed", "here")


def test_merge_keys_aliases_infinity_and_nan_work_and_lines_are_known():
    text = "base: &base {x: 1, y: 2}\nmore:\n  <<: *base\n  y: 3\n"
    assert parse(text, "here").value["more"] == {"x": 1, "y": 3}
    lines = parse("a: 1\nb:\n  - x\n  - c: 2\n", "here").lines
    assert lines["a",] == 1
    assert lines["b", 1, "c"] == 4
    assert parse("-.inf", "here").value == -math.inf
    assert math.isnan(parse(".nan", "here").value)


def test_what_is_dumped_is_read_back_equal_and_keys_with_numbers_alone_stand_in_one_line():
    shared = ["no", "1e-6", "010", "true", "", "a: b", "2024-01-01", "ä", "null", "1:30", "line\nline", "- x"]
    shared += ["<<", "7e2"]
    value = {"texts": shared, "again": shared, "float": 1e-6, "big": 1e22, "int": 3, "none": None, "empty": [{}, []]}
    text = dump(value)
    assert parse(text, "here").value == value
    assert yaml.safe_load(text)["texts"] == shared
    value = {"a": {"threshold": 0.1, "steps": 10}, "b": {"name": "x", "size": 2}, "c": {}, "d": {"on": True}}
    text = dump(value)
    assert text == "a: {threshold: 0.1, steps: 10}\nb:\n  name: x\n  size: 2\nc: {}\nd:\n  'on': true\n"
    assert parse(text, "recipe").value == value
