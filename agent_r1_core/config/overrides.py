"""Overrides: the `key=value` arguments of a command, which form the top layer of the configuration."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent_r1_core.config.blocks import block_kind, spelled_out
from agent_r1_core.config.draft import At, Draft, Source, Whole
from agent_r1_core.config.yaml_text import parse, parse_plain, quoted
from agent_r1_core.errors import ConfigError


@dataclass(frozen=True)
class Override:
    text: str
    key: tuple[str, ...]
    value: Any

    @property
    def source(self) -> Source:
        """The source that errors and the run's record name."""
        return Source(f"override '{self.text}'", override=True)

    @property
    def layer(self) -> dict[str, Any]:
        """The override as a layer of steps; a whole block replaces one of the same component."""
        value = self.value
        key = tuple(int(part) if part.isdigit() else part for part in self.key)
        if block_kind(key) is not None:
            value = spelled_out(value, key)
            value = Whole(value) if isinstance(value, dict) else value
        for part in reversed(self.key[1:]):
            value = At({part: value})
        return {self.key[0]: value}


def parse_key(text: str) -> tuple[str, ...] | None:
    """The parts of `tools.0.top_k` or `tools[0].top_k`, or None if the text is not a key."""
    parts = tuple(re.sub(r"\[(\d+)\]", r".\1", text.strip()).split("."))
    return parts if all(re.fullmatch(r"[A-Za-z_]\w*|\d+", part) for part in parts) else None


def parse_override(text: str) -> Override:
    """Read `training.lr=1e-6`, `tools[0].top_k=3` or `tools=[{name: calculator}]`.

    A value that starts with a bracket, brace or quote is YAML. Any other value is a number, true, false, null, or text
    in which `#` and `:` are ordinary characters. An empty value is the empty text, as a shell passes `key=""`.

    Raises:
        ConfigError: there is no `=`, the key is malformed, or the value is not YAML.
    """
    name, equals, value = text.partition("=")
    key = parse_key(name)
    if not equals or key is None:
        raise ConfigError(f"override '{text}' is not of the form key=value; write it like training.lr=1e-4")
    value = value.strip()
    if value.startswith(("[", "{", '"', "'")):
        return Override(text, key, parse(value, f"override '{text}'").value)
    try:
        return Override(text, key, parse_plain(value) if value else "")
    except ValueError:
        raise ConfigError(f"override '{name}=...' has a number with too many digits; shorten it") from None


def text_override(key: str, text: str) -> str:
    """The override that gives a key this very text, also one that looks like a number, null or YAML."""
    return f"{key}={quoted(text)}"


def apply_overrides(draft: Draft, texts: Sequence[str]) -> list[str]:
    """Apply overrides to a draft: blocks and component names before their options, in whatever order they are given.

    Returns:
        A sentence for each override that is malformed, leads nowhere, or is undone by another one (LAW 8).
    """
    problems: list[str] = []
    overrides: list[Override] = []
    for text in texts:
        try:
            overrides.append(parse_override(text))
        except ConfigError as error:
            problems.append(str(error))
    before, replaced = len(problems), dict[str, str]()
    overrides.sort(key=lambda override: (len(override.key), override.key[-1] != "name"))
    standing: list[Override] = []
    for override in overrides:
        source = override.source
        problems += [f"{source.text}: {text}" for text in draft.merge(override.layer, source)]
        left = set(draft.sources.values())
        replaced |= {
            one.text: f"{source.text} replaces it; leave one out" for one in standing if one.source not in left
        }
        standing = [one for one in (*standing, override) if one.source in left]
        if source not in left:
            replaced[override.text] = "it gives no values; add some, or leave it out"
    if len(problems) == before:
        problems += [f"override '{text}' has no effect, since {why}" for text, why in replaced.items()]
    return problems
